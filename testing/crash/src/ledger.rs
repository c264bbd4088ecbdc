//! The ledger: a file outside the store, to which every fact is appended in one write.

use crate::line::Line;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The ledger, to write to.
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Opens the ledger for writing. A line that a kill has torn is closed, so that it spoils no other.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if std::fs::read(path)?.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { file })
    }

    /// Appends one line, in one write to a file opened for appending: lines of many threads do not mix, and a
    /// killed process leaves what it wrote.
    pub fn append(&self, line: &Line) {
        let text = format!("{line}\n");
        let written = (&self.file).write(text.as_bytes()).expect("the ledger can be written");
        assert_eq!(written, text.len(), "the ledger took half a line");
    }
}

/// The content of the ledger.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// The facts, in the order in which they happened.
    pub all: Vec<Line>,
    /// How many lines were torn by a kill.
    pub torn: usize,
}

impl Lines {
    /// Reads the ledger; nothing if there is none yet.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text?,
        };
        let mut lines = Self::default();
        for text in text.lines() {
            match Line::parse(text) {
                Some(line) => lines.all.push(line),
                None => lines.torn += 1,
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger");
        Ledger::open(&path).unwrap().append(&Line::Opened);
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"effect g1-f")
            .unwrap();
        Ledger::open(&path)
            .unwrap()
            .append(&Line::Finished("g1-fan".to_owned()));
        let lines = Lines::read(&path).unwrap();
        assert_eq!(lines.all, [Line::Opened, Line::Finished("g1-fan".to_owned())]);
        assert_eq!(lines.torn, 1);
    }
}
