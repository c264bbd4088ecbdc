//! Commands whose disk becomes full: they end and say why, and go on once there is room.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../fjall/tests/support/preload.rs"]
mod preload;
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;
use std::process::Output;
use support::{perennial, text, told};

/// Runs a command on a disk that is full after so many bytes, and stays so.
fn run_until_full(directory: &Path, store: &Path, arguments: &[&str], bytes: usize) -> Output {
    perennial(directory, arguments)
        .env("LD_PRELOAD", preload::compile(directory, "faults"))
        .env("FAULT_ROOT", store)
        .env("FAULT_TRIPPED", directory.join("tripped"))
        .env("FAULT_ERRNO", "28")
        .env("FAULT_BYTES", bytes.to_string())
        .output()
        .unwrap()
}

fn assert_broken(output: &Output) {
    assert_eq!(output.status.code(), Some(3), "{}", told(output));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("the store broke") && errors.contains("No space left") && errors.contains("run it again"),
        "{errors}"
    );
}

#[test]
fn a_demo_ends_when_its_disk_is_full_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let store = directory.join("perennial-data");
    let demo = ["demo", "--workflows", "40", "--step-ms", "5"];
    assert_broken(&run_until_full(&directory, &store, &demo, 150_000));
    let again = perennial(&directory, &demo).output().unwrap();
    assert!(again.status.success(), "{}", told(&again));
}

#[test]
fn a_benchmark_ends_when_its_disk_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let store = directory.join("perennial-bench-data");
    let bench = [
        "bench",
        "--stores",
        "file",
        "--workload",
        "hello",
        "--seconds",
        "60",
        "--rounds",
        "1",
    ];
    assert_broken(&run_until_full(&directory, &store, &bench, 500_000));
}
