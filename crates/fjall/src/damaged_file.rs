//! Finds the file that keeps a database from opening, because the engine's errors do not name it.

use lsm_tree::table::Block;
use lsm_tree::{Cache, Checksum, CompressionType, Table};
use std::fs;
use std::io;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of a blob file's metadata, before their block.
const META: &[u8] = b"META";

/// The first table or blob file of a database that is damaged where the engine reads when it opens, if there is one.
pub(crate) fn find(data: &Path) -> Option<PathBuf> {
    let mut tables: Vec<PathBuf> = files(&data.join("keyspaces")).ok()?;
    tables.sort();
    for table in tables {
        for (folder, is_whole) in [("tables", is_table as fn(&Path) -> bool), ("blobs", is_blob_file)] {
            let mut files = files(&table.join(folder)).unwrap_or_default();
            files.sort();
            let damaged = files
                .into_iter()
                .find(|file| !catch_unwind(|| is_whole(file)).unwrap_or(false));
            if damaged.is_some() {
                return damaged;
            }
        }
    }
    None
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

/// Opens a table, with its index and its filter.
fn open_table(path: &Path) -> lsm_tree::Result<Table> {
    let cache = Arc::new(Cache::with_capacity_bytes(0));
    Table::recover(path.into(), Checksum::from_raw(0), 0, 0, cache, None, true, true)
}

/// Whether the index and the filter of a table can be read.
pub(crate) fn has_index(path: &Path) -> bool {
    catch_unwind(|| open_table(path).is_ok()).unwrap_or(false)
}

/// Whether a table can be read from its start to its end.
fn is_table(path: &Path) -> bool {
    open_table(path).is_ok_and(|table| table.iter().all(|entry| entry.is_ok()))
}

/// Whether the end of a blob file is there, with the metadata of the rest.
fn is_blob_file(path: &Path) -> bool {
    let meta = || {
        let reader = sfa::Reader::new(path).ok()?;
        let section = reader.toc().section(b"meta")?;
        let (from, length) = (
            usize::try_from(section.pos()).ok()?,
            usize::try_from(section.len()).ok()?,
        );
        let bytes = fs::read(path).ok()?;
        let mut block = bytes.get(from..from.checked_add(length)?)?.strip_prefix(META)?;
        Block::from_reader(&mut block, CompressionType::None).ok()
    };
    meta().is_some()
}
