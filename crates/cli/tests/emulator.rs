//! `perennial cosmos emulator`: a process that serves until it is told to stop.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test may panic, and waits for a real process"
)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{perennial, run, text};

struct Emulator {
    process: Child,
    facts: HashMap<String, String>,
    took: Duration,
}

impl Emulator {
    /// Starts one and waits until it has said where it is.
    fn start(directory: &Path) -> Self {
        let began = Instant::now();
        let mut process = perennial(directory, &["cosmos", "emulator", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let fact = |line: String| {
            line.split_once('=')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let facts: HashMap<_, _> = lines.map(Result::unwrap).filter_map(fact).take(3).collect();
        let address = facts["endpoint"]
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        TcpStream::connect(address).unwrap();
        Self {
            process,
            facts,
            took: began.elapsed(),
        }
    }

    fn stop(mut self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        let address = self.facts["endpoint"]
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        assert!(TcpStream::connect(address).is_err(), "the port is free again");
    }
}

/// The best of a few: the machine may be busy with something else.
#[test]
fn it_starts_within_a_second_and_ends_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let mut best = Duration::MAX;
    for signal in ["-INT", "-TERM", "-INT", "-INT", "-INT"] {
        let emulator = Emulator::start(directory.path());
        best = best.min(emulator.took);
        emulator.stop(signal);
    }
    println!("the emulator was there after {} ms", best.as_millis());
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_store_is_ready_for_the_demo_without_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let emulator = Emulator::start(directory.path());
    let url = emulator.facts["url"].clone();
    let init = run(perennial(directory.path(), &["cosmos", "init", &url])).await;
    assert!(text(&init.stdout).contains("nothing to do"), "{}", support::told(&init));
    let arguments = ["demo", "--workflows", "10", "--step-ms", "1", "--store", &url];
    let demo = support::facts(&run(perennial(directory.path(), &arguments)).await);
    assert_eq!((demo["orders"].as_str(), demo["failed"].as_str()), ("10", "0"));
    emulator.stop("-INT");
}

#[tokio::test]
async fn a_port_that_is_taken_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(perennial(directory.path(), &["cosmos", "emulator", "--port", &port])).await;
    assert_eq!(output.status.code(), Some(1), "{}", support::told(&output));
    assert!(text(&output.stderr).contains("--port"), "{}", support::told(&output));
}
