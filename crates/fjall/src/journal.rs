//! Reads one journal of the engine.
//!
//! A journal is a sequence of batches; a batch is a start (tag 1, count, sequence number), items (tag 2, type,
//! compression, table, lengths, key, value) and an end (tag 3, checksum of the items, a magic word). All numbers are
//! little-endian. Journals are preallocated, with zeros at their end.
//!
//! The checksum covers neither the sequence number of a batch nor which batches there are. So each batch also names the
//! sequence number of its predecessor, in an item of its own.

use crate::bytes::Reader;
use bytes::Bytes;
use perennial_kv::{Progress, Table, Write};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const ZEROS: [u8; 4096] = [0; 4096];

/// The key of the item that names the predecessor. No key of a record equals it: those contain a zero.
pub(crate) const PREVIOUS: &[u8] = b"previous";

/// The item by which a batch names its predecessor.
pub(crate) fn name_previous(sequence: u64) -> Write {
    Write::Put {
        table: Table::Meta,
        key: Bytes::from_static(PREVIOUS),
        value: Bytes::copy_from_slice(&sequence.to_le_bytes()),
    }
}

/// Whether only zeros are left.
pub(crate) fn is_blank(rest: &[u8]) -> bool {
    rest.chunks(ZEROS.len()).all(|chunk| ZEROS.starts_with(chunk))
}

/// Whether anything behind a broken batch proves that it was synced. `commit` and `sequence` are those of the batch
/// before it, where known.
pub(crate) fn proves_sync(broken: &[u8], mut commit: Option<u64>, sequence: Option<u64>) -> bool {
    let mut rest = broken;
    // Where the next batch begins is unknown: the end of the broken one may be the broken part.
    while let Some(start) = rest.iter().skip(1).position(|byte| *byte == START) {
        rest = rest.get(1 + start..).unwrap_or_default();
        while let Some(batch) = Batch::read(rest).filter(|batch| Some(batch.sequence) > sequence) {
            if let Some(progress) = batch.progress {
                if commit.is_some_and(|commit| progress.synced > commit) {
                    return true;
                }
                commit.get_or_insert(progress.last.saturating_sub(1));
            }
            rest = batch.rest;
        }
    }
    false
}

/// A complete batch.
pub(crate) struct Batch<'a> {
    /// Its sequence number.
    pub(crate) sequence: u64,
    /// The sequence number of the batch before it, if the program that wrote it records that.
    pub(crate) previous: Option<u64>,
    pub(crate) progress: Option<Progress>,
    pub(crate) rest: &'a [u8],
}

impl<'a> Batch<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.byte()? != START {
            return None;
        }
        let count = reader.u32()?;
        let sequence = reader.u64()?;
        let items = reader.0;
        let (mut previous, mut progress) = (None, None);
        for _ in 0..count {
            match reader.byte()? {
                ITEM => {
                    let (key, value) = read_item(&mut reader)?;
                    progress = Progress::read(key, value).or(progress);
                    if key == PREVIOUS {
                        previous = Some(Reader(value).u64()?);
                    }
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
            sequence,
            previous,
            progress,
            rest: reader.0,
        })
    }
}

/// The key and the value of an item.
fn read_item<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], &'a [u8])> {
    // The type, the compression (none, always), the table.
    reader.take(1 + 1 + 8)?;
    let key_length = reader.u16()?;
    reader.take(4)?;
    let value_length = usize::try_from(reader.u32()?).ok()?;
    Some((reader.take(usize::from(key_length))?, reader.take(value_length)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn item(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = vec![ITEM, 0, 0];
        out.extend(7_u64.to_le_bytes());
        out.extend((key.len() as u16).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend([key, value].concat());
        out
    }

    fn batch_of(sequence: u64, items: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![START];
        out.extend((items.len() as u32).to_le_bytes());
        out.extend(sequence.to_le_bytes());
        let items = items.concat();
        out.extend(&items);
        out.push(END);
        out.extend(xxh3_64(&items).to_le_bytes());
        out.extend(MAGIC);
        out
    }

    /// A batch with the progress of commit `last` and a large value, as older programs write it.
    pub(crate) fn batch(last: u64, synced: u64) -> Vec<u8> {
        let progress = [last.to_le_bytes(), synced.to_le_bytes()].concat();
        batch_of(last, &[item(b"record", &[5; 9000]), item(b"group", &progress)])
    }

    /// The batch that begins an epoch.
    pub(crate) fn epoch(sequence: u64, number: u64) -> Vec<u8> {
        batch_of(sequence, &[item(b"epoch", &number.to_le_bytes())])
    }

    /// A batch that names the one before it.
    pub(crate) fn chained(sequence: u64, previous: u64) -> Vec<u8> {
        let previous = item(PREVIOUS, &previous.to_le_bytes());
        batch_of(sequence, &[item(b"record", &[5; 9000]), previous])
    }

    #[test]
    fn a_batch_tells_its_number_and_that_of_the_one_before() {
        let bytes = chained(20, 10);
        let read = Batch::read(&bytes).unwrap();
        assert_eq!((read.sequence, read.previous), (20, Some(10)));
        assert!(read.progress.is_none() && read.rest.is_empty());
    }

    #[test]
    fn every_flipped_bit_of_a_batch_is_noticed_but_those_of_its_number() {
        let whole = chained(20, 10);
        for at in (0..5).chain(13..whole.len()) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(Batch::read(&flipped).is_none(), "byte {at}");
        }
    }
}
