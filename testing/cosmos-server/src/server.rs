//! A running server.

use crate::counting::{Counts, Entry};
use crate::faults::Faults;
use crate::front::Front;
use crate::host;
use crate::{Container, Latency, Options, Replica};
use perennial_store::{Clock, SystemClock};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

const STACK_BYTES: usize = 8 * 1024 * 1024;

/// A running server. It stops when it is dropped.
///
/// It runs on a thread and a runtime of its own, so that neither the runtime of a test nor what blocks it matters.
pub struct Server {
    endpoint: String,
    key: String,
    front: Arc<Front>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on 127.0.0.1.
    pub async fn start(options: Options) -> io::Result<Self> {
        Self::start_with_clock(options, SystemClock::shared()).await
    }

    /// Starts a server whose documents and delays live by this clock. Signatures are checked against the machine's.
    pub async fn start_with_clock(options: Options, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let endpoint = format!("http://{}/", listener.local_addr()?);
        let front = Arc::new(Front::new(&options, &endpoint, clock)?);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let served = front.clone();
        let serve = async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!(%error, "the Cosmos test server could not take its port over");
                    return;
                }
            };
            tokio::select! {
                () = host::accept(listener, served) => {}
                _ = stopped => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("cosmos-server".to_owned())
            // The emulator's futures are large where they are not optimised.
            .stack_size(STACK_BYTES)
            .spawn(move || runtime.block_on(serve))?;
        Ok(Self {
            endpoint,
            key: options.key,
            front,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it is: `http://127.0.0.1:PORT/`.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// The master key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The faults to inject.
    pub fn faults(&self) -> &Faults {
        &self.front.faults
    }

    /// All requests so far.
    pub fn counts(&self) -> Counts {
        self.front.meter.counts()
    }

    /// All requests to one container so far.
    pub fn counts_in(&self, container: &Container) -> Counts {
        self.front.meter.counts_in(container)
    }

    /// The latest requests, oldest first.
    pub fn log(&self) -> Vec<Entry> {
        self.front.meter.log()
    }

    /// The latest requests as text, one a line.
    pub fn log_text(&self) -> String {
        let lines: Vec<String> = self.log().iter().map(Entry::to_string).collect();
        lines.join("\n")
    }

    /// Changes the time that each request takes.
    pub fn set_latency(&self, latency: Latency) {
        self.front.delays.set(latency);
    }

    /// The replica that may lag, if the options have one.
    pub fn replica(&self) -> Option<&Replica> {
        self.front.backend().replica().map(Arc::as_ref)
    }

    /// Stops it: open requests break, the port is free.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the Cosmos test server panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("endpoint", &self.endpoint).finish()
    }
}
