//! A demo as a separate process, watched by what it prints.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Nothing takes this long, even on the busiest machine: a longer wait is a hang.
const FOR_EVER: Duration = Duration::from_secs(240);

/// A demo that runs.
pub struct Demo {
    child: Child,
    lines: Receiver<String>,
    told: Vec<String>,
}

/// A demo that has ended.
pub struct Ended {
    pub status: ExitStatus,
    pub told: String,
}

impl Demo {
    /// Starts one.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            child,
            lines,
            told: Vec::new(),
        }
    }

    /// The next line; `None` when there are no more.
    fn line(&mut self, deadline: Instant) -> Option<String> {
        match self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            Ok(line) => {
                self.told.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                panic!("the demo hangs; it had said:\n{}", self.told.join("\n"));
            }
        }
    }

    /// Waits until it has finished at least this many activities. Returns false if it ended before.
    pub fn has_finished(&mut self, activities: u64) -> bool {
        let deadline = Instant::now() + FOR_EVER;
        while let Some(line) = self.line(deadline) {
            let count = line.split(' ').find_map(|word| word.strip_prefix("activities="));
            if count.is_some_and(|count| count.parse::<u64>().unwrap() >= activities) {
                return true;
            }
        }
        false
    }

    /// Waits until it prints a line that begins like this. Returns false if it ended before.
    pub fn says(&mut self, words: &str) -> bool {
        let deadline = Instant::now() + FOR_EVER;
        while let Some(line) = self.line(deadline) {
            if line.starts_with(words) {
                return true;
            }
        }
        false
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Ended {
        let deadline = Instant::now() + FOR_EVER;
        while self.line(deadline).is_some() {}
        let status = self.child.wait().unwrap();
        let mut errors = String::new();
        let stderr = self.child.stderr.take().unwrap();
        BufReader::new(stderr).read_to_string(&mut errors).unwrap();
        Ended {
            status,
            told: format!("{}\n{errors}", self.told.join("\n")),
        }
    }
}

impl Ended {
    /// The `key=value` lines of a demo that went well.
    pub fn facts(&self) -> HashMap<String, u64> {
        assert!(self.status.success(), "{}\n{}", self.status, self.told);
        let fact = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.to_owned(), value.parse().ok()?))
        };
        self.told.lines().filter_map(fact).collect()
    }
}
