//! Features that this build lacks, and the command that builds them in.

use crate::error::CliError;

/// The error for a feature that this build does not have.
pub fn lacks(what: &str, feature: &str) -> CliError {
    CliError::Usage(format!(
        "this build of perennial has no {what}; build it in with: {}",
        command_with(feature)
    ))
}

/// The same command line, with the feature built in.
fn command_with(feature: &str) -> String {
    let arguments: Vec<String> = std::env::args().skip(1).map(|argument| quoted(&argument)).collect();
    format!(
        "cargo run --release -p perennial-cli --features {feature} -- {}",
        arguments.join(" ")
    )
}

/// An argument, quoted for a shell.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn arguments_are_quoted_as_a_shell_needs() {
        assert_eq!(quoted("cosmos://account/db/c"), "cosmos://account/db/c");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
