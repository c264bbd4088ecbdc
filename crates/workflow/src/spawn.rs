//! Background tasks that outlive the runtime that they were started on.
//!
//! A program may drop a tokio runtime while the store lives on another one. tokio then drops every task of the first, and
//! what those had begun would stay undone for ever: an instance that is never handed out again, a partition that every
//! writer waits for. So a task of the engine that is dropped before its end moves to a thread of the process's own.

use crate::shield::Shield;
use futures::future::BoxFuture;
use perennial_store::Clock;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tracing::error;

/// Starts the engine's tasks.
#[derive(Clone, Copy, Debug)]
pub struct Spawner {
    /// Whether tasks are finished after their runtime has ended. On a clock that ends with its runtime they cannot be.
    outlives_runtime: bool,
}

impl Spawner {
    /// A spawner for tasks that sleep on this clock.
    pub fn new(clock: &dyn Clock) -> Self {
        Self {
            outlives_runtime: clock.outlives_runtime(),
        }
    }

    /// Runs a future on the current runtime while that lasts, and on the process's own thread afterwards.
    pub fn spawn(self, future: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(handle) => self.spawn_on(&handle, Box::pin(future)),
            Err(_) => self.rescue(Box::pin(future)),
        }
    }

    /// A future that runs in its caller's task, and finishes by itself if its caller is dropped.
    pub fn shield<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Shield<T> {
        Shield::new(self, future)
    }

    /// Runs what is left of a future whose caller was dropped.
    pub fn take_over(self, future: BoxFuture<'static, ()>) {
        match Handle::try_current() {
            // A single-threaded runtime stops when its caller returns, perhaps for ever.
            Ok(handle) if self.outlives_runtime && handle.runtime_flavor() == RuntimeFlavor::CurrentThread => {
                self.rescue(future);
            }
            Ok(handle) => self.spawn_on(&handle, future),
            Err(_) => self.rescue(future),
        }
    }

    fn spawn_on(self, handle: &Handle, future: BoxFuture<'static, ()>) {
        handle.spawn(Rescued {
            future: Some(future),
            spawner: self,
        });
    }

    fn rescue(self, future: BoxFuture<'static, ()>) {
        if !self.outlives_runtime {
            return;
        }
        match own_runtime() {
            Some(handle) => drop(handle.spawn(future)),
            None => error!("a runtime was dropped while the engine worked on it: open the store again"),
        }
    }
}

/// A future that moves to the process's own runtime if it is dropped before its end.
struct Rescued {
    future: Option<BoxFuture<'static, ()>>,
    spawner: Spawner,
}

impl Future for Rescued {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A future that panics is not put back: it must not be polled again.
        let Some(mut future) = self.future.take() else {
            return Poll::Ready(());
        };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl Drop for Rescued {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.spawner.rescue(future);
        }
    }
}

/// The runtime of the process's own thread: started when first needed, never ended; `None` if it cannot be started.
fn own_runtime() -> Option<&'static Handle> {
    static OWN: OnceLock<Option<Handle>> = OnceLock::new();
    let start = || -> std::io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("perennial-finish".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    };
    let started = || match start() {
        Ok(handle) => Some(handle),
        Err(why) => {
            error!(%why, "the thread that finishes the work of dropped runtimes cannot be started");
            None
        }
    };
    OWN.get_or_init(started).as_ref()
}
