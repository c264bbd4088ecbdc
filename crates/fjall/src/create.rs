//! Creating a new store, and starting over where an earlier attempt was interrupted.

use crate::files::{self, create_private_folder, ignore_missing, private, sync_folder};
use crate::{FORMAT, ledger};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

pub(crate) const FORMAT_FILE: &str = "FORMAT";
/// Present while a store is being created: what is beside it was never used.
pub(crate) const UNFINISHED_FILE: &str = "UNFINISHED";
const NEW_FORMAT_FILE: &str = "FORMAT.new";
pub(crate) const DATA: &str = "data";

/// Whether an interrupted creation may have left something of this name.
pub(crate) fn may_leave(name: &str) -> bool {
    [UNFINISHED_FILE, NEW_FORMAT_FILE, DATA, ledger::FOLDER].contains(&name)
}

/// Whether only an earlier attempt can have left what is there: no links, and no files of other programs.
pub(crate) fn is_own_remainder(store: &Path) -> io::Result<bool> {
    for name in [UNFINISHED_FILE, NEW_FORMAT_FILE] {
        if kind(&store.join(name))?.is_some_and(|kind| !kind.is_file()) {
            return Ok(false);
        }
    }
    Ok(is_own(&store.join(DATA), is_engine_file)? && is_own(&store.join(ledger::FOLDER), is_journal_note)?)
}

fn kind(path: &Path) -> io::Result<Option<fs::FileType>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) => ignore_missing(error).map(|()| None),
    }
}

/// Whether a folder is missing, or holds only files and folders with names that belong there.
fn is_own(folder: &Path, belongs: fn(&str, bool) -> bool) -> io::Result<bool> {
    match kind(folder)? {
        None => return Ok(true),
        Some(kind) if kind.is_dir() => {}
        Some(_) => return Ok(false),
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| belongs(name, kind.is_dir()));
        if !is_ours || !(kind.is_dir() || kind.is_file()) || (kind.is_dir() && !is_own(&entry.path(), belongs)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the engine has files, or folders, of this name.
fn is_engine_file(name: &str, is_folder: bool) -> bool {
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if is_folder {
        return ["keyspaces", "tables", "blobs"].contains(&name) || is_number(name);
    }
    let numbered = name.strip_suffix(".jnl").or_else(|| name.strip_prefix('v'));
    ["version", "lock", "current"].contains(&name)
        || name.starts_with(".tmp")
        || is_number(name)
        || numbered.is_some_and(is_number)
}

fn is_journal_note(name: &str, is_folder: bool) -> bool {
    !is_folder && (name.ends_with(".jnl") || name == "ledger" || name == "ledger.new")
}

/// Starts to create a store, over what an earlier attempt [left](is_own_remainder).
pub(crate) fn begin(store: &Path) -> io::Result<()> {
    let unfinished = store.join(UNFINISHED_FILE);
    fs::remove_file(&unfinished).or_else(ignore_missing)?;
    let mut file = private().write(true).create_new(true).open(unfinished)?;
    writeln!(file, "This directory is being made a store.")?;
    file.sync_all()?;
    sync_folder(store)?;
    for folder in [DATA, ledger::FOLDER] {
        let folder = store.join(folder);
        if folder.try_exists()? {
            fs::remove_dir_all(&folder)?;
        }
    }
    create_private_folder(&store.join(DATA))?;
    sync_folder(store)
}

/// Marks a new store as usable: from here on, missing files are damage.
pub(crate) fn finish(store: &Path) -> io::Result<()> {
    let text = format!("perennial {FORMAT}\nThis directory is a store. Only its program should change it.\n");
    files::replace(store, FORMAT_FILE, text.as_bytes())?;
    remove_mark(store)?;
    sync_folder(store)
}

/// Removes the mark of a store that is being created. It is left behind if the creation was interrupted at its very
/// end.
pub(crate) fn remove_mark(store: &Path) -> io::Result<()> {
    fs::remove_file(store.join(UNFINISHED_FILE)).or_else(ignore_missing)
}
