//! The ledger: which journals there must be, in a small file that survives a crash.
//!
//! The engine deletes a journal when everything in it is in tables, without notice; so a missing journal may be one
//! that is not needed or one that was lost. Hence each journal has a second name in the folder `journals` from the time
//! it is used until the ledger says that it is not needed. One that the engine deleted a moment before a crash is
//! restored by that name; one that has neither name was lost.
//!
//! The ledger is written when a store has opened, when the engine has begun a journal, and when the store is closed:
//! never for a commit alone.

use crate::OpenError;
use crate::files::{self, Files};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const FOLDER: &str = "journals";
const NAME: &str = "ledger";
pub(crate) const LEDGER: &str = "journals/ledger";

/// What is recorded about the journals of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// The lowest number of a journal that is needed. Unknown where files cannot have a second name.
    pub(crate) lowest: Option<u64>,
    /// The number of the journal that is written to.
    pub(crate) active: u64,
    /// The sequence number of a batch that is in these journals, together with everything before it. 0 if there is
    /// none.
    pub(crate) last: u64,
    /// Whether the store was closed, and that batch is the last one.
    pub(crate) is_closed: bool,
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "perennial journals 1")?;
        match self.lowest {
            Some(lowest) => writeln!(f, "lowest {lowest}")?,
            None => writeln!(f, "lowest unknown")?,
        }
        writeln!(f, "active {}", self.active)?;
        writeln!(f, "last {}", self.last)?;
        writeln!(f, "{}", if self.is_closed { "closed" } else { "open" })
    }
}

impl Ledger {
    /// Reads the ledger of a store. Older programs keep none.
    pub(crate) fn read(files: &Files) -> Result<Option<Self>, OpenError> {
        if !files.exists(LEDGER)? {
            return Ok(None);
        }
        let ledger = Self::decode(&files.read(LEDGER)?);
        match ledger {
            Some(ledger) => Ok(Some(ledger)),
            None => Err(files.damaged(format!("{LEDGER} cannot be decoded"))),
        }
    }

    /// Writes the ledger, durably.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        files::replace(&root.join(FOLDER), NAME, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let text = self.to_string();
        format!("{text}checksum {:016x}\n", xxh3_64(text.as_bytes())).into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines().skip(1);
        let mut number = |name: &str| Some(lines.next()?.strip_prefix(name)?.parse::<u64>());
        let ledger = Self {
            lowest: number("lowest ")?.ok(),
            active: number("active ")?.ok()?,
            last: number("last ")?.ok()?,
            is_closed: lines.next()? == "closed",
        };
        // A ledger that does not encode back to the same bytes is damaged.
        (ledger.encode() == bytes).then_some(ledger)
    }
}

/// The name of a journal.
pub(crate) fn journal(number: u64) -> String {
    format!("data/{number}.jnl")
}

/// The second name of a journal.
pub(crate) fn second_name(number: u64) -> String {
    format!("{FOLDER}/{number}.jnl")
}

/// The numbers of the journals in a folder.
pub(crate) fn numbers(folder: &Path) -> io::Result<BTreeSet<u64>> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}

/// Gives every journal its second name, durably. `false` where files cannot have one.
pub(crate) fn give_second_names(root: &Path, journals: &BTreeSet<u64>) -> io::Result<bool> {
    let folder = root.join(FOLDER);
    match files::create_private_folder(&folder) {
        Ok(()) => files::sync_folder(root)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let mut is_changed = false;
    for number in journals {
        match give_second_name(root, *number) {
            Ok(is_new) => is_changed |= is_new,
            Err(error) if is_unsupported(&error) => {
                tracing::debug!(%error, "journals cannot have a second name here");
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    if is_changed {
        files::sync_folder(&folder)?;
    }
    Ok(true)
}

fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(
        error.kind(),
        CrossesDevices | PermissionDenied | TooManyLinks | Unsupported
    )
}

fn give_second_name(root: &Path, number: u64) -> io::Result<bool> {
    let (first, second) = (root.join(journal(number)), root.join(second_name(number)));
    match fs::hard_link(&first, &second) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if is_same(&first, &second)? {
                return Ok(false);
            }
            // The directory was copied, and the two names became two files.
            fs::remove_file(&second)?;
            fs::hard_link(&first, &second)?;
            Ok(true)
        }
        // The engine has deleted it just now.
        Err(error) => files::ignore_missing(error).map(|()| false),
    }
}

#[cfg(unix)]
fn is_same(first: &Path, second: &Path) -> io::Result<bool> {
    use crate::process_lock::Identity;
    match first.metadata() {
        Ok(metadata) => Ok(Identity::of(&metadata) == Identity::of(&second.metadata()?)),
        Err(error) => files::ignore_missing(error).map(|()| true),
    }
}

#[cfg(not(unix))]
fn is_same(_first: &Path, _second: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Drops the second names of journals that are not needed.
pub(crate) fn drop_second_names(root: &Path, below: u64) -> io::Result<()> {
    for number in numbers(&root.join(FOLDER))?.range(..below) {
        fs::remove_file(root.join(second_name(*number))).or_else(files::ignore_missing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGERS: [Ledger; 2] = [
        Ledger {
            lowest: Some(3),
            active: 5,
            last: 123_456,
            is_closed: true,
        },
        Ledger {
            lowest: None,
            active: 0,
            last: 0,
            is_closed: false,
        },
    ];

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        for ledger in LEDGERS {
            assert_eq!(Ledger::decode(&ledger.encode()), Some(ledger));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for ledger in LEDGERS {
            let whole = ledger.encode();
            for at in 0..whole.len() {
                assert_eq!(Ledger::decode(&whole[..at]), None);
                for bit in 0..8 {
                    let mut flipped = whole.clone();
                    flipped[at] ^= 1 << bit;
                    assert_eq!(Ledger::decode(&flipped), None, "bit {bit} of byte {at}");
                }
            }
        }
    }
}
