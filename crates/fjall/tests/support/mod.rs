//! A child process that commits and reports what was acknowledged, and power cuts under it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, dead_code)]

pub mod damage;
pub mod faults;
mod preload;

pub use preload::compile;

use perennial_fjall::{FjallStore, Settings, open};
use perennial_store::{Commit, Draft, Key, Lane, Op, Order, Partition, Place, RecordId, Store};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// An acknowledged commit: the writer, and its number.
pub type Acknowledged = BTreeSet<(u64, u64)>;

/// How the child writes.
#[derive(Clone, Copy)]
pub struct Writing {
    pub writers: u64,
    /// The first number of each writer.
    pub from: u64,
    /// How many commits each makes; it is usually killed before.
    pub count: u64,
    pub body_bytes: usize,
    pub without_sync: bool,
}

fn partition(writer: u64, n: u64) -> Partition {
    Partition::new(format!("writer {writer}, instance {n}"))
}

/// One commit: it writes a page and a queued record, and deletes the previous queued record.
fn commit(writing: &Writing, writer: u64, n: u64) -> Commit {
    let key = |n, id: &str| Key::new(partition(writer, n), RecordId::of(id));
    let body = format!("{n} ").repeat(writing.body_bytes / 4);
    let place = Place {
        lane: Lane::new("work"),
        order: Order(n),
        due_ms: 0,
    };
    let mut ops = vec![
        Op::Create(Draft::new(key(n, "page"), body.clone())),
        Op::Create(Draft::new(key(n, "job"), body).placed(place)),
    ];
    if n > writing.from {
        ops.push(Op::Remove(key(n - 1, "job")));
    }
    Commit::new(ops)
}

/// What the child was told, if this process was started as one: the store, and how to write.
fn told() -> Option<(PathBuf, Writing)> {
    let path = std::env::var_os("CHILD_STORE")?;
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let writing = Writing {
        writers: number("CHILD_WRITERS"),
        from: number("CHILD_FROM"),
        count: number("CHILD_COUNT"),
        body_bytes: number("CHILD_BODY") as usize,
        without_sync: number("CHILD_WITHOUT_SYNC") == 1,
    };
    Some((path.into(), writing))
}

/// The child's part: does nothing unless this process was started as a child.
pub fn be_the_child() {
    let Some((path, writing)) = told() else { return };
    let settings = Settings {
        without_sync: writing.without_sync,
        ..Settings::default()
    };
    let store = Arc::new(open(path, settings).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let before = calls();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..writing.writers)
            .map(|writer| tokio::spawn(write(store.clone(), writing, writer)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    say(&format!("syncs {} {}", calls() - before, store.stats().syncs));
}

/// The part of a child that opens its store again after a failed sync. It reports what it then finds, and goes on.
pub fn be_the_child_that_reopens() {
    let Some((path, writing)) = told() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut store = open(&path, Settings::default()).unwrap();
    let mut broke = false;
    for n in writing.from..writing.from + writing.count {
        match runtime.block_on(store.commit(commit(&writing, 0, n))) {
            Ok(_) => say(&format!("acknowledged 0 {n}")),
            Err(error) => {
                assert!(!broke, "{error}");
                broke = true;
                drop(store);
                store = open(&path, Settings::default()).unwrap();
                if missing(&store, &Acknowledged::from([(0, n)])).is_empty() {
                    // From here on the program may act on it.
                    say(&format!("acknowledged 0 {n}"));
                }
            }
        }
    }
    say(if broke { "reopened" } else { "never broke" });
}

async fn write(store: Arc<FjallStore>, writing: Writing, writer: u64) {
    for n in writing.from..writing.from + writing.count {
        store.commit(commit(&writing, writer, n)).await.unwrap();
        say(&format!("acknowledged {writer} {n}"));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// How often this process has called sync, under [`Power`].
fn calls() -> usize {
    let shadow = std::env::var("POWER_SHADOW").unwrap_or_default();
    fs::read(Path::new(&shadow).join("calls")).map_or(0, |calls| calls.len())
}

/// This test binary again, as a child that writes.
pub fn child(path: &Path, writing: &Writing) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("CHILD_STORE", path)
        .env("CHILD_WRITERS", writing.writers.to_string())
        .env("CHILD_FROM", writing.from.to_string())
        .env("CHILD_COUNT", writing.count.to_string())
        .env("CHILD_BODY", writing.body_bytes.to_string())
        .env("CHILD_WITHOUT_SYNC", u8::from(writing.without_sync).to_string())
        .stdout(Stdio::piped());
    command
}

/// Runs a child that writes, until it ends or the power fails instead of a sync. Returns what was acknowledged, and
/// whether it ended.
pub fn run_until_sync(path: &Path, writing: &Writing, power: &Power, syncs: usize) -> (Acknowledged, bool) {
    let mut command = child(path, writing);
    command
        .env("LD_PRELOAD", &power.library)
        .env("POWER_REAL", path)
        .env("POWER_SHADOW", &power.shadow)
        .env("POWER_SYNCS", syncs.to_string());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (acknowledged_in(&text), output.status.success())
}

fn acknowledged_in(text: &str) -> Acknowledged {
    let acknowledged = text.lines().filter_map(|line| {
        let (writer, n) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
        Some((writer.parse().unwrap(), n.parse().unwrap()))
    });
    acknowledged.collect()
}

/// Runs a child under which the sync of a journal fails after this many, and that then opens its store again. Returns
/// what was acknowledged or found.
pub fn run_over_failed_sync(path: &Path, writing: &Writing, power: &Power, syncs: usize) -> Acknowledged {
    let mut command = child(path, writing);
    command
        .env("LD_PRELOAD", &power.library)
        .env("POWER_REAL", path)
        .env("POWER_SHADOW", &power.shadow)
        .env("POWER_FAIL", syncs.to_string());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("reopened"), "{text}");
    acknowledged_in(&text)
}

/// Starts a child that writes.
pub fn start_child(path: &Path, writing: &Writing, power: Option<&Power>) -> Child {
    let mut command = child(path, writing);
    if let Some(power) = power {
        command
            .env("LD_PRELOAD", &power.library)
            .env("POWER_REAL", path)
            .env("POWER_SHADOW", &power.shadow);
    }
    command.spawn().unwrap()
}

/// Kills the child after `after` acknowledged commits, and returns all that were acknowledged.
pub fn kill_after(mut child: Child, after: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        if let ["acknowledged", writer, n] = words[..] {
            acknowledged.insert((writer.parse().unwrap(), n.parse().unwrap()));
            if acknowledged.len() == after {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    acknowledged
}

/// Lets the child finish, and returns how often it synced: as the system saw it, and as the store counts.
pub fn syncs(mut child: Child) -> (usize, usize) {
    let mut counts = (0, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let ["syncs", seen, counted] = line.unwrap().split(' ').collect::<Vec<_>>()[..] {
            counts = (seen.parse().unwrap(), counted.parse().unwrap());
        }
    }
    assert!(child.wait().unwrap().success());
    counts
}

/// The acknowledged commits that the store lacks, or holds in part.
pub fn missing(store: &FjallStore, acknowledged: &Acknowledged) -> Vec<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let is_there = |writer, n, id| {
        let key = Key::new(partition(writer, n), RecordId::of(id));
        runtime.block_on(store.get(&key)).unwrap().is_some()
    };
    let mut missing = Vec::new();
    for &(writer, n) in acknowledged {
        // Its queued record is there, or a later commit deleted it.
        let is_whole = is_there(writer, n, "page")
            && (is_there(writer, n, "job")
                || is_there(writer, n + 1, "job")
                || acknowledged.contains(&(writer, n + 1)));
        if !is_whole {
            missing.push((writer, n));
        }
    }
    missing
}

/// A disk that forgets what was not synced.
pub struct Power {
    library: PathBuf,
    shadow: PathBuf,
}

impl Power {
    pub fn new(directory: &Path) -> Self {
        let power = Self {
            library: compile(directory, "power"),
            shadow: directory.join("shadow"),
        };
        power.clear();
        power
    }

    fn clear(&self) {
        fs::remove_dir_all(&self.shadow).ok();
        fs::create_dir_all(self.shadow.join("names")).unwrap();
        fs::create_dir_all(self.shadow.join("inodes")).unwrap();
    }

    /// Cuts the power: the directory becomes what was synced.
    pub fn cut(&self, real: &Path) {
        fs::remove_dir_all(real).unwrap();
        self.restore(&self.shadow.join("names"), real);
    }

    /// Keeps the current content of the directory safe from later cuts.
    pub fn keep(&self, real: &Path) {
        self.clear();
        self.adopt(real, &self.shadow.join("names"));
    }

    fn restore(&self, names: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(names).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                self.restore(&entry.path(), &target);
                continue;
            }
            let inode = fs::read_to_string(entry.path()).unwrap();
            let contents = self.shadow.join("inodes").join(inode);
            match contents.exists() {
                true => drop(fs::copy(contents, target).unwrap()),
                false => drop(fs::File::create(target).unwrap()),
            }
        }
    }

    fn adopt(&self, real: &Path, names: &Path) {
        fs::create_dir_all(names).unwrap();
        for entry in fs::read_dir(real).unwrap() {
            let entry = entry.unwrap();
            let name = names.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                self.adopt(&entry.path(), &name);
                continue;
            }
            let inode = entry.metadata().unwrap().ino().to_string();
            fs::copy(entry.path(), self.shadow.join("inodes").join(&inode)).unwrap();
            fs::write(name, inode).unwrap();
        }
    }
}
