//! The demo as users run it: a separate process, stopped as rudely as possible and run again.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test may panic, and waits for a real process"
)]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::demo::Demo;
use support::perennial;

fn run(directory: &Path, arguments: &[&str]) -> Output {
    perennial(directory, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The `key=value` lines of a run.
fn facts(output: &Output) -> HashMap<String, u64> {
    let lines = text(&output.stdout);
    let fact = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    lines.lines().filter_map(fact).collect()
}

fn succeeded(output: &Output) -> HashMap<String, u64> {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    facts(output)
}

/// Starts a run and returns once it has finished at least `activities`.
fn started(directory: &Path, arguments: &[&str], activities: u64) -> Demo {
    let mut demo = Demo::start(perennial(directory, arguments));
    assert!(
        demo.has_finished(activities),
        "the demo ended before it could be stopped"
    );
    demo
}

#[test]
fn a_small_demo_runs_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["demo", "--workflows", "20", "--step-ms", "1"]);
    let facts = succeeded(&output);
    assert_eq!(facts["orders"], 20);
    assert_eq!(facts["delivered"] + facts["compensated"], 20);
    assert_eq!(facts["failed"], 0);
    assert_eq!(facts["executions"], facts["steps"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn plain_output_has_no_escape_codes() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["demo", "--workflows", "20", "--store", "memory:"]);
    succeeded(&output);
    assert!(!output.stdout.contains(&0x1b), "{}", text(&output.stdout));
    assert!(!output.stdout.contains(&b'\r'), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn after_kill_9_it_goes_on_and_no_finished_step_runs_twice() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--workflows", "100", "--step-ms", "20"];
    for _ in 0..3 {
        started(directory.path(), &arguments, 50).kill();
    }
    let output = run(directory.path(), &arguments);
    let facts = succeeded(&output);
    assert!(text(&output.stdout).contains("resuming batch 1 with 100 orders (run 4)"));
    assert_eq!(facts["delivered"] + facts["compensated"], 100);
    assert!(facts["steps_recorded_before"] > 100);
    assert_eq!(facts["recorded_steps_run_again"], 0);
    assert_eq!(facts["steps_without_execution"], 0);
    assert!(facts["executions"] >= facts["steps"]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_in_order_and_the_next_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--workflows", "40", "--step-ms", "20"];
    let demo = started(directory.path(), &arguments, 20);
    let interrupt = Command::new("kill")
        .args(["-INT", &demo.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert_eq!(demo.ended().status.code(), Some(130));
    let output = run(directory.path(), &arguments);
    let facts = succeeded(&output);
    assert_eq!(facts["delivered"] + facts["compensated"], 40);
    assert_eq!(facts["recorded_steps_run_again"], 0);
}

#[test]
fn a_finished_batch_is_followed_by_a_new_one_until_the_data_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let demo = |more: &[&str]| {
        let arguments: Vec<&str> = ["demo", "--workflows", "5", "--step-ms", "0"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        run(directory.path(), &arguments)
    };
    succeeded(&demo(&[]));
    let second = demo(&[]);
    succeeded(&second);
    assert!(text(&second.stdout).contains("starting batch 2 with 5 orders"));
    assert_eq!(
        demo(&["--fresh"]).status.code(),
        Some(2),
        "--fresh needs a confirmation"
    );
    let fresh = demo(&["--fresh", "--yes"]);
    assert_eq!(succeeded(&fresh)["steps_recorded_before"], 0);
    assert!(text(&fresh.stdout).contains("starting batch 1 with 5 orders (run 1)"));
}

#[test]
fn a_closed_pipe_stops_it_without_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = perennial(directory.path(), &["demo", "--workflows", "20", "--step-ms", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(text(&output.stderr), "");
}
