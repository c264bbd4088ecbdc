//! Output to stdout: tables for people at a terminal, stable plain lines for everything else.

use crate::table::Table;
use std::io::{self, IsTerminal, Write};

/// One measured or counted fact: a stable key for programs, a description for people.
#[derive(Debug, Clone)]
pub struct Fact {
    key: &'static str,
    words: String,
    value: String,
}

/// A fact.
pub fn fact(key: &'static str, words: impl Into<String>, value: impl ToString) -> Fact {
    Fact {
        key,
        words: words.into(),
        value: value.to_string(),
    }
}

/// The program's stdout.
pub struct Output {
    terminal: bool,
}

impl Output {
    /// Output for a terminal or for a pipe, whichever stdout is.
    pub fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Whether stdout is a terminal, so that bars and tables make sense.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes one line.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())?;
        stdout.flush()
    }

    /// Writes facts under a title: a table at a terminal, `key=value` lines elsewhere.
    pub fn facts(&mut self, title: &str, facts: &[Fact]) -> io::Result<()> {
        if !self.terminal {
            return facts
                .iter()
                .try_for_each(|fact| self.line(format!("{}={}", fact.key, fact.value)));
        }
        let mut table = Table::new([title, ""]);
        for fact in facts {
            table.row([fact.words.clone(), fact.value.clone()]);
        }
        self.line(table.boxed())
    }

    /// Writes a table: boxed at a terminal, Markdown elsewhere.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.line(if self.terminal { table.boxed() } else { table.markdown() })
    }
}
