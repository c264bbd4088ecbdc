//! Futures that finish even if their caller goes away.

use crate::spawn::Spawner;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs in its caller's task; if the caller is dropped, the rest runs as a task of its own.
///
/// The runtime drops futures when it shuts down. Between a commit and the update of the board there must be no such gap, or
/// the store and memory would disagree.
pub struct Shield<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    spawner: Spawner,
}

impl<T: Send + 'static> Shield<T> {
    /// Protects a future.
    pub fn new(spawner: Spawner, future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            future: Some(Box::pin(future)),
            spawner,
        }
    }
}

impl<T: Send + 'static> Future for Shield<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // A future that panics is not put back: it must not be polled again.
        let Some(mut future) = self.future.take() else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Shield<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.spawner.take_over(future.map(drop).boxed());
        }
    }
}

#[cfg(test)]
mod tests;
