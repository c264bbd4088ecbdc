//! The directory of a store: whose it is, in which format, and who has it open.

use crate::{FORMAT, OpenError, journal};
use perennial_kv::Table;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FORMAT_FILE: &str = "FORMAT";
/// There while a store is made: what is beside it was never used.
const UNFINISHED_FILE: &str = "UNFINISHED";
const NEW_FORMAT_FILE: &str = "FORMAT.new";
const LOCK_FILE: &str = "LOCK";
const DATA: &str = "data";

/// A store's directory, locked until this is dropped.
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// Whether the store is made just now, and is to be [finished](finish).
    pub(crate) is_new: bool,
    lock: File,
}

enum Found {
    Nothing,
    Store,
}

impl Directory {
    /// Locks the directory of a store, making one if nothing is there. Looks before it writes anything.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::failed(path, error);
        inspect(path)?;
        create(path).map_err(failed)?;
        let lock = lock(path)?;
        // Again, under the lock: another process may have been making the store just now.
        let is_new = matches!(inspect(path)?, Found::Nothing);
        let directory = Self {
            path: path.into(),
            is_new,
            lock,
        };
        match is_new {
            true => directory.begin().map_err(failed)?,
            false => {
                check_data(path)?;
                journal::mend(path, &directory.data())?;
                // Left behind if the making was cut short at its very end.
                fs::remove_file(path.join(UNFINISHED_FILE))
                    .or_else(ignore_missing)
                    .map_err(failed)?;
            }
        }
        Ok(directory)
    }

    /// Locks the directory of a store that was there before.
    pub(crate) fn reopen(path: &Path) -> Result<Self, OpenError> {
        match inspect(path)? {
            Found::Store => Self::open(path),
            Found::Nothing => Err(OpenError::damaged(path, "the store is gone; is its disk mounted?")),
        }
    }

    /// Where the database is.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Starts to make a store, over whatever an earlier start left.
    fn begin(&self) -> io::Result<()> {
        File::create(self.path.join(UNFINISHED_FILE))?.sync_all()?;
        sync_directory(&self.path)?;
        let data = self.data();
        if data.try_exists()? {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir(&data)?;
        sync_directory(&self.path)
    }
}

/// Makes a new store one that may be used: from here on, what is missing is missed.
pub(crate) fn finish(path: &Path) -> Result<(), OpenError> {
    let finish = || {
        write_format(path)?;
        fs::remove_file(path.join(UNFINISHED_FILE))?;
        sync_directory(path)
    };
    finish().map_err(|error| OpenError::failed(path, error))
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// The engine takes missing files for a new database, and then deletes what it finds unexplained. So nothing that must
/// be there may be missing when it starts.
fn check_data(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(path, error);
    let missing = |what: &str| OpenError::damaged(path, format!("{DATA}/{what} is missing"));
    let data = path.join(DATA);
    let exists = |name: &str| data.join(name).try_exists().map_err(failed);
    for name in ["version", "keyspaces", "keyspaces/0"] {
        if !exists(name)? {
            return Err(missing(name));
        }
    }
    let mut tables = 0;
    for table in fs::read_dir(data.join("keyspaces")).map_err(failed)? {
        let table = table.map_err(failed)?;
        if !table.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        let name = format!("keyspaces/{}/current", table.file_name().display());
        if !exists(&name)? {
            return Err(missing(&name));
        }
        tables += 1;
    }
    // The engine's own table of tables comes on top.
    if tables <= Table::ALL.len() {
        return Err(missing("a table"));
    }
    let mut files = fs::read_dir(&data).map_err(failed)?.flatten();
    if !files.any(|file| file.path().extension().is_some_and(|extension| extension == "jnl")) {
        return Err(missing("the journal"));
    }
    Ok(())
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, path = %self.path.display(), "the lock of the store could not be released");
        }
    }
}

/// Looks at what is there, without changing anything.
fn inspect(path: &Path) -> Result<Found, OpenError> {
    let failed = |error| OpenError::failed(path, error);
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    };
    match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => return check_format(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(OpenError::NotAStore { path: path.into() });
        }
        Err(error) => return Err(failed(error)),
    }
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name());
    }
    let is_unfinished = names.iter().any(|name| name == UNFINISHED_FILE);
    // The lock comes first, and every new file system has a `lost+found`.
    let is_ours = |name: &OsString| {
        name == LOCK_FILE
            || name == "lost+found"
            || (is_unfinished && (name == UNFINISHED_FILE || name == DATA || name == NEW_FORMAT_FILE))
    };
    if !names.iter().all(is_ours) {
        return Err(OpenError::NotAStore { path: path.into() });
    }
    Ok(Found::Nothing)
}

fn check_format(path: &Path, text: &str) -> Result<Found, OpenError> {
    let number = text.strip_prefix("perennial ").and_then(|rest| rest.lines().next());
    match number.and_then(|number| number.trim().parse().ok()) {
        Some(FORMAT) => Ok(Found::Store),
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat {
            path: path.into(),
            found,
            supported: FORMAT,
        }),
        _ => Err(OpenError::damaged(path, "the file FORMAT cannot be understood")),
    }
}

/// Makes the directory, and sees to it that its name survives a power cut.
fn create(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))
        .map_err(|error| OpenError::failed(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::failed(path, error)),
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(NEW_FORMAT_FILE);
    let mut file = File::create(&new)?;
    writeln!(file, "perennial {FORMAT}")?;
    writeln!(file, "This directory is a store. Only its program should change it.")?;
    file.sync_all()?;
    fs::rename(&new, path.join(FORMAT_FILE))?;
    sync_directory(path)
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Elsewhere directories cannot be synced; the file systems there keep names themselves.
#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}
