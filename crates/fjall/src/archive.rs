//! Archives: the files of named sections in which the engine keeps its manifests, tables and large values.
//!
//! The sections come first, then a table of contents (`TOC!`, a count, and for each section its position, length and
//! name), then a trailer of fixed size (`SFA!`, version, kind of checksum, checksum of the table of contents, its
//! position and length). All numbers are little-endian.
//!
//! The engine allocates memory for as many sections as a table of contents claims before it verifies the checksum, so
//! the checksum is verified here first.

use crate::bytes::Reader;
use crate::files::{Opened, flaw};
use std::io;
use xxhash_rust::xxh3::xxh3_128;

const TRAILER_LENGTH: u64 = 4 + 1 + 1 + 16 + 8 + 8;
const BLOCK_MAGIC: &[u8] = b"LSM\x03";
/// The part of a block's header that its own checksum covers.
const BLOCK_HEADER_LENGTH: usize = 4 + 1 + 16 + 4 + 4;

/// A part of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// The verified table of contents of an archive.
pub(crate) struct Archive(Vec<(Vec<u8>, Section)>);

impl Archive {
    pub(crate) fn read(file: &mut Opened) -> io::Result<Self> {
        let damaged = || flaw("has a damaged trailer");
        let trailer_at = file.length.checked_sub(TRAILER_LENGTH).ok_or_else(damaged)?;
        let trailer = file.part(trailer_at, TRAILER_LENGTH)?;
        let (checksum, at, length) = read_trailer(&trailer).ok_or_else(damaged)?;
        if at.checked_add(length) != Some(trailer_at) {
            return Err(damaged());
        }
        let contents = file.part(at, length)?;
        if xxh3_128(&contents) != checksum {
            return Err(flaw("has a damaged table of contents"));
        }
        read_contents(&contents)
            .filter(|sections| sections.iter().all(|(_, section)| section.is_before(at)))
            .map(Self)
            .ok_or_else(|| flaw("has a table of contents that cannot be decoded"))
    }

    pub(crate) fn section(&self, name: &str) -> Option<Section> {
        let found = self.0.iter().find(|(found, _)| found == name.as_bytes());
        found.map(|(_, section)| *section)
    }

    pub(crate) fn required(&self, name: &str) -> io::Result<Section> {
        self.section(name)
            .ok_or_else(|| flaw(format!("has no section {name:?}")))
    }
}

impl Section {
    fn is_before(self, end: u64) -> bool {
        self.at.checked_add(self.length).is_some_and(|to| to <= end)
    }

    pub(crate) fn read(self, file: &mut Opened) -> io::Result<Vec<u8>> {
        file.part(self.at, self.length)
    }
}

fn read_trailer(trailer: &[u8]) -> Option<(u128, u64, u64)> {
    let mut reader = Reader(trailer);
    let is_known = reader.take(4)? == b"SFA!" && reader.byte()? == 1 && reader.byte()? == 0;
    let found = (reader.u128()?, reader.u64()?, reader.u64()?);
    is_known.then_some(found)
}

fn read_contents(contents: &[u8]) -> Option<Vec<(Vec<u8>, Section)>> {
    let mut reader = Reader(contents);
    if reader.take(4)? != b"TOC!" {
        return None;
    }
    let count = reader.u32()?;
    let mut sections = Vec::new();
    for _ in 0..count {
        let (at, length) = (reader.u64()?, reader.u64()?);
        let name_length = reader.u16()?;
        let name = reader.take(usize::from(name_length))?.to_vec();
        sections.push((name, Section { at, length }));
    }
    Some(sections)
}

/// Verifies both checksums of a block: that of its header and that of its contents.
pub(crate) fn check_block(block: &[u8], what: &str) -> io::Result<()> {
    match skip_block(block) {
        Some([]) => Ok(()),
        _ => Err(flaw(format!("has a damaged {what} block"))),
    }
}

/// Whether bytes are a sequence of intact blocks.
pub(crate) fn are_blocks(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match skip_block(bytes) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

/// The bytes after a block, if the block is intact.
fn skip_block(block: &[u8]) -> Option<&[u8]> {
    let (header, rest) = block.split_at_checked(BLOCK_HEADER_LENGTH)?;
    let mut rest = Reader(rest);
    let header_checksum = rest.u32()?;
    let mut reader = Reader(header);
    let magic = reader.take(4)?;
    reader.byte()?;
    let (checksum, length) = (reader.u128()?, reader.u32()?);
    let contents = rest.take(usize::try_from(length).ok()?)?;
    let is_whole = magic == BLOCK_MAGIC && xxh3_128(header) as u32 == header_checksum && xxh3_128(contents) == checksum;
    is_whole.then_some(rest.0)
}
