//! What the command line says to arguments that are wrong, and to questions.

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
fn wrong_arguments_are_told_apart_from_failures() {
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
