//! Tests whether a disk fails in one place or everywhere.

use crate::create::DATA;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that is written, synced, read and removed to test whether the disk works.
const PROBE_FILE: &str = "PROBE";
/// How many files of the database are tried before the disk is taken to have failed.
const OTHERS: usize = 16;

/// The disk under a store.
pub(crate) struct Disk {
    store: PathBuf,
    data: PathBuf,
    /// One probe at a time.
    probing: Mutex<()>,
}

impl Disk {
    /// The disk under the store in this directory, whose database is in `data`.
    pub(crate) fn new(store: &Path, data: PathBuf) -> Self {
        Self {
            store: store.into(),
            data,
            probing: Mutex::default(),
        }
    }

    /// The path of a database file for error messages: the engine may know its folder by another path.
    pub(crate) fn shown(&self, file: &Path) -> PathBuf {
        shown(&self.store, &self.data, file)
    }

    /// Whether the disk works except for the place that has just failed: something can be made durable and read back,
    /// and another file of the database can be read.
    pub(crate) fn works(&self) -> bool {
        let _alone = self.probing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match self.write_probe() {
            // A full disk works all the same.
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => true,
            outcome => outcome.is_ok(),
        };
        written && self.reads_others().unwrap_or(false)
    }

    fn write_probe(&self) -> io::Result<()> {
        let path = self.store.join(PROBE_FILE);
        let mut file = File::create(&path)?;
        file.write_all(PROBE_FILE.as_bytes())?;
        file.sync_data()?;
        let found = fs::read(&path);
        fs::remove_file(&path)?;
        match found? == PROBE_FILE.as_bytes() {
            true => Ok(()),
            false => Err(io::Error::other("the probe did not read back as it was written")),
        }
    }

    /// Whether the start of any of the first files of the database can be read.
    fn reads_others(&self) -> io::Result<bool> {
        let mut tried = 0;
        for table in fs::read_dir(self.data.join("keyspaces"))? {
            let table = table?.path();
            for folder in ["tables", "blobs"] {
                let Ok(files) = fs::read_dir(table.join(folder)) else {
                    continue;
                };
                for file in files.take(OTHERS.saturating_sub(tried)) {
                    tried += 1;
                    if file.and_then(|file| read_start(&file.path())).is_ok() {
                        return Ok(true);
                    }
                }
            }
        }
        // Where there is no other file, the probe has shown all there is to know.
        Ok(tried == 0)
    }
}

/// The path of a database file in `data` for error messages, below the directory of its store.
pub(crate) fn shown(store: &Path, data: &Path, file: &Path) -> PathBuf {
    match file.strip_prefix(data) {
        Ok(below) => store.join(DATA).join(below),
        Err(_) => file.into(),
    }
}

fn read_start(path: &Path) -> io::Result<()> {
    let mut start = [0; 4096];
    File::open(path)?.read(&mut start).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_works_is_said_to_and_nothing_is_left_on_it() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        fs::create_dir_all(data.join("keyspaces/1/blobs")).unwrap();
        let disk = Disk::new(directory.path(), data.clone());
        assert!(disk.works());
        fs::write(data.join("keyspaces/1/blobs/0"), "value").unwrap();
        assert!(disk.works());
        assert!(!directory.path().join(PROBE_FILE).exists());
    }

    #[test]
    fn a_disk_on_which_no_other_file_can_be_read_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        // Opening a directory works, reading from it as from a file does not.
        fs::create_dir_all(data.join("keyspaces/1/blobs/0")).unwrap();
        assert!(!Disk::new(directory.path(), data).works());
    }

    #[test]
    fn a_disk_that_takes_no_probe_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("data/keyspaces")).unwrap();
        fs::create_dir(directory.path().join(PROBE_FILE)).unwrap();
        assert!(!Disk::new(directory.path(), directory.path().join("data")).works());
    }
}
