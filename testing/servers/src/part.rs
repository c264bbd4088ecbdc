//! Which servers there are, and what a test does where one is not to be had.

use crate::{azurite, moto, tool};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A server that is no part of this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Microsoft's emulator of Azure Storage, of which the blob service is used. From npm.
    Azurite,
    /// The S3 server of moto, a mock of AWS. From PyPI.
    Moto,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Azurite => write!(f, "Azurite {}", azurite::VERSION),
            Self::Moto => write!(f, "moto {}", moto::VERSION),
        }
    }
}

/// How a server that is installed is run.
#[derive(Clone, Debug)]
pub struct Installed {
    pub(crate) part: Part,
    /// Where it is, and where it is run: Python takes modules from the current directory.
    pub(crate) directory: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// Installs a server unless it is installed already. `None`, after one line on standard error, where that is not
/// possible: the test should return.
///
/// # Panics
///
/// If it is not possible and `PERENNIAL_REQUIRE=all` is set, or if that variable has another value.
pub fn require(part: Part) -> Option<Installed> {
    let is_required = is_required();
    match installed(part) {
        Ok(installed) => Some(installed.clone()),
        Err(reason) if is_required => panic!("PERENNIAL_REQUIRE=all is set, but {reason}"),
        Err(reason) => {
            say_not_run(reason);
            None
        }
    }
}

/// The result of the only try of this process: another one would wait for the network again.
fn installed(part: Part) -> Result<&'static Installed, &'static String> {
    static AZURITE: OnceLock<Result<Installed, String>> = OnceLock::new();
    static MOTO: OnceLock<Result<Installed, String>> = OnceLock::new();
    let result = match part {
        Part::Azurite => AZURITE.get_or_init(|| azurite::install().and_then(with_shell)),
        Part::Moto => MOTO.get_or_init(|| moto::install().and_then(with_shell)),
    };
    result.as_ref()
}

/// What watches over a server is a shell script.
fn with_shell(installed: Installed) -> Result<Installed, String> {
    let has_shell = tool::run(Command::new("sh").args(["-c", "exit"]));
    has_shell.map_err(|reason| format!("{} needs a POSIX shell: {reason}", installed.part))?;
    Ok(installed)
}

fn is_required() -> bool {
    match std::env::var_os("PERENNIAL_REQUIRE") {
        None => false,
        Some(value) if value == "all" => true,
        // A misspelt value must not pass for a run in which nothing was left out.
        Some(value) => panic!("PERENNIAL_REQUIRE is {value:?}; set it to \"all\", or not at all"),
    }
}

/// Writes the line past the test harness, which shows nothing that a passing test has printed.
fn say_not_run(reason: &str) {
    let thread = std::thread::current();
    let line = match thread.name() {
        Some(test) if test != "main" => format!("not run: {test}: {reason}\n"),
        _ => format!("not run: {reason}\n"),
    };
    // A closed standard error is no reason to fail.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
