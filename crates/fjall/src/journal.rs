//! Mending the journal's end after a power cut.
//!
//! A batch that was being written when the power failed may be on disk in part: its end, but not its middle. The engine
//! takes that for damage and refuses to open, although nobody was answered. So before the engine starts, the active
//! journal is read here, and cut before the first batch that is not whole.
//!
//! Only what was never synced is cut: if a later batch proves that the broken one was synced, the disk has lost what it had
//! promised to keep, and that must be told.
//!
//! A journal is a sequence of batches; a batch is a start (tag 1, count, sequence number), items (tag 2, type, compression,
//! table, lengths, key, value) and an end (tag 3, checksum of the items, a magic word). All numbers are little-endian.

use crate::OpenError;
use perennial_kv::Progress;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const ZEROS: [u8; 4096] = [0; 4096];

/// Cuts off a batch that was not written to its end, in the journal that was written last.
pub(crate) fn mend(store: &Path, data: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(store, error);
    let Some(path) = active(data).map_err(failed)? else {
        return Ok(());
    };
    let bytes = fs::read(&path).map_err(failed)?;
    let Some(torn) = find_torn(&bytes) else { return Ok(()) };
    if torn.was_synced {
        let why = format!("{} has a damaged entry at byte {}", path.display(), torn.at);
        return Err(OpenError::damaged(store, why));
    }
    tracing::warn!(journal = %path.display(), at = torn.at, "the last write was cut short, so it never happened");
    let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
    file.set_len(torn.at as u64)
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

/// The journal with the highest number.
fn active(data: &Path) -> io::Result<Option<PathBuf>> {
    let mut found: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number.filter(|number| found.as_ref().is_none_or(|(highest, _)| number > highest)) {
            found = Some((number, path));
        }
    }
    Ok(found.map(|(_, path)| path))
}

#[derive(Debug, PartialEq, Eq)]
struct Torn {
    at: usize,
    was_synced: bool,
}

/// The first batch that is not whole, if there is one.
fn find_torn(bytes: &[u8]) -> Option<Torn> {
    let mut rest = bytes;
    let mut last = None;
    while let Some(batch) = Batch::read(rest) {
        last = batch.progress.map(|progress| progress.last).or(last);
        rest = batch.rest;
    }
    // Journals are made longer than they are, with zeros.
    if rest.chunks(ZEROS.len()).all(|chunk| ZEROS.starts_with(chunk)) {
        return None;
    }
    Some(Torn {
        at: bytes.len() - rest.len(),
        was_synced: proves_sync(rest, last),
    })
}

/// Whether anything behind a broken batch proves that it was synced. `last` is the commit before it, where known.
fn proves_sync(broken: &[u8], mut last: Option<u64>) -> bool {
    let mut rest = broken;
    // A whole batch can only begin where another ended.
    while let Some(end) = rest.windows(MAGIC.len()).position(|word| word == MAGIC) {
        rest = rest.get(end + MAGIC.len()..).unwrap_or_default();
        while let Some(batch) = Batch::read(rest) {
            if let Some(progress) = batch.progress {
                if last.is_some_and(|last| progress.synced > last) {
                    return true;
                }
                last.get_or_insert(progress.last.saturating_sub(1));
            }
            rest = batch.rest;
        }
    }
    false
}

/// A batch that is whole.
struct Batch<'a> {
    progress: Option<Progress>,
    rest: &'a [u8],
}

impl<'a> Batch<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.byte()? != START {
            return None;
        }
        let count = reader.u32()?;
        reader.take(8)?;
        let items = reader.0;
        let mut progress = None;
        for _ in 0..count {
            match reader.byte()? {
                ITEM => {
                    let (key, value) = reader.item()?;
                    progress = Progress::read(key, value).or(progress);
                }
                CLEAR => drop(reader.take(8)?),
                _ => return None,
            }
        }
        let items = items.get(..items.len() - reader.0.len())?;
        let is_whole = reader.byte()? == END
            && reader.take(8)? == xxh3_64(items).to_le_bytes()
            && reader.take(MAGIC.len())? == MAGIC;
        is_whole.then_some(Self {
            progress,
            rest: reader.0,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn item(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        // The type, the compression (none, always), the table.
        self.take(1 + 1 + 8)?;
        let key_length = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        self.take(4)?;
        let value_length = usize::try_from(self.u32()?).ok()?;
        Some((self.take(usize::from(key_length))?, self.take(value_length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch with the progress of commit `last` and a large value.
    fn batch(last: u64, synced: u64) -> Vec<u8> {
        let item = |key: &[u8], value: &[u8]| {
            let mut out = vec![ITEM, 0, 0];
            out.extend(7_u64.to_le_bytes());
            out.extend((key.len() as u16).to_le_bytes());
            out.extend((value.len() as u32).to_le_bytes());
            out.extend((value.len() as u32).to_le_bytes());
            out.extend([key, value].concat());
            out
        };
        let progress = [last.to_le_bytes(), synced.to_le_bytes()].concat();
        let items = [item(b"record", &[5; 9000]), item(b"group", &progress)].concat();
        let mut out = vec![START];
        out.extend(2_u32.to_le_bytes());
        out.extend(last.to_le_bytes());
        out.extend(&items);
        out.push(END);
        out.extend(xxh3_64(&items).to_le_bytes());
        out.extend(MAGIC);
        out
    }

    fn tear(mut batch: Vec<u8>) -> Vec<u8> {
        batch[4096..8192].fill(0);
        batch
    }

    fn torn(batches: &[Vec<u8>]) -> Option<(usize, bool)> {
        let mut bytes = batches.concat();
        bytes.extend([0; 5000]);
        find_torn(&bytes).map(|torn| (torn.at, torn.was_synced))
    }

    #[test]
    fn a_whole_journal_is_left_alone() {
        assert_eq!(torn(&[]), None);
        assert_eq!(torn(&[batch(10, 0), batch(20, 10)]), None);
    }

    #[test]
    fn a_batch_that_was_cut_short_is_found_at_every_byte() {
        let whole = batch(10, 0);
        let cut = batch(20, 10);
        for length in 1..cut.len() - 1 {
            assert_eq!(
                torn(&[whole.clone(), cut[..length].to_vec()]),
                Some((whole.len(), false))
            );
        }
        assert_eq!(torn(&[whole.clone(), tear(cut)]), Some((whole.len(), false)));
    }

    #[test]
    fn relaxed_batches_behind_a_torn_one_fall_with_it() {
        let at = batch(10, 0).len();
        assert_eq!(
            torn(&[batch(10, 0), tear(batch(20, 10)), batch(30, 10)]),
            Some((at, false))
        );
        assert_eq!(torn(&[tear(batch(20, 10)), batch(30, 10)]), Some((0, false)));
    }

    #[test]
    fn a_synced_batch_is_never_cut() {
        let at = batch(10, 0).len();
        assert_eq!(
            torn(&[batch(10, 0), tear(batch(20, 10)), batch(30, 20)]),
            Some((at, true))
        );
        assert_eq!(
            torn(&[tear(batch(20, 10)), batch(30, 20), batch(40, 30)]),
            Some((0, true))
        );
    }
}
