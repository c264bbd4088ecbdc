//! Reads where one place on the disk may be damaged while the rest works.
//!
//! A read that fails for any reason (the device, a checksum, a length beyond a file's end, a panic of the engine over
//! what it found) is tried once more and then classified. If the disk [works](Disk::works) elsewhere, the requested
//! data is damaged: [`EngineError::Corrupt`]. If it does not, the store has failed: [`EngineError::Io`].

use crate::blob::Handle;
use crate::damaged_file;
use crate::disk::Disk;
use bytes::Bytes;
use fjall::{AbstractTree, Guard, Keyspace, LsmError, Readable, SeqNo, Snapshot, UserKey};
use lsm_tree::{InternalValue, ValueType};
use perennial_kv::{EngineError, Entry, Span};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a read failed.
enum Failure {
    /// The operating system refused: here, or everywhere.
    Io(io::Error),
    /// The stored bytes are not those that were written.
    Damage(String),
    /// This was classified already.
    Classified(EngineError),
}

impl Failure {
    /// The same failure, with its place.
    fn at(self, place: &str) -> Self {
        match self {
            Self::Damage(why) => Self::Damage(format!("{why}{place}")),
            Self::Io(error) => Self::Io(io::Error::new(error.kind(), format!("{error}{place}"))),
            classified @ Self::Classified(_) => classified,
        }
    }
}

impl From<fjall::Error> for Failure {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => error.into(),
            error => Self::Damage(error.to_string()),
        }
    }
}

impl From<LsmError> for Failure {
    fn from(error: LsmError) -> Self {
        fjall::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::Damage(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl From<Box<dyn Any + Send>> for Failure {
    fn from(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Damage(format!("the storage engine panicked: {}", text.unwrap_or("no reason")))
    }
}

/// Whether an entry of a table holds a handle instead of its value.
fn is_handle(entry: &InternalValue) -> bool {
    entry.key.value_type == ValueType::Indirection
}

/// The span of one key.
fn only(key: &[u8]) -> Span {
    Span {
        from: key.to_vec(),
        to: Some([key, &[0]].concat()),
    }
}

/// Reads, once more if that fails, and then classifies the failure.
fn classified<T>(disk: &Disk, read: impl Fn() -> Result<T, Failure>) -> Result<T, EngineError> {
    let read = || catch_unwind(AssertUnwindSafe(&read)).unwrap_or_else(|panic| Err(panic.into()));
    // The first failure may be that of a file which was compacted into another one at this very moment.
    let failure = match read().or_else(|_| read()) {
        Ok(value) => return Ok(value),
        Err(failure) => failure,
    };
    Err(match failure {
        Failure::Classified(error) => error,
        Failure::Damage(why) => EngineError::Corrupt(why),
        Failure::Io(error) if disk.works() => {
            EngineError::Corrupt(format!("{error}, while the rest of the disk works"))
        }
        Failure::Io(error) => EngineError::io(&error),
    })
}

/// Reads a table of the database as it was at one moment.
pub(crate) struct Reader<'a> {
    pub(crate) table: &'a Keyspace,
    pub(crate) seqno: SeqNo,
    pub(crate) disk: &'a Disk,
}

impl Reader<'_> {
    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        classified(self.disk, || self.read(key))
    }

    /// The first `limit` entries of a span.
    pub(crate) fn scan(&self, snapshot: &Snapshot, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        if span.to.as_ref().is_some_and(|to| *to <= span.from) {
            return Ok(Vec::new());
        }
        let outcome = classified(self.disk, || {
            let entries = match &span.to {
                Some(to) => snapshot.range(self.table, span.from.as_slice()..to.as_slice()),
                None => snapshot.range(self.table, span.from.as_slice()..),
            };
            let has_large = self.table.tree.blob_file_count() > 0;
            entries.take(limit).map(|entry| self.entry(entry, has_large)).collect()
        });
        outcome.map_err(|error| match error {
            EngineError::Corrupt(why) => EngineError::Corrupt(format!("{why}{}", self.damaged_file(span))),
            error => error,
        })
    }

    fn read(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        let found = self.table.tree.get_internal_entry(key, self.seqno);
        let Some(entry) = found.map_err(|error| Failure::from(error).at(&self.damaged_file(&only(key))))? else {
            return Ok(None);
        };
        if !is_handle(&entry) {
            return Ok(Some(entry.value.into()));
        }
        let handle = Handle::decode(&entry.value);
        let handle = handle.ok_or_else(|| Failure::Damage("the handle of its value is damaged".to_owned()))?;
        let path = handle.path(self.table.path());
        let in_file = |failure: Failure| failure.at(&format!(", in {}", self.disk.shown(&path).display()));
        match handle.is_confirmed(&path, key) {
            Ok(true) => {}
            Ok(false) => {
                return Err(in_file(Failure::Damage(
                    "the header of its value is damaged".to_owned(),
                )));
            }
            Err(error) => return Err(in_file(error.into())),
        }
        let value = self.table.tree.get(key, self.seqno);
        let value = value.map_err(|error| in_file(error.into()))?;
        Ok(value.map(Bytes::from))
    }

    /// The entry at one place of a scan. Large values are read one by one, so that each fails by itself.
    fn entry(&self, entry: Guard, has_large: bool) -> Result<Entry, Failure> {
        let (key, value) = entry.into_inner_if(|key| !has_large || !self.is_large(key))?;
        let value = match value {
            Some(value) => Ok(value.into()),
            None => match self.get(&key) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => Err("its value is missing".to_owned()),
                Err(EngineError::Corrupt(why)) => Err(why),
                Err(error) => return Err(Failure::Classified(error)),
            },
        };
        Ok((key.into(), value))
    }

    /// Whether a value is outside the table, as far as that can be determined.
    fn is_large(&self, key: &UserKey) -> bool {
        let entry = self.table.tree.get_internal_entry(key, self.seqno);
        !matches!(entry, Ok(Some(entry)) if !is_handle(&entry))
    }

    /// The file of the table that is damaged in a span, for error messages; empty if none is found.
    fn damaged_file(&self, span: &Span) -> String {
        let from = Bound::Included(UserKey::from(span.from.as_slice()));
        let to = span
            .to
            .as_deref()
            .map_or(Bound::Unbounded, |to| Bound::Excluded(UserKey::from(to)));
        let find = || {
            let version = self.table.tree.current_version();
            let mut tables = version.iter_tables();
            let damaged = tables.find(|table| {
                let has_bad_block = table.range((from.clone(), to.clone())).any(|entry| entry.is_err());
                has_bad_block || !damaged_file::has_index(&table.path)
            });
            damaged.map(|table| format!(", in {}", self.disk.shown(&table.path).display()))
        };
        catch_unwind(AssertUnwindSafe(find)).ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use tempfile::TempDir;

    /// A disk that works elsewhere, or does not.
    fn disk(works: bool) -> (TempDir, Disk) {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        fs::create_dir_all(data.join("keyspaces")).unwrap();
        if !works {
            fs::create_dir(directory.path().join("PROBE")).unwrap();
        }
        let disk = Disk::new(directory.path(), data);
        (directory, disk)
    }

    fn failing(kind: ErrorKind, works: bool) -> EngineError {
        let (_directory, disk) = disk(works);
        classified::<()>(&disk, || Err(io::Error::new(kind, "bad sector").into())).unwrap_err()
    }

    #[test]
    fn a_read_that_fails_in_one_place_is_damage_and_everywhere_it_is_the_disk() {
        let here = failing(ErrorKind::Other, true);
        assert!(
            matches!(&here, EngineError::Corrupt(why) if why.contains("bad sector")),
            "{here:?}"
        );
        assert!(matches!(failing(ErrorKind::Other, false), EngineError::Io(..)));
    }

    #[test]
    fn a_file_that_ends_too_early_is_damaged_whatever_the_disk_says() {
        assert!(matches!(
            failing(ErrorKind::UnexpectedEof, false),
            EngineError::Corrupt(_)
        ));
    }

    #[test]
    fn a_panic_of_the_engine_is_damage_of_what_was_read() {
        let (_directory, disk) = disk(false);
        let outcome = classified::<()>(&disk, || panic!("value handle did not match any blob"));
        assert!(
            matches!(&outcome, Err(EngineError::Corrupt(why)) if why.contains("did not match")),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_failure_that_passes_is_no_failure() {
        let (_directory, disk) = disk(false);
        let tries = Cell::new(0);
        let read = || match tries.replace(tries.get() + 1) {
            0 => Err(io::Error::other("once").into()),
            _ => Ok(7),
        };
        assert_eq!(classified(&disk, read).unwrap(), 7);
    }
}
