//! Tests that are run again as processes of their own, because their environment or their death is what is tested.

use std::process::{Command, Stdio};

/// The command that runs one ignored test of this program.
pub fn test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs such a test to its end: whether it passed, and all that it printed.
pub fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(text.concat().contains("running 1 test"), "{}", text.concat());
    (output.status.success(), text.concat())
}
