//! The tools of the machine, run to their end.

use std::process::{Command, Stdio};

/// What `tool --version` prints, or a sentence that says that there is no such tool.
pub(crate) fn version(tool: &str) -> Result<String, String> {
    let output = Command::new(tool).arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        _ => Err(format!("`{tool}` is not on this machine")),
    }
}

/// Runs a command to its end. An error has what failed, with the line of its output that says why.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{shown}` could not be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{shown}` failed: {}", reason(&output.stderr, &output.stdout))),
    }
}

/// The program's name and the first arguments.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args().take(3));
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// The first line that is marked as an error, else the last one.
fn reason(stderr: &[u8], stdout: &[u8]) -> String {
    let text = [String::from_utf8_lossy(stderr), String::from_utf8_lossy(stdout)].join("\n");
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| {
        line.to_ascii_lowercase()
            .trim_start_matches("npm ")
            .starts_with("error")
    };
    let error = lines().find(is_error);
    let line = error.or_else(|| lines().next_back()).unwrap_or("it printed nothing");
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named() {
        let error = version("no-such-tool").unwrap_err();
        assert_eq!(error, "`no-such-tool` is not on this machine");
    }

    #[test]
    fn a_failure_is_told_in_one_line() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'retry, error 1' >&2; echo 'ERROR: the cause' >&2; echo last >&2; exit 1",
        ]);
        let error = run(&mut command).unwrap_err();
        assert!(error.ends_with("failed: ERROR: the cause"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
