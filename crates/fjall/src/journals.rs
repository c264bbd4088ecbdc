//! The journals of an open store: records which of them there must be.

use crate::files;
use crate::ledger::{self, Ledger, journal, second_name};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The journals of an open store.
pub(crate) struct Journals {
    root: PathBuf,
    ledger: Ledger,
    /// The name that the next journal will have.
    next: PathBuf,
    /// The sequence number of the last batch.
    pub(crate) last: u64,
    /// How many journals the engine has.
    count: usize,
    /// Whether every write so far has succeeded.
    pub(crate) is_sound: bool,
}

impl Journals {
    /// Records the journals of a store that has opened, before its first write.
    pub(crate) fn start(root: &Path, last: u64, count: usize) -> io::Result<Self> {
        let mut journals = Self {
            root: root.into(),
            ledger: Ledger {
                lowest: None,
                active: 0,
                last: 0,
                is_closed: false,
            },
            next: PathBuf::new(),
            last,
            count,
            is_sound: true,
        };
        journals.note(count, false)?;
        Ok(journals)
    }

    /// Records it if the engine has begun a journal or deleted some. Must be called before a write returns.
    pub(crate) fn follow(&mut self, count: usize) -> io::Result<()> {
        match count != self.count || self.next.try_exists()? {
            true => self.note(count, false),
            false => Ok(()),
        }
    }

    /// Records where the last journal ends. The engine must be gone, and everything synced.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.note(self.count, true)
    }

    fn note(&mut self, count: usize, is_closed: bool) -> io::Result<()> {
        let data = self.root.join("data");
        let mut present = ledger::numbers(&data)?;
        if is_closed {
            // It cannot be known any more whether the engine deleted a journal at the end, or another program did.
            let known = self.ledger.lowest.map(|lowest| lowest..=self.ledger.active);
            for number in known.into_iter().flatten().filter(|number| !present.contains(number)) {
                fs::hard_link(self.root.join(second_name(number)), self.root.join(journal(number)))?;
            }
            files::sync_folder(&data)?;
            present = ledger::numbers(&data)?;
        }
        let (Some(first), Some(active)) = (present.first().copied(), present.last().copied()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the journal is missing"));
        };
        let have_second_names = ledger::give_second_names(&self.root, &present)?;
        // A journal that the engine has but that is not there was deleted by another program, and is still needed.
        let known = self.ledger.lowest.filter(|_| present.len() < count);
        let lowest = have_second_names.then(|| known.map_or(first, |known| known.min(first)));
        let is_last_here = lowest.is_some_and(|lowest| lowest < active) || !is_blank(&self.root, active)?;
        self.ledger = Ledger {
            lowest,
            active,
            last: if is_last_here { self.last } else { 0 },
            is_closed,
        };
        self.next = self.root.join(journal(active + 1));
        self.count = count;
        self.ledger.write(&self.root)?;
        match lowest {
            Some(lowest) => ledger::drop_second_names(&self.root, lowest),
            None => Ok(()),
        }
    }
}

/// Whether nothing was ever written to a journal.
fn is_blank(root: &Path, number: u64) -> io::Result<bool> {
    use std::io::Read;
    let mut first = [0];
    let read = fs::File::open(root.join(journal(number)))?.read(&mut first)?;
    Ok(read == 0 || first == [0])
}
