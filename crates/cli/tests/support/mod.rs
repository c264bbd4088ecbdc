//! Running the binary.

#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "not every test runs a demo that it stops, and those who do wait for real processes"
)]
pub mod demo;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command, in a directory, without the environment of the user who runs the tests.
pub fn perennial(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perennial"));
    command
        .current_dir(directory)
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("PERENNIAL_COSMOS_KEY")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end, off the runtime's threads.
pub async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Everything it printed, and how it ended.
pub fn told(output: &Output) -> String {
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The `key=value` lines of a run that went well.
pub fn facts(output: &Output) -> HashMap<String, String> {
    assert!(output.status.success(), "{}", told(output));
    let lines = text(&output.stdout);
    let fact = |line: &str| {
        line.split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    lines.lines().filter_map(fact).collect()
}
