//! The response of the command line to wrong arguments and to --help.

#![allow(clippy::unwrap_used, reason = "a test may panic, and waits for a real process")]

use std::process::{Command, Output};

fn perennial(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perennial"))
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn an_unknown_store_is_named_and_so_are_the_known_ones() {
    let output = perennial(&["demo", "--store", "carrier-pigeon://coop"]);
    assert_eq!(output.status.code(), Some(3));
    let told = text(&output.stderr);
    assert!(told.contains("carrier-pigeon") && told.contains("file:"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn wrong_arguments_have_another_exit_code_than_failures() {
    for wrong in [
        &["demo", "--workflows", "0"][..],
        &["bench", "--slots", "many"],
        &["bench", "--seconds", "0"],
        &["bench", "--grow", "10", "--stores", "memory"],
        &["nonsense"],
    ] {
        let output = perennial(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
}

/// Everything that people write for a store and that is none: the error says in one line what to write instead, and
/// nothing is created.
#[test]
fn the_error_for_a_wrong_store_says_what_to_write() {
    let directory = tempfile::tempdir().unwrap();
    for (wrong, advice) in [
        ("memory", "\"memory:\""),
        ("./data", "\"file://./data\""),
        ("/data", "\"file:///data\""),
        ("", "\"memory:\""),
        ("file://data", "\"file://./data\""),
        ("file://./data?mode=rw", "\"%3F\""),
        ("file://./data#1", "\"%23\""),
        ("file://./%+5", "hexadecimal"),
        ("file://./%00", "NUL"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perennial"))
            .args(["demo", "--workflows", "1", "--store", wrong])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{wrong}: {told}");
        assert!(told.contains(advice), "{wrong}: {told}");
        assert_eq!(told.lines().count(), 1, "{wrong}: {told}");
    }
    let made: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn a_build_without_sqlite_says_how_to_get_it() {
    let output = perennial(&["bench", "--against", "sqlite"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--features sqlite"));
}

#[test]
fn help_teaches_with_examples_and_exit_codes() {
    let mut commands = vec![vec!["demo"], vec!["bench"]];
    if cfg!(feature = "cosmos") {
        commands.push(vec!["cosmos"]);
        commands.extend(["init", "cost", "emulator"].map(|command| vec!["cosmos", command]));
    }
    for mut command in commands {
        command.push("--help");
        let help = text(&perennial(&command).stdout);
        assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    }
    assert_eq!(
        text(&perennial(&["--version"]).stdout),
        format!("perennial {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// Runs a long bench and sends it a signal once it has begun, which its directory shows.
#[cfg(unix)]
fn signalled(signal: &str) -> Option<i32> {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_perennial"))
        .args(["bench", "--workload", "hello", "--seconds", "600", "--stores", "file"])
        .current_dir(directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let store = directory.path().join("perennial-bench-data");
    while !store.exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it could be stopped"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    child.wait().unwrap().code()
}

/// The same with a long demo, which reports its progress.
#[cfg(unix)]
fn signalled_demo(signal: &str) -> Option<i32> {
    use std::io::BufRead;
    let mut child = Command::new(env!("CARGO_BIN_EXE_perennial"))
        .args(["demo", "--workflows", "200", "--step-ms", "200", "--store", "memory:"])
        .current_dir(std::env::temp_dir())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let progress = lines
        .by_ref()
        .map_while(Result::ok)
        .filter(|line| line.contains("commits_per_s="));
    assert_eq!(progress.take(2).count(), 2, "it ended before it could be stopped");
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    lines.for_each(drop);
    child.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn a_signal_has_its_own_exit_code_and_help_lists_it() {
    let help = text(&perennial(&["--help"]).stdout);
    for (signal, name, code) in [("-INT", "SIGINT", 130), ("-TERM", "SIGTERM", 143)] {
        assert_eq!(signalled(signal), Some(code), "{signal}");
        assert_eq!(signalled_demo(signal), Some(code), "{signal}");
        let line = help.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.trim().starts_with(&code.to_string()), "{line}");
    }
}

#[test]
fn several_values_may_be_separated_by_spaces_or_commas() {
    let directory = tempfile::tempdir().unwrap();
    for workloads in [&["hello", "latency"][..], &["hello,latency"]] {
        let arguments = [
            &["bench", "--stores", "memory", "--slots", "2+2", "--workload"],
            workloads,
        ]
        .concat();
        let output = Command::new(env!("CARGO_BIN_EXE_perennial"))
            .args(arguments)
            .args(["--clients", "2", "--seconds", "0.1", "--rounds", "1"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        let rows = table.lines().filter(|line| line.starts_with("| hello-world"));
        assert_eq!(rows.count(), 2, "{table}");
    }
}

#[test]
fn a_short_bench_gives_a_markdown_table_json_and_a_plot() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (json, plot, data) = (file("bench.json"), file("bench.svg"), file("data"));
    let output = perennial(&[
        "bench",
        "--workload",
        "hello,latency",
        "--slots",
        "2+2",
        "--clients",
        "4",
        "--seconds",
        "0.2",
        "--rounds",
        "1",
        "--directory",
        &data,
        "--json",
        &json,
        "--plot",
        &plot,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| hello-world")).collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(std::fs::read_to_string(json).unwrap().contains("\"target\": \"file\""));
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg"));
    assert!(!std::path::Path::new(&data).exists(), "the stores were not removed");
}

#[test]
fn growth_is_measured_before_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data").display().to_string();
    let output = perennial(&[
        "bench",
        "--grow",
        "2000",
        "--seconds",
        "0.2",
        "--rounds",
        "1",
        "--directory",
        &data,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    for key in [
        "per_second_empty=",
        "per_second_full=",
        "open_s_full=",
        "rss_mib_worked_full=",
    ] {
        assert!(told.contains(key), "{key} is missing in {told}");
    }
}
