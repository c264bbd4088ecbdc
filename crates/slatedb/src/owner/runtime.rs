//! The runtime on which a store's lease is renewed and its messages are taken in.

use crate::OpenError;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

/// A runtime of the store's own: a caller's may end at any time. The database has another one, so that its background work
/// never delays a renewal.
pub(super) struct BucketRuntime(Option<Runtime>, Handle);

impl BucketRuntime {
    pub(super) fn start() -> Result<Self, OpenError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("perennial-bucket")
            .enable_all()
            .build()
            .map_err(|error| OpenError::failed(Path::new("a runtime for the bucket"), error))?;
        let handle = runtime.handle().clone();
        Ok(Self(Some(runtime), handle))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.1
    }
}

impl Drop for BucketRuntime {
    fn drop(&mut self) {
        // The last user may be a task of this very runtime, which must not wait for itself.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that ends when nobody waits for it any more.
pub(super) struct Aborting<T>(pub(super) JoinHandle<T>);

impl<T> Future for Aborting<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
