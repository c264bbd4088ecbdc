//! Azurite: Microsoft's emulator of Azure Storage.

use crate::server::{End, Launch, Server};
use crate::{Installed, Part, http, install, require, tool};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The newest version that declares to run on Node 20 and older; 3.36 asks for 21, 3.37 for 22.
pub(crate) const VERSION: &str = "3.35.0";

const PACKAGE: &str = include_str!("../parts/azurite/package.json");
const LOCK: &str = include_str!("../parts/azurite/package-lock.json");

/// A blob service on this machine, with the account and key that every emulator of Azure Storage has.
///
/// Unlike the real service it has the account in the path of its URLs. Requests are checked strictly: their
/// signature, their API version, and headers that it does not know (neither `--skipApiVersionCheck` nor `--loose`).
#[derive(Debug)]
pub struct Azurite {
    server: Server,
}

impl Azurite {
    /// The account.
    pub const ACCOUNT: &str = "devstoreaccount1";

    /// The account's key, which is public.
    pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// Starts a server that keeps its data in memory. `None` where it cannot be installed, see [`require`].
    pub fn start() -> Option<Self> {
        Some(Self::run(
            require(Part::Azurite)?,
            &["--inMemoryPersistence"],
            End::Kill,
        ))
    }

    /// Starts a server that keeps its data in a directory, where the next [`Azurite::start_again`] finds them.
    pub fn start_on(directory: &Path) -> Option<Self> {
        let installed = require(Part::Azurite)?;
        let location = match std::path::absolute(directory) {
            Ok(location) => location.to_string_lossy().into_owned(),
            Err(error) => panic!("there is no directory '{}': {error}", directory.display()),
        };
        Some(Self::run(installed, &["--location", &location], End::Terminate))
    }

    /// The server that the tests of this process share. It ends with the process.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Azurite>> = OnceLock::new();
        // Each test that is not run says so.
        require(Part::Azurite)?;
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn run(installed: Installed, storage: &[&str], end: End) -> Self {
        // Telemetry would be sent to another machine.
        let common = ["--silent", "--disableTelemetry", "--blobHost", "127.0.0.1"];
        let arguments = common.iter().chain(storage).map(|&word| word.to_owned()).collect();
        let server = Server::start(Launch {
            installed,
            arguments,
            port_flag: "--blobPort",
            end,
        });
        Self { server }
    }

    /// The port on the loopback.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The URL of the blob service, with the account: what `AZURE_STORAGE_ENDPOINT` takes.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port(), Self::ACCOUNT)
    }

    /// The variables by which `object_store`'s `MicrosoftAzureBuilder::from_env` reaches the server. The container
    /// is not among them.
    pub fn env(&self) -> [(&'static str, String); 4] {
        [
            ("AZURE_STORAGE_ENDPOINT", self.endpoint()),
            ("AZURE_STORAGE_ACCOUNT_NAME", Self::ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", Self::KEY.to_owned()),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Creates a container unless there is one of that name.
    pub fn create_container(&self, name: &str) {
        let date = now();
        let path = format!("/{}/{name}", Self::ACCOUNT);
        let authorization = format!("SharedKey {}:{}", Self::ACCOUNT, signature(&path, &date));
        let headers = [
            ("x-ms-date", date.as_str()),
            ("x-ms-version", API_VERSION),
            ("Authorization", &authorization),
        ];
        let path = format!("{path}?restype=container");
        match http::request("PUT", self.port(), &path, &headers) {
            Ok((201 | 409, _)) => {}
            Ok((_, response)) => panic!("Azurite did not create the container '{name}':\n{response}"),
            Err(error) => panic!("Azurite did not create the container '{name}': {error}"),
        }
    }

    /// Stops the server: connections are refused from now on.
    pub fn stop(&mut self) {
        self.server.stop();
    }

    /// Starts a server that was stopped on the same port. It has its data if it was made by [`Azurite::start_on`],
    /// otherwise it is empty.
    pub fn start_again(&mut self) {
        self.server.start_again();
    }
}

const API_VERSION: &str = "2023-11-03";

/// Installs the package and all that it needs, at the versions of the lock file.
pub(crate) fn install() -> Result<Installed, String> {
    let missing = |reason| format!("{} needs Node.js: {reason}", Part::Azurite);
    let node = tool::version("node").map_err(missing)?;
    let directory = install::directory().join(format!("azurite-{VERSION}"));
    let failed = |reason| format!("{} could not be installed: {reason}", Part::Azurite);
    let stamp = format!("node {node}\n{PACKAGE}{LOCK}");
    install::once(&directory, &stamp, by_npm).map_err(failed)?;
    // The file behind the command `azurite-blob`, so that the process that is ended is the server.
    let script = directory.join("node_modules/azurite/dist/src/blob/main.js");
    Ok(Installed {
        part: Part::Azurite,
        directory,
        program: "node".into(),
        arguments: vec![script.to_string_lossy().into_owned()],
        environment: Vec::new(),
    })
}

fn by_npm(directory: &Path) -> Result<(), String> {
    tool::version("npm")?;
    let write = |name: &str, text| fs::write(directory.join(name), text).map_err(|error| error.to_string());
    write("package.json", PACKAGE)?;
    write("package-lock.json", LOCK)?;
    let mut npm = Command::new("npm");
    // No package runs a script of its own on this machine.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    // Without a network it gives up after 20 seconds, not 70.
    npm.arg("--fetch-retry-maxtimeout=10000");
    tool::run(npm.current_dir(directory))
}

/// The signature of a request that creates the container at `path`, by the rules of the blob service.
fn signature(path: &str, date: &str) -> String {
    let text = format!(
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{API_VERSION}\n/{}{path}\nrestype:container",
        Azurite::ACCOUNT
    );
    let key = STANDARD.decode(Azurite::KEY).unwrap_or_default();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        unreachable!("a key of this kind may have any length")
    };
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[allow(
    clippy::disallowed_methods,
    reason = "the server is another program: it goes by the real time"
)]
fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_installed() {
        assert!(PACKAGE.contains(&format!("\"azurite\": \"{VERSION}\"")));
        assert!(LOCK.contains(&format!("\"azurite\": \"{VERSION}\"")));
    }
}
