//! A child process whose file system refuses to work, and what it reports.

use super::{Acknowledged, Writing, child, commit, compile, say, told};
use perennial_fjall::{FjallStore, OpenError, Settings, open};
use perennial_store::Store;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How calls fail, by error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    NoPermission = 13,
    DiskFull = 28,
    ReadOnly = 30,
}

/// Which calls fail.
#[derive(Clone, Copy)]
pub struct Fault {
    pub cause: Cause,
    pub when: When,
    /// Only files with this word in their path fail.
    pub word: Option<&'static str>,
    /// How long the first call that fails takes, and all others wait for it.
    pub wait_ms: u64,
    /// How many threads write tables.
    pub workers: usize,
}

#[derive(Clone, Copy)]
pub enum When {
    /// After this many calls.
    Calls(usize),
    /// After this many bytes were written.
    Bytes(usize),
}

/// What a child reported until it ended.
#[derive(Default, Debug)]
pub struct ChildReport {
    /// Why the store did not open: the kind of the error and its text.
    pub refused: Option<(String, String)>,
    pub acknowledged: Acknowledged,
    /// The first error of each writer.
    pub errors: Vec<String>,
    /// The error of the commit that each writer tried after that.
    pub later: Vec<String>,
    /// Whether any call failed.
    pub tripped: bool,
}

/// A file system that refuses to work.
pub struct Faults {
    library: PathBuf,
    tripped: PathBuf,
}

impl Faults {
    pub fn new(directory: &Path) -> Self {
        Self {
            library: compile(directory, "faults"),
            tripped: directory.join("tripped"),
        }
    }

    /// Runs a child to its end, which it must reach by itself, in order.
    pub fn run(&self, path: &Path, writing: &Writing, fault: Fault) -> ChildReport {
        fs::remove_file(&self.tripped).ok();
        let mut command = child(path, writing);
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAULT_ROOT", path)
            .env("FAULT_TRIPPED", &self.tripped)
            .env("FAULT_ERRNO", (fault.cause as i32).to_string())
            .env("FAULT_WAIT_MS", fault.wait_ms.to_string())
            .env("CHILD_WORKERS", fault.workers.to_string())
            .stderr(Stdio::piped());
        match fault.when {
            When::Calls(calls) => command.env("FAULT_CALLS", calls.to_string()),
            When::Bytes(bytes) => command.env("FAULT_BYTES", bytes.to_string()),
        };
        if let Some(word) = fault.word {
            command.env("FAULT_WORD", word);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let noise = String::from_utf8(output.stderr).unwrap();
        assert!(!noise.contains("panicked"), "{noise}");
        assert!(output.status.success() && text.contains("\nclosed\n"), "{text} {noise}");
        let mut told = ChildReport {
            tripped: self.tripped.exists(),
            ..ChildReport::default()
        };
        text.lines().for_each(|line| told.hear(line));
        told
    }
}

impl ChildReport {
    fn hear(&mut self, line: &str) {
        let Some((word, rest)) = line.split_once(' ') else {
            return;
        };
        match word {
            "refused" => {
                let (kind, text) = rest.split_once(' ').unwrap();
                self.refused = Some((kind.to_owned(), text.to_owned()));
            }
            "acknowledged" => {
                let (writer, n) = rest.split_once(' ').unwrap();
                self.acknowledged.insert((writer.parse().unwrap(), n.parse().unwrap()));
            }
            "error" => self.errors.push(rest.to_owned()),
            "later" => self.later.push(rest.to_owned()),
            _ => {}
        }
    }
}

/// The child's part: does nothing unless this process was started as a child.
pub fn be_the_child() {
    let Some((path, writing)) = told() else { return };
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
            say("hangs");
            std::process::exit(1);
        }
    });
    let settings = Settings {
        worker_threads: std::env::var("CHILD_WORKERS").unwrap().parse().unwrap(),
        ..Settings::default()
    };
    match open(path, settings) {
        Ok(store) => write_until_refused(store, writing),
        Err(error) => say(&format!("refused {} {error}", kind(&error))),
    }
    say("closed");
    drop(done);
}

fn kind(error: &OpenError) -> String {
    let text = format!("{error:?}");
    text.split(' ').next().unwrap().to_owned()
}

fn write_until_refused(store: FjallStore, writing: Writing) {
    let store = Arc::new(store);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..writing.writers)
            .map(|writer| tokio::spawn(write(store.clone(), writing, writer)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn write(store: Arc<FjallStore>, writing: Writing, writer: u64) {
    for n in writing.from..writing.from + writing.count {
        if let Err(error) = store.commit(commit(&writing, writer, n)).await {
            say(&format!("error {error:?}"));
            let other = Writing { from: n + 1, ..writing };
            let later = store.commit(commit(&other, writer, n + 1)).await;
            return say(&format!("later {later:?}"));
        }
        say(&format!("acknowledged {writer} {n}"));
    }
}
