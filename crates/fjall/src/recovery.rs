//! Deciding whether the journals of a store are whole, before the engine reads them.
//!
//! A batch that was being written when the power failed may be on disk in part: its end, but not its middle. The engine
//! takes that for damage and refuses to open, although nobody was answered. So the journal that was written last is cut
//! before the first batch that is not whole. Everything else is damage, and is told: a batch that was synced, a journal
//! before the last one, a journal that is missing, an end that is missing although the store was closed.

use crate::OpenError;
use crate::files::{self, Files};
use crate::journal::{Batch, is_blank, proves_sync};
use crate::ledger::{LEDGER, Ledger, journal, second_name};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The engine begins a new journal when the one before holds more bytes than this.
const FULL: usize = 64_000_000;
/// Sequence numbers are also given for other things than batches, but never so many between two.
const LARGEST_STEP: u64 = 1 << 32;

/// How much of a journal is written again at a time.
const CHUNK: usize = 1 << 20;

/// What the journals hold, and what is to be done to them before the engine starts.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The sequence number of the last batch in the journals.
    pub(crate) last: Option<u64>,
    /// The number of the last journal.
    pub(crate) active: u64,
    /// Whether the store has a ledger.
    pub(crate) has_ledger: bool,
    /// Journals that the engine had deleted already, and that are given back to it.
    restored: Vec<u64>,
    /// Where the last journal is cut.
    cut: Option<usize>,
    /// How much of the last journal is written again, because nobody knows whether its last sync succeeded.
    doubtful: usize,
}

impl Recovery {
    /// Looks at all journals of a store. Changes nothing.
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
            doubtful: match ledger.is_some_and(|ledger| ledger.is_closed) {
                true => 0,
                false => scan.end,
            },
        })
    }

    /// Does what is to be done. Every lock must be held.
    pub(crate) fn apply(&self, files: &Files) -> Result<(), OpenError> {
        for number in &self.restored {
            let linked = fs::hard_link(files.path(&second_name(*number)), files.path(&journal(*number)));
            linked.map_err(|error| files.failed(&journal(*number), error))?;
        }
        if !self.restored.is_empty() {
            files::sync_folder(&files.path("data")).map_err(|error| files.failed("data", error))?;
        }
        if self.cut.is_none() && self.doubtful == 0 {
            return Ok(());
        }
        let name = journal(self.active);
        let mend = || {
            let mut file = OpenOptions::new().read(true).write(true).open(files.path(&name))?;
            if let Some(at) = self.cut {
                tracing::warn!(journal = name, at, "the last write was cut short, so it never happened");
                file.set_len(at as u64)?;
            }
            write_again(&mut file, self.doubtful)?;
            file.sync_all()
        };
        mend().map_err(|error: io::Error| files.failed(&name, error))
    }
}

/// Writes the beginning of a file again, as it is. After a sync that failed, the system shows what was written and takes it
/// for safe, although the disk may not have it: only what is written again is synced again.
fn write_again(file: &mut File, length: usize) -> io::Result<()> {
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

/// The journals that the engine had deleted before it could be noted. Others that are missing were lost.
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
    /// Whether the batch that the ledger names was met.
    met: bool,
    /// Whether a batch after that names the one before it.
    is_overrun: bool,
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
            met: false,
            is_overrun: false,
            has_links: false,
        }
    }

    /// Reads a journal; returns where it is to be cut.
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

    /// Whether a batch comes right after the last one.
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
        self.is_overrun |= self.met && batch.previous.is_some();
        self.met |= self.ledger.is_some_and(|ledger| ledger.last == batch.sequence);
        self.has_links |= batch.previous.is_some();
    }

    fn lacks_last(&self) -> bool {
        !self.met && self.ledger.is_some_and(|ledger| ledger.last > 0)
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

    /// Whether what was read is all that must be there.
    fn finish(&self, active: u64, is_required: bool) -> Result<(), OpenError> {
        let is_closed = self.ledger.is_some_and(|ledger| ledger.is_closed);
        let is_overrun = is_closed && self.is_overrun;
        match is_overrun || (is_required && self.lacks_last()) {
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
mod tests {
    use super::*;
    use crate::journal::tests::{batch, chained, epoch};
    use std::path::Path;

    /// Plans the recovery of one journal with these batches.
    fn plan(ledger: Option<Ledger>, batches: &[Vec<u8>]) -> Result<Recovery, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        fs::create_dir(directory.path().join("journals")).unwrap();
        if let Some(ledger) = ledger {
            ledger.write(directory.path()).unwrap();
        }
        plan_in(directory.path(), batches)
    }

    fn plan_in(store: &Path, batches: &[Vec<u8>]) -> Result<Recovery, String> {
        let bytes = [batches.concat(), vec![0; 5000]].concat();
        fs::write(store.join("data/0.jnl"), bytes).unwrap();
        Recovery::plan(&Files::new(store, store)).map_err(|error| error.to_string())
    }

    fn cut(batches: &[Vec<u8>]) -> Option<usize> {
        plan(None, batches).unwrap().cut
    }

    fn refused(batches: &[Vec<u8>], at: usize) {
        let why = plan(None, batches).unwrap_err();
        assert!(
            why.contains(&format!("data/0.jnl has a damaged entry at byte {at};")),
            "{why}"
        );
    }

    fn tear(mut batch: Vec<u8>) -> Vec<u8> {
        batch[4096..8192].fill(0);
        batch
    }

    #[test]
    fn a_whole_journal_is_left_alone() {
        assert_eq!(cut(&[]), None);
        assert_eq!(cut(&[batch(10, 0), batch(20, 10)]), None);
    }

    #[test]
    fn a_batch_that_was_cut_short_is_found_at_every_byte() {
        let (whole, short) = (batch(10, 0), batch(20, 10));
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        for length in 1..short.len() - 1 {
            let batches = [whole.clone(), short[..length].to_vec()];
            assert_eq!(plan_in(directory.path(), &batches).unwrap().cut, Some(whole.len()));
        }
        assert_eq!(cut(&[whole.clone(), tear(short)]), Some(whole.len()));
    }

    #[test]
    fn relaxed_batches_behind_a_torn_one_fall_with_it() {
        let at = batch(10, 0).len();
        assert_eq!(cut(&[batch(10, 0), tear(batch(20, 10)), batch(30, 10)]), Some(at));
        assert_eq!(cut(&[tear(batch(20, 10)), batch(30, 10)]), Some(0));
    }

    #[test]
    fn a_synced_batch_is_never_cut() {
        let at = batch(10, 0).len();
        refused(&[batch(10, 0), tear(batch(20, 10)), batch(30, 20)], at);
        refused(&[tear(batch(20, 10)), batch(30, 20), batch(40, 30)], 0);
    }

    #[test]
    fn an_epoch_that_was_synced_proves_nothing_of_what_follows_it() {
        let first = 2 << 40;
        let before = [batch(10, 0), epoch(11, 2)];
        let at = before.concat().len();
        let torn = tear(batch(first + 1, first));
        let [a, b] = before;
        let relaxed = batch(first + 2, first);
        assert_eq!(cut(&[a.clone(), b.clone(), torn.clone(), relaxed]), Some(at));
        refused(&[a, b, torn, batch(first + 2, first + 1)], at);
    }

    const OPEN: Ledger = Ledger {
        lowest: Some(0),
        active: 0,
        last: 20,
        is_closed: false,
    };

    #[test]
    fn a_batch_that_is_missing_between_two_others_is_missed() {
        let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
        assert_eq!(plan(Some(OPEN), &batches).unwrap().last, Some(30));
        let why = plan(Some(OPEN), &[batches[0].clone(), batches[2].clone()]).unwrap_err();
        assert!(why.contains("data/0.jnl has a damaged entry before byte"), "{why}");
    }

    #[test]
    fn a_damaged_sequence_number_is_noticed() {
        let mut batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
        for byte in 5..13 {
            for bit in 0..8 {
                batches[1][byte] ^= 1 << bit;
                assert!(plan(Some(OPEN), &batches).is_err(), "bit {bit} of byte {byte}");
                batches[1][byte] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn what_the_ledger_names_must_be_there() {
        let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
        assert_eq!(plan(Some(OPEN), &batches[..2]).unwrap().last, Some(20));
        let why = plan(Some(OPEN), &batches[..1]).unwrap_err();
        assert!(why.contains("data/0.jnl does not end where it must"), "{why}");
        let why = plan(Some(OPEN), &[batches[0].clone(), tear(batches[1].clone())]).unwrap_err();
        assert!(why.contains("data/0.jnl has a damaged entry at byte"), "{why}");
    }

    #[test]
    fn nothing_follows_the_last_batch_of_a_store_that_was_closed() {
        let closed = Ledger {
            is_closed: true,
            ..OPEN
        };
        let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
        assert_eq!(plan(Some(closed), &batches[..2]).unwrap().last, Some(20));
        assert!(plan(Some(closed), &batches).is_err());
        // An older program has used it since.
        let older = [batches[0].clone(), batches[1].clone(), batch(30, 20)];
        assert_eq!(plan(Some(closed), &older).unwrap().last, Some(30));
    }

    #[test]
    fn a_ledger_that_is_missing_is_missed() {
        let why = plan(None, &[chained(10, 0)]).unwrap_err();
        assert!(why.contains("journals/ledger is missing"), "{why}");
    }
}
