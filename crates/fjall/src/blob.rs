//! Large values, which the engine keeps in separate files, and the checks that it does not make itself.
//!
//! A table holds a *handle* in place of a large value; its blocks have checksums. The value is in a blob file behind a
//! header, and the engine trusts the length in that header when it allocates memory to decompress. One flipped bit
//! there is an allocation of gigabytes, or a value with garbage at its end. So the header is compared with the handle
//! first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 4] = b"BLOB";
/// The magic bytes, a checksum of 16 bytes, a sequence number of 8, and three lengths.
const HEADER: usize = 4 + 16 + 8 + 2 + 4 + 4;
const LENGTHS_AT: usize = 4 + 16 + 8;

/// Where a large value is, according to its table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    offset: u64,
    file: u64,
    /// How many bytes it takes on disk.
    stored: u32,
    /// How many bytes it has.
    size: u32,
}

impl Handle {
    /// Decodes a handle; `None` if the bytes are not one.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let handle = Self {
            offset: take_varint(&mut bytes)?,
            file: take_varint(&mut bytes)?,
            stored: take_varint(&mut bytes)?.try_into().ok()?,
            size: take_varint(&mut bytes)?.try_into().ok()?,
        };
        bytes.is_empty().then_some(handle)
    }

    /// The file that holds the value, of a table in this directory.
    pub(crate) fn path(&self, table: &Path) -> PathBuf {
        table.join("blobs").join(self.file.to_string())
    }

    /// Whether the header of the value agrees with the handle.
    pub(crate) fn is_confirmed(&self, path: &Path, key: &[u8]) -> io::Result<bool> {
        let mut header = [0; HEADER];
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        file.read_exact(&mut header)?;
        let mut lengths = Vec::with_capacity(HEADER - LENGTHS_AT);
        lengths.extend((key.len() as u16).to_le_bytes());
        lengths.extend(self.size.to_le_bytes());
        lengths.extend(self.stored.to_le_bytes());
        Ok(header.starts_with(MAGIC) && header.ends_with(&lengths))
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_and_nothing_else_is() {
        let bytes = [0xAC, 0x02, 0x07, 0x80, 0x01, 0x05];
        let handle = Handle {
            offset: 300,
            file: 7,
            stored: 128,
            size: 5,
        };
        assert_eq!(Handle::decode(&bytes), Some(handle));
        assert_eq!(Handle::decode(&bytes[..5]), None);
        assert_eq!(Handle::decode(&[0xFF; 40]), None);
        assert_eq!(Handle::decode(&[0; 5]), None);
    }
}
