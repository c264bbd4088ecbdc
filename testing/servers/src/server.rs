//! A server as a process: started on a port, and ended with the process that started it.

use crate::{Installed, http};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How long a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How many lines of a server's output are kept, for the message that says why it did not start.
const KEPT_LINES: usize = 30;

/// How a server is told to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// At once: what it has is in memory and ends with it.
    Kill,
    /// By its own means, so that it writes down what it has.
    Terminate,
}

/// How a server is started and ended.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The program.
    pub(crate) installed: Installed,
    /// Its arguments, besides the port.
    pub(crate) arguments: Vec<String>,
    /// The argument in front of the port.
    pub(crate) port_flag: &'static str,
    /// How it is told to end.
    pub(crate) end: End,
}

/// A server, running or stopped.
#[derive(Debug)]
pub(crate) struct Server {
    launch: Launch,
    /// 0, for any free one, until the server has started once.
    port: u16,
    running: Option<Running>,
}

/// A running process. Dropping it ends the server, and returns when it has ended.
#[derive(Debug)]
struct Running(Child);

impl Server {
    /// Starts a server on a free port.
    pub(crate) fn start(launch: Launch) -> Self {
        let mut server = Self {
            launch,
            port: 0,
            running: None,
        };
        server.start_again();
        server
    }

    /// The port, which stays the same.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server. Connections are refused when this returns.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Starts the server on the port that it had.
    pub(crate) fn start_again(&mut self) {
        if self.running.is_some() {
            return;
        }
        let part = self.launch.installed.part;
        let mut child = match self.command().spawn() {
            Ok(child) => child,
            Err(error) => panic!("{part} could not be started by `sh`: {error}"),
        };
        let output = child.stdout.take();
        // From here on, a panic ends the server.
        let running = Running(child);
        let (announced, log) = follow(output);
        match announced.recv_timeout(START_TIMEOUT) {
            Ok(port) => self.port = port,
            Err(_) => {
                let lines: Vec<_> = log.lock().iter().cloned().collect();
                panic!("{part} did not start. The end of its output:\n{}", lines.join("\n"));
            }
        }
        self.running = Some(running);
        self.await_response();
    }

    fn command(&self) -> Command {
        let signal = match self.launch.end {
            End::Kill => "KILL",
            End::Terminate => "TERM",
        };
        let installed = &self.launch.installed;
        let mut command = Command::new("sh");
        command
            .args(["-c", include_str!("watch.sh"), "sh", signal])
            .arg(&installed.program)
            .args(&installed.arguments)
            .args(&self.launch.arguments)
            .args([self.launch.port_flag, &self.port.to_string()])
            .current_dir(&installed.directory)
            .envs(installed.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// Returns when the server responds to a request, whatever it says.
    fn await_response(&self) {
        let pause = Duration::from_millis(50);
        for _ in 0..START_TIMEOUT.as_millis() / pause.as_millis() {
            if http::request("GET", self.port, "/", &[]).is_ok() {
                return;
            }
            thread::sleep(pause);
        }
        panic!(
            "{} listens on port {}, but does not respond",
            self.launch.installed.part, self.port
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The shell sees the end of its input and ends the server; it ends itself when the server has ended.
        drop(self.0.stdin.take());
        // It fails only if the shell was waited for already.
        let _ = self.0.wait();
    }
}

/// Reads a server's output until it ends, so that the server never blocks on it. The channel gets the port that the
/// server announces, and is closed without one if the server ends.
fn follow(output: Option<impl Read + Send + 'static>) -> (mpsc::Receiver<u16>, Arc<Mutex<VecDeque<String>>>) {
    let (announce, announced) = mpsc::channel();
    let log = Arc::new(Mutex::new(VecDeque::new()));
    let (kept, mut announce) = (log.clone(), Some(announce));
    thread::spawn(move || {
        let lines = output.map(|output| BufReader::new(output).split(b'\n'));
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let port = announced_port(&line);
            let mut kept = kept.lock();
            kept.push_back(line);
            if kept.len() > KEPT_LINES {
                kept.pop_front();
            }
            if let Some((announce, port)) = port.and_then(|port| Some((announce.take()?, port))) {
                // Nobody waits any more if the time was over.
                let _ = announce.send(port);
            }
        }
    });
    (announced, log)
}

/// The port in a line such as "Running on http://127.0.0.1:5000".
fn announced_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("http://127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_what_a_server_prints() {
        let azurite = "Azurite Blob service successfully listens on http://127.0.0.1:46143";
        assert_eq!(announced_port(azurite), Some(46143));
        assert_eq!(
            announced_port(" * Running on http://127.0.0.1:45317\u{1b}[0m"),
            Some(45317)
        );
        assert_eq!(announced_port("Azurite Blob service is starting on 127.0.0.1:0"), None);
    }

    #[test]
    #[should_panic(expected = "the cause")]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        Server::start(Launch {
            installed: Installed {
                part: crate::Part::Moto,
                directory: ".".into(),
                program: "sh".into(),
                arguments: vec!["-c".to_owned(), "echo the cause >&2; exit 1".to_owned()],
                environment: Vec::new(),
            },
            arguments: Vec::new(),
            port_flag: "-p",
            end: End::Kill,
        });
    }
}
