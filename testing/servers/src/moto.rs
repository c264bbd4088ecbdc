//! The S3 server of moto.

use crate::server::{End, Launch, Server};
use crate::{Installed, Part, http, install, require, tool};
use std::fs;
use std::path;
use std::process::Command;
use std::sync::OnceLock;

/// From 5.2 on it refuses a second `If-None-Match: *` and a stale `If-Match`.
pub(crate) const VERSION: &str = "5.2.5";

const REQUIREMENTS: &str = include_str!("../parts/moto.txt");

/// An S3 service on this machine, in memory. It takes any key.
#[derive(Debug)]
pub struct Moto {
    server: Server,
}

impl Moto {
    /// The id of a key that it takes.
    pub const KEY_ID: &str = "test";

    /// The secret of that key.
    pub const SECRET: &str = "test";

    /// The region.
    pub const REGION: &str = "us-east-1";

    /// Starts a server. `None` where it cannot be installed, see [`require`].
    pub fn start() -> Option<Self> {
        Some(Self::run(require(Part::Moto)?))
    }

    fn run(installed: Installed) -> Self {
        let server = Server::start(Launch {
            installed,
            arguments: ["-H", "127.0.0.1"].map(str::to_owned).into(),
            port_flag: "-p",
            end: End::Kill,
        });
        Self { server }
    }

    /// The server that the tests of this process share. It ends with the process.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Moto>> = OnceLock::new();
        // Each test that is not run says so.
        require(Part::Moto)?;
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// The port on the loopback.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The URL of the service: what `AWS_ENDPOINT` takes.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// The variables by which `object_store`'s `AmazonS3Builder::from_env` reaches the server. The bucket is not
    /// among them.
    pub fn env(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", self.endpoint()),
            ("AWS_ACCESS_KEY_ID", Self::KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET.to_owned()),
            ("AWS_REGION", Self::REGION.to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Creates a bucket unless there is one of that name.
    pub fn create_bucket(&self, name: &str) {
        match http::request("PUT", self.port(), &format!("/{name}"), &[]) {
            Ok((200, _)) => {}
            Ok((_, response)) => panic!("moto did not create the bucket '{name}':\n{response}"),
            Err(error) => panic!("moto did not create the bucket '{name}': {error}"),
        }
    }

    /// Stops the server: connections are refused from now on.
    pub fn stop(&mut self) {
        self.server.stop();
    }

    /// Starts a server that was stopped on the same port. It is empty, without a bucket.
    pub fn start_again(&mut self) {
        self.server.start_again();
    }
}

/// Installs the package and all that it needs, at the versions of the list.
pub(crate) fn install() -> Result<Installed, String> {
    let missing = |reason| format!("{} needs Python: {reason}", Part::Moto);
    let python = tool::version("python3").map_err(missing)?;
    let directory = install::directory().join(format!("moto-{VERSION}"));
    let failed = |reason| format!("{} could not be installed: {reason}", Part::Moto);
    let stamp = format!("{python}\n{REQUIREMENTS}");
    install::once(&directory, &stamp, by_pip).map_err(failed)?;
    let mut environment = vec![("PYTHONUNBUFFERED", "1".to_owned())];
    let own = directory.join(PYTHON);
    let program = match own.exists() {
        true => own,
        false => {
            environment.push(("PYTHONPATH", directory.join(PACKAGES).to_string_lossy().into_owned()));
            "python3".into()
        }
    };
    Ok(Installed {
        part: Part::Moto,
        directory,
        program,
        arguments: vec!["-c".to_owned(), include_str!("moto.py").to_owned()],
        environment,
    })
}

/// The interpreter of a virtual environment.
const PYTHON: &str = "bin/python";

/// Where the packages are that were installed without a virtual environment.
const PACKAGES: &str = "packages";

fn by_pip(directory: &path::Path) -> Result<(), String> {
    let mut venv = Command::new("python3");
    let has_venv = tool::run(venv.args(["-m", "venv"]).arg(directory)).is_ok();
    let mut pip = match has_venv {
        true => Command::new(directory.join(PYTHON)),
        false => {
            // On Debian the module that makes environments is a package of its own, and leaves half of one behind.
            tool::run(Command::new("python3").args(["-m", "pip", "--version"]))
                .map_err(|_| "`python3` has neither `venv` (Debian's python3-venv) nor `pip`")?;
            empty(directory).map_err(|error| error.to_string())?;
            Command::new("python3")
        }
    };
    let list = directory.join("requirements.txt");
    fs::write(&list, REQUIREMENTS).map_err(|error| error.to_string())?;
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]);
    // No package is built here, so none runs a script of its own on this machine.
    pip.args(["--only-binary", ":all:"]).arg("-r").arg(&list);
    if !has_venv {
        pip.arg("--target").arg(directory.join(PACKAGES));
    }
    tool::run(&mut pip)
}

fn empty(directory: &path::Path) -> std::io::Result<()> {
    fs::remove_dir_all(directory)?;
    fs::create_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path;
    use object_store::{ObjectStore, PutMode};

    #[test]
    fn the_version_is_the_one_that_is_installed() {
        let pin = format!("moto=={VERSION}");
        assert!(REQUIREMENTS.lines().any(|line| line == pin));
    }

    /// With its objects in files, moto gives way to other threads between the check of a condition and the write.
    /// Without the lock of `moto.py`, every few rounds have two winners.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_concurrent_creates_one_wins_wherever_the_server_gives_way() {
        let Some(mut installed) = require(Part::Moto) else {
            return;
        };
        installed
            .environment
            .push(("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", "1".to_owned()));
        let moto = Moto::run(installed);
        moto.create_bucket("bucket");
        let builder = AmazonS3Builder::new()
            .with_endpoint(moto.endpoint())
            .with_access_key_id(Moto::KEY_ID)
            .with_secret_access_key(Moto::SECRET)
            .with_bucket_name("bucket")
            .with_allow_http(true);
        let store = builder.build().unwrap();
        for round in 0..30 {
            let path = Path::from(format!("object-{round}"));
            let create = |_| store.put_opts(&path, "content".into(), PutMode::Create.into());
            let results = join_all((0..8).map(create)).await;
            let won = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(won, 1, "round {round}");
        }
    }
}
