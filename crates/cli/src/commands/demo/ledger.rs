//! The ledger: an append-only file outside the store that says which steps were executed, by which run.
//!
//! It is the demo's witness. Workflow histories say which steps are *recorded*; the ledger says which really *ran*.
//! A line is one `write` to a file in append mode, so `kill -9` cannot lose or tear it.

use super::order::Step;
use crate::error::CliError;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The ledger, open for one run.
pub struct Ledger {
    file: File,
    run: u32,
}

/// How often each step was started, by its name.
pub type Starts = HashMap<String, u32>;

/// What earlier runs wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entries {
    runs: u32,
    starts: Vec<(u32, String)>,
}

impl Entries {
    /// Reads the ledger; one that does not exist is empty.
    pub fn read(path: &Path) -> Result<Self, CliError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(CliError::failed(&format!("read the ledger {}", path.display()), error)),
        }
    }

    fn parse(text: &str) -> Self {
        let mut entries = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (
                words.next(),
                words.next().and_then(|run| run.parse().ok()),
                words.next(),
            ) {
                (Some("run"), Some(run), _) => entries.runs = entries.runs.max(run),
                (Some("start"), Some(run), Some(step)) => entries.starts.push((run, step.to_owned())),
                _ => {}
            }
        }
        entries
    }

    /// The number of the last run.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// How often each step of `batch` was started by the runs that `of_run` chooses.
    pub fn starts(&self, batch: u32, of_run: impl Fn(u32) -> bool) -> Starts {
        let prefix = format!("{batch}/");
        let mut starts = Starts::new();
        for (_, step) in self
            .starts
            .iter()
            .filter(|(run, step)| of_run(*run) && step.starts_with(&prefix))
        {
            *starts.entry(step.clone()).or_default() += 1;
        }
        starts
    }
}

impl Ledger {
    /// Opens the ledger for appending and begins a new run.
    pub fn begin(path: &Path, run: u32) -> Result<Self, CliError> {
        let could_not = |error| CliError::failed(&format!("open the ledger {}", path.display()), error);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(could_not)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(could_not)?;
        let ledger = Self { file, run };
        ledger
            .append(format!("run {run} pid {}\n", std::process::id()))
            .map_err(could_not)?;
        Ok(ledger)
    }

    /// Writes down that a step begins.
    pub fn started(&self, step: Step) -> io::Result<()> {
        self.append(format!("start {} {step}\n", self.run))
    }

    /// Writes down that a step ended, and how.
    pub fn finished(&self, step: Step, ok: bool) -> io::Result<()> {
        self.append(format!("{} {} {step}\n", if ok { "done" } else { "failed" }, self.run))
    }

    fn append(&self, line: String) -> io::Result<()> {
        (&self.file).write_all(line.as_bytes())
    }
}

/// Where the ledger of a store lies unless it is told: beside a store on disk, else in the current directory, and
/// for a store that does not outlive the process, in a temporary place.
pub fn default_path(store: &str) -> PathBuf {
    let (scheme, rest) = store.split_once(':').unwrap_or(("", store));
    match scheme {
        "memory" => std::env::temp_dir().join(format!("perennial-demo-{}.ledger", std::process::id())),
        "file" | "sqlite" => {
            let path = rest.split('?').next().unwrap_or(rest);
            let path = path.strip_prefix("//").unwrap_or(path).trim_end_matches('/');
            PathBuf::from(format!("{path}.ledger"))
        }
        _ => PathBuf::from("perennial-demo.ledger"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::{Action, Order};
    use super::*;

    #[test]
    fn what_was_written_is_read_back_by_run_and_batch() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er.ledger");
        assert_eq!(Entries::read(&path).unwrap(), Entries::default());
        let step = Order { batch: 1, number: 7 }.step(Action::PackLine, 2);
        let other = Order { batch: 11, number: 7 }.step(Action::PackLine, 2);
        let first = Ledger::begin(&path, 1).unwrap();
        first.started(step).unwrap();
        first.finished(step, true).unwrap();
        let second = Ledger::begin(&path, 2).unwrap();
        second.started(step).unwrap();
        second.started(step).unwrap();
        second.started(other).unwrap();
        let entries = Entries::read(&path).unwrap();
        assert_eq!(entries.runs(), 2);
        assert_eq!(
            entries.starts(1, |run| run == 1),
            Starts::from([("1/7/pack-line#2".into(), 1)])
        );
        assert_eq!(
            entries.starts(1, |_| true),
            Starts::from([("1/7/pack-line#2".into(), 3)])
        );
        assert_eq!(entries.starts(11, |_| true).len(), 1);
    }

    #[test]
    fn the_ledger_lies_beside_the_store() {
        assert_eq!(
            default_path("file://./perennial-data"),
            Path::new("./perennial-data.ledger")
        );
        assert_eq!(
            default_path("file:///var/lib/app/?x=1"),
            Path::new("/var/lib/app.ledger")
        );
        assert_eq!(default_path("s3://bucket/a"), Path::new("perennial-demo.ledger"));
    }
}
