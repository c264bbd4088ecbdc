//! Decides whether the journals of a store are intact, before the engine reads them.
//!
//! A batch that was being written when the power failed may be on disk in part: its end, but not its middle. The engine
//! takes that for damage and refuses to open, although the commit never returned. So the last journal is truncated
//! before the first incomplete batch. Everything else is damage, and is reported: an incomplete batch that was synced,
//! a damaged journal before the last one, a missing journal, a missing end although the store was closed.

use crate::OpenError;
use crate::files::{self, Files};
use crate::journal::{Batch, is_blank, proves_sync};
use crate::ledger::{LEDGER, Ledger, journal, second_name};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The engine begins a new journal when the previous one holds more bytes than this.
const FULL: usize = 64_000_000;
/// Sequence numbers are also assigned to other things than batches, but never this many between two.
const LARGEST_STEP: u64 = 1 << 32;

/// How much of a journal is rewritten at a time.
const CHUNK: usize = 1 << 20;

/// What the journals hold, and how to repair them before the engine starts.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The sequence number of the last batch in the journals.
    pub(crate) last: Option<u64>,
    /// The number of the last journal.
    pub(crate) active: u64,
    /// Whether the store has a ledger.
    pub(crate) has_ledger: bool,
    /// Journals that the engine had deleted already, and that are restored for it.
    restored: Vec<u64>,
    /// Where the last journal is truncated.
    cut: Option<usize>,
    /// How much of the last journal is rewritten, because its last sync may have failed.
    unsynced: usize,
}

impl Recovery {
    /// Reads all journals of a store. Changes nothing.
    pub(crate) fn plan(files: &Files) -> Result<Self, OpenError> {
        let present = numbers(files)?;
        let noted = Ledger::read(files)?;
        let ledger = noted.filter(|ledger| !is_overtaken(ledger, &present));
        let restored = match &ledger {
            Some(ledger) => missing(files, ledger, &present)?,
            None => Vec::new(),
        };
        let all: BTreeSet<u64> = present.iter().chain(&restored).copied().collect();
        let (Some(first), Some(active)) = (all.first(), all.last()) else {
            return Err(files.damaged(format!("{} is missing", journal(0))));
        };
        if let Some(hole) = (*first..*active).find(|number| !all.contains(number)) {
            return Err(files.damaged(format!("{} is missing", journal(hole))));
        }
        let mut scan = Scan::new(files, ledger);
        let mut cut = None;
        for number in &all {
            cut = scan.read(*number, present.contains(number), number == active)?;
        }
        let is_required = ledger.is_some_and(|ledger| ledger.lowest.is_some() || present.contains(&ledger.active));
        if ledger.is_none() && scan.has_links {
            // No older program wrote these.
            let lost = noted.map_or_else(|| LEDGER.to_owned(), |noted| journal(noted.active));
            return Err(files.damaged(format!("{lost} is missing")));
        }
        scan.finish(*active, is_required)?;
        Ok(Self {
            last: scan.last,
            active: *active,
            has_ledger: ledger.is_some(),
            restored,
            cut,
            unsynced: match ledger.is_some_and(|ledger| ledger.is_closed) {
                true => 0,
                false => scan.end,
            },
        })
    }

    /// Repairs the journals. Every lock must be held.
    pub(crate) fn apply(&self, files: &Files) -> Result<(), OpenError> {
        for number in &self.restored {
            let linked = fs::hard_link(files.path(&second_name(*number)), files.path(&journal(*number)));
            linked.map_err(|error| files.failed(&journal(*number), error))?;
        }
        if !self.restored.is_empty() {
            files::sync_folder(&files.path("data")).map_err(|error| files.failed("data", error))?;
        }
        if self.cut.is_none() && self.unsynced == 0 {
            return Ok(());
        }
        let name = journal(self.active);
        let repair = || {
            let mut file = OpenOptions::new().read(true).write(true).open(files.path(&name))?;
            if let Some(at) = self.cut {
                tracing::warn!(
                    journal = name,
                    at,
                    "the last write was interrupted, so it never happened"
                );
                file.set_len(at as u64)?;
            }
            rewrite(&mut file, self.unsynced)?;
            file.sync_all()
        };
        repair().map_err(|error: io::Error| files.failed(&name, error))
    }
}

/// Rewrites the beginning of a file, as it is. After a failed sync the system still shows what was written and takes it
/// for safe, although the disk may not have it: only what is written again is synced again.
fn rewrite(file: &mut File, length: usize) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK.min(length)];
    let mut at = 0;
    while at < length {
        let part = chunk.get_mut(..CHUNK.min(length - at)).unwrap_or_default();
        file.seek(SeekFrom::Start(at as u64))?;
        file.read_exact(part)?;
        file.seek(SeekFrom::Start(at as u64))?;
        file.write_all(part)?;
        at += part.len();
    }
    Ok(())
}

/// The numbers of the journals that have their first name.
fn numbers(files: &Files) -> Result<BTreeSet<u64>, OpenError> {
    let mut numbers = BTreeSet::new();
    for (name, _) in files.entries("data")? {
        if !name.to_ascii_lowercase().ends_with(".jnl") {
            continue;
        }
        let number = name.strip_suffix(".jnl").and_then(|number| number.parse().ok());
        match number.filter(|number| name == format!("{number}.jnl")) {
            Some(number) => numbers.insert(number),
            None => return Err(files.damaged(format!("data/{name} is not the name of a journal"))),
        };
    }
    Ok(numbers)
}

/// Whether an older program, which does not know the ledger, has used the store since.
fn is_overtaken(ledger: &Ledger, present: &BTreeSet<u64>) -> bool {
    present.first().is_some_and(|first| *first > ledger.active + 1)
}

/// The journals that the engine had deleted before the ledger was updated. Any other missing journal was lost.
fn missing(files: &Files, ledger: &Ledger, present: &BTreeSet<u64>) -> Result<Vec<u64>, OpenError> {
    let lost = |number| Err(files.damaged(format!("{} is missing", journal(number))));
    if present.last().is_none_or(|last| *last < ledger.active) {
        // The engine never deletes the journal that it writes to.
        return lost(ledger.active);
    }
    let Some(lowest) = ledger.lowest else {
        return Ok(Vec::new());
    };
    let missing: Vec<u64> = (lowest..=ledger.active)
        .filter(|number| !present.contains(number))
        .collect();
    for number in &missing {
        if ledger.is_closed || !files.exists(&second_name(*number))? {
            return lost(*number);
        }
    }
    Ok(missing)
}

/// Reads journals one after another.
struct Scan<'a> {
    files: &'a Files,
    ledger: Option<Ledger>,
    /// The sequence number of the last batch.
    last: Option<u64>,
    /// The number of the last commit.
    commit: Option<u64>,
    /// Where the last batch of the last journal ends.
    end: usize,
    /// Whether the batch that the ledger names was found.
    found_last: bool,
    /// Whether a batch after that one names its predecessor.
    goes_beyond: bool,
    /// Whether any batch does.
    has_links: bool,
}

impl<'a> Scan<'a> {
    fn new(files: &'a Files, ledger: Option<Ledger>) -> Self {
        Self {
            files,
            ledger,
            last: None,
            commit: None,
            end: 0,
            found_last: false,
            goes_beyond: false,
            has_links: false,
        }
    }

    /// Reads a journal; returns where it is to be truncated.
    fn read(&mut self, number: u64, is_present: bool, is_active: bool) -> Result<Option<usize>, OpenError> {
        let name = journal(number);
        let bytes = match is_present {
            true => self.files.read(&name)?,
            false => self.files.read(&second_name(number))?,
        };
        let mut rest = bytes.as_slice();
        while let Some(batch) = Batch::read(rest) {
            let at = bytes.len() - rest.len();
            if !self.follows(&batch) {
                return Err(self.broken(number, at));
            }
            self.note(&batch);
            rest = batch.rest;
        }
        let at = bytes.len() - rest.len();
        self.end = at;
        if !is_active && at <= FULL {
            return Err(self
                .files
                .damaged(format!("{name} has lost its end, from byte {at} on")));
        }
        if is_blank(rest) {
            return Ok(None);
        }
        let is_lost = !is_active || proves_sync(rest, self.commit, self.last) || self.lacks_last();
        match is_lost {
            true => Err(self.files.damaged(format!("{name} has a damaged entry at byte {at}"))),
            false => Ok(Some(at)),
        }
    }

    /// Whether a batch directly follows the last one.
    fn follows(&self, batch: &Batch<'_>) -> bool {
        let Some(last) = self.last else { return true };
        let is_in_order = batch
            .sequence
            .checked_sub(last)
            .is_some_and(|step| step > 0 && step < LARGEST_STEP);
        is_in_order && batch.previous.is_none_or(|previous| previous == last)
    }

    fn note(&mut self, batch: &Batch<'_>) {
        self.last = Some(batch.sequence);
        self.commit = batch.progress.map(|progress| progress.last).or(self.commit);
        self.goes_beyond |= self.found_last && batch.previous.is_some();
        self.found_last |= self.ledger.is_some_and(|ledger| ledger.last == batch.sequence);
        self.has_links |= batch.previous.is_some();
    }

    fn lacks_last(&self) -> bool {
        !self.found_last && self.ledger.is_some_and(|ledger| ledger.last > 0)
    }

    fn broken(&self, number: u64, at: usize) -> OpenError {
        let why = match (at, number.checked_sub(1)) {
            (0, Some(before)) => format!(
                "{} does not go on where {} ends: one of them is damaged",
                journal(number),
                journal(before)
            ),
            _ => format!("{} has a damaged entry before byte {at}", journal(number)),
        };
        self.files.damaged(why)
    }

    /// Fails if what was read is not all that must be there.
    fn finish(&self, active: u64, is_required: bool) -> Result<(), OpenError> {
        let is_closed = self.ledger.is_some_and(|ledger| ledger.is_closed);
        let goes_beyond = is_closed && self.goes_beyond;
        match goes_beyond || (is_required && self.lacks_last()) {
            true => Err(self.files.damaged(self.lost_end(active))),
            false => Ok(()),
        }
    }

    fn lost_end(&self, active: u64) -> String {
        let name = journal(active);
        match self.end == 0 && active > 0 {
            true => format!("{name}, or {} before it, has lost its end", journal(active - 1)),
            false => format!("{name} does not end where it must: it was changed, or has lost its end"),
        }
    }
}

#[cfg(test)]
mod tests;
