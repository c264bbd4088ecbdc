//! Errors of commands.

use std::fmt;
use std::io;

/// The exit codes, as `--help` lists them. Keep in step with [`CliError::exit_code`].
pub const EXIT_CODES: &str = "\
Exit codes:
    0  all went well
    1  the command ran and something failed: a workflow, a check, a measurement
    2  the arguments make no sense
    3  the store could not be opened (unknown URL, held by another process, no permission), or it broke (full disk)
  130  stopped by Ctrl-C (SIGINT); what was committed is safe, run it again to go on
  141  the reader of the output went away
  143  stopped by SIGTERM; as with Ctrl-C";

/// Why a command ended early.
#[derive(Debug)]
pub enum CliError {
    /// Something failed while the command ran.
    Failed(String),
    /// The arguments make no sense together.
    Usage(String),
    /// The store could not be opened, or it broke.
    Store(String),
    /// A signal stopped it, see [`crate::stop`]; the user knows why.
    Interrupted,
    /// The output is not read any more.
    OutputClosed,
}

impl CliError {
    /// A failure: `attempted` completes the sentence "could not …".
    pub fn failed(attempted: &str, cause: impl fmt::Display) -> Self {
        Self::Failed(format!("could not {attempted}: {cause}"))
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Store(_) => 3,
            Self::Interrupted => crate::stop::exit_code(),
            Self::OutputClosed => 141,
        }
    }

    /// The message for stderr, unless all is said already.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Failed(message) | Self::Usage(message) | Self::Store(message) => Some(message),
            Self::Interrupted | Self::OutputClosed => None,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("it was stopped"))
    }
}

/// Only writing to stdout yields a bare [`io::Error`] in this program; files are reported with their names.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::failed("write the output", error),
        }
    }
}
