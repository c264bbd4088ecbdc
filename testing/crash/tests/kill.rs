//! Kills a real process at random moments while it runs workflows, and finds nothing lost and nothing repeated.
//!
//! A round is one store that is opened by many victims; the journal that each of them recovers grows with it, so there
//! are several rounds. To go further than the default, set in the environment:
//!
//! | variable | what it sets |
//! |---|---|
//! | `PERENNIAL_CRASH_SEED` | the moments: those of a run that printed this seed |
//! | `PERENNIAL_CRASH_KILLS` | kills per round |
//! | `PERENNIAL_CRASH_ROUNDS` | rounds |
//! | `PERENNIAL_CRASH_INPUT_BYTES` | how large some inputs are: with a million the store writes tables all the time |

// A panic is how a test fails, and a victim lives in real time.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use perennial_crash::check::{Evidence, Figures, Rule, check};
use perennial_crash::ledger::Lines;
use perennial_crash::line::Line;
use perennial_crash::victim::READY;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SIGKILL: i32 = 9;

/// When a victim is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// This long after the process was started; it may still be opening the store.
    AfterSpawn(Duration),
    /// This long after its runtime began to run.
    AfterReady(Duration),
}

/// Random moments; the same for the same seed.
struct Moments(u64);

impl Moments {
    /// SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    fn next(&mut self) -> Moment {
        match self.random(10) {
            0..2 => Moment::AfterSpawn(Duration::from_micros(self.random(60_000))),
            2..6 => Moment::AfterReady(Duration::from_micros(self.random(60_000))),
            6..9 => Moment::AfterReady(Duration::from_micros(60_000 + self.random(120_000))),
            _ => Moment::AfterReady(Duration::from_micros(180_000 + self.random(120_000))),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

struct Arena {
    store: PathBuf,
    ledger: PathBuf,
}

impl Arena {
    fn new(directory: &Path) -> Self {
        Self {
            store: directory.join("store"),
            ledger: directory.join("ledger"),
        }
    }

    fn url(&self) -> String {
        format!("file://{}", self.store.display())
    }

    fn victim(&self) -> Command {
        let mut victim = Command::new(env!("CARGO_BIN_EXE_perennial-crash"));
        // A log would go where readiness is reported.
        victim.arg(self.url()).arg(&self.ledger).env("RUST_LOG", "off");
        // Too large to be kept in memory while it waits.
        victim.arg(number("PERENNIAL_CRASH_INPUT_BYTES").unwrap_or(20_000).to_string());
        victim
    }

    /// Starts a victim and kills it as soon as it has had `more` turns acknowledged.
    fn kill_after_turns(&self, more: usize) {
        let turns = || {
            let lines = Lines::read(&self.ledger).unwrap();
            lines.all.iter().filter(|line| matches!(line, Line::Turned(_))).count()
        };
        let enough = turns() + more;
        let mut victim = self.victim().stdout(Stdio::piped()).spawn().unwrap();
        until_ready(&mut victim);
        while turns() < enough {
            assert!(victim.try_wait().unwrap().is_none(), "the victim ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
    }

    /// Starts a victim, kills it, and sees that it died of that.
    fn kill_one(&self, moment: Moment) {
        let mut victim = self.victim().stdout(Stdio::piped()).spawn().unwrap();
        match moment {
            Moment::AfterSpawn(wait) => std::thread::sleep(wait),
            Moment::AfterReady(wait) => {
                until_ready(&mut victim);
                std::thread::sleep(wait);
            }
        }
        victim.kill().unwrap();
        let status = victim.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(SIGKILL),
            "the victim ended by itself: {status}, instead of {moment:?}"
        );
    }
}

fn until_ready(victim: &mut Child) {
    let mut told = String::new();
    BufReader::new(victim.stdout.as_mut().unwrap())
        .read_line(&mut told)
        .unwrap();
    if told.trim_end() != READY {
        let status = victim.wait().unwrap();
        panic!("the victim said {told:?} and ended by itself: {status}");
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

async fn evidence(arena: &Arena) -> Evidence {
    let store = perennial::open(&arena.url()).await.unwrap();
    let evidence = Evidence::gather(store.clone(), Lines::read(&arena.ledger).unwrap())
        .await
        .unwrap();
    store.close().await.unwrap();
    evidence
}

/// One store, from the first victim to the last one, which finishes, and to the verdict.
async fn round(moments: &mut Moments, kills: u64) -> Figures {
    let began = Instant::now();
    // Removed only after success, so that a failure can be inspected.
    let directory = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
        .unwrap()
        .keep();
    let arena = Arena::new(&directory);
    for _ in 0..kills {
        arena.kill_one(moments.next());
    }
    let killed = began.elapsed();
    let finished = arena.victim().arg("--finish").stdout(Stdio::null()).status().unwrap();
    assert!(
        finished.success(),
        "the last process could not finish: {finished}; see {}",
        directory.display()
    );

    let evidence = evidence(&arena).await;
    let violations = check(&evidence);
    for violation in &violations {
        println!("{violation}");
    }
    assert!(
        violations.is_empty(),
        "{} violations; see {}",
        violations.len(),
        directory.display()
    );
    std::fs::remove_dir_all(directory).unwrap();
    println!(
        "kills {kills} in {killed:.1?}, finished and checked in {:.1?}",
        began.elapsed() - killed
    );
    Figures::of(&evidence)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_runs_twice_though_the_process_is_killed_again_and_again() {
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let seed = number("PERENNIAL_CRASH_SEED").unwrap_or_else(now_ms);
    let kills = number("PERENNIAL_CRASH_KILLS").unwrap_or(70);
    let rounds = number("PERENNIAL_CRASH_ROUNDS").unwrap_or(3);
    println!("seed {seed}");

    let mut moments = Moments(seed);
    let mut figures = Figures::default();
    for _ in 0..rounds {
        figures += round(&mut moments, kills).await;
    }
    let kills = kills * rounds;
    println!("kills {kills} in all\n{figures}");
    assert!(
        figures.openings as u64 > kills / 2,
        "most victims must have come to open the store"
    );
    assert!(
        kills < 200 || figures.reruns > 0,
        "the kills hit no activity in flight, so they prove nothing"
    );
    assert!(
        kills < 200 || figures.cut_off > 0,
        "the kills hit no call in flight, so they prove nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_set_back_is_found_out() {
    let directory = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let arena = Arena::new(directory.path());
    let before = directory.path().join("before");
    arena.kill_after_turns(20);
    copy(&arena.store, &before);
    arena.kill_after_turns(20);
    std::fs::remove_dir_all(&arena.store).unwrap();
    std::fs::rename(&before, &arena.store).unwrap();
    let violations = check(&evidence(&arena).await);
    assert!(
        violations.iter().any(|violation| violation.rule == Rule::LostTurn),
        "{violations:?}"
    );
}
