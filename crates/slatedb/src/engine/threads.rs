//! The threads of an engine.
//!
//! A runtime of its own lets an engine outlive the runtime of its caller, and lets callers wait for it without occupying the
//! threads that it needs.

use crate::OpenError;
use futures::FutureExt;
use perennial_kv::EngineError;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for the database and the object store client.
const WORKERS: usize = 2;
/// Threads for file access and name resolution.
const BLOCKING: usize = 32;
/// Threads on which callers wait for reads. They must not be those of the database: if all of them waited, nothing could
/// open a file or look up a name.
const READERS: usize = 64;

/// How long a runtime may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A runtime that may be dropped anywhere: it does not wait for its threads.
struct Stopping(Option<Runtime>);

impl Stopping {
    fn handle(&self) -> Option<&Handle> {
        self.0.as_ref().map(Runtime::handle)
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The runtimes of an engine.
pub(crate) struct Threads {
    main: Stopping,
    readers: Stopping,
    handle: Handle,
    reader_handle: Handle,
}

impl Threads {
    pub(crate) fn start() -> Result<Self, OpenError> {
        let failed = |error| OpenError::failed(Path::new("the threads of a store"), error);
        let main = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(BLOCKING)
            .thread_name("perennial-slatedb")
            .enable_all()
            .build()
            .map_err(failed)?;
        // Nothing drives it: only its pool of threads is used.
        let readers = Builder::new_current_thread()
            .max_blocking_threads(READERS)
            .thread_name("perennial-slatedb-read")
            .build()
            .map_err(failed)?;
        let (handle, reader_handle) = (main.handle().clone(), readers.handle().clone());
        Ok(Self {
            main: Stopping(Some(main)),
            readers: Stopping(Some(readers)),
            handle,
            reader_handle,
        })
    }

    /// Moves the threads out; what stays behind cannot be waited with.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            main: Stopping(self.main.0.take()),
            readers: Stopping(self.readers.0.take()),
            handle: self.handle.clone(),
            reader_handle: self.reader_handle.clone(),
        }
    }

    /// Where the database runs.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where callers may wait for reads.
    pub(crate) fn readers(&self) -> &Handle {
        &self.reader_handle
    }

    /// Waits for a future, on any thread. One that need not wait, as a read from memory, is done by the caller's thread.
    pub(crate) fn wait<T, F>(&self, future: F) -> Result<T, EngineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        // The caller may be a task that has used up its share of polls, which says nothing about this future.
        let mut future = Box::pin(tokio::task::unconstrained(AssertUnwindSafe(future).catch_unwind()));
        let first = {
            let _entered = self.handle.enter();
            future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                let (sender, receiver) = mpsc::sync_channel(1);
                self.handle.spawn(async move { sender.send(future.await) });
                receiver.recv().map_err(|_| ended("the database is closed"))?
            }
        };
        outcome.unwrap_or_else(|_| Err(ended("the database panicked")))
    }

    /// Waits for a future on a thread that belongs to no runtime, then stops all threads.
    pub(crate) fn finish(mut self, future: impl Future<Output = ()>) {
        if let Some(handle) = self.main.handle() {
            handle.block_on(future);
        }
        for runtime in [self.readers.0.take(), self.main.0.take()].into_iter().flatten() {
            runtime.shutdown_timeout(STOP_TIMEOUT);
        }
    }
}

fn ended(why: &str) -> EngineError {
    EngineError::Io(io::ErrorKind::Other, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn later() -> Result<u8, EngineError> {
        tokio::task::yield_now().await;
        let read = tokio::task::spawn_blocking(|| 7).await;
        read.map_err(|_| ended("it was cancelled"))
    }

    #[test]
    fn any_thread_may_wait() {
        let threads = Threads::start().unwrap();
        assert_eq!(threads.wait(async { Ok(3) }).unwrap(), 3);
        assert_eq!(threads.wait(later()).unwrap(), 7);
        for runtime in [
            Builder::new_current_thread().build(),
            Builder::new_multi_thread().build(),
        ] {
            runtime
                .unwrap()
                .block_on(async { assert_eq!(threads.wait(later()).unwrap(), 7) });
        }
    }

    #[test]
    fn more_readers_than_threads_may_wait_at_once() {
        let threads = std::sync::Arc::new(Threads::start().unwrap());
        let readers: Vec<_> = (0..READERS * 2)
            .map(|_| {
                let shared = threads.clone();
                threads.readers().spawn_blocking(move || shared.wait(later()).unwrap())
            })
            .collect();
        for reader in readers {
            assert_eq!(futures::executor::block_on(reader).unwrap(), 7);
        }
    }

    #[test]
    fn a_panic_is_an_error_at_once_or_later() {
        let threads = Threads::start().unwrap();
        let panics = |yields: bool| async move {
            if yields {
                tokio::task::yield_now().await;
            }
            panic!("as tests do")
        };
        for yields in [false, true] {
            let outcome: Result<(), EngineError> = threads.wait(panics(yields));
            assert!(matches!(outcome, Err(EngineError::Io(_, why)) if why.contains("panicked")));
        }
    }

    #[tokio::test]
    async fn threads_may_be_dropped_by_a_runtime() {
        drop(Threads::start().unwrap());
    }
}
