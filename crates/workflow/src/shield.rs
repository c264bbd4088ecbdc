//! Futures that finish even if their caller goes away.

use futures::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// Runs in its caller's task, but if the caller is dropped, the rest runs on its own.
///
/// The runtime drops futures when it shuts down. Between a commit and what it means for the board there must
/// be no such gap: what is stored and what is remembered would part.
pub struct Shield<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Shield<T> {
    /// Protects a future.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<T: Send + 'static> Future for Shield<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.0 else {
            return Poll::Pending;
        };
        let ready = future.as_mut().poll(context);
        if ready.is_ready() {
            self.0 = None;
        }
        ready
    }
}

impl<T: Send + 'static> Drop for Shield<T> {
    fn drop(&mut self) {
        if let (Some(future), Ok(handle)) = (self.0.take(), Handle::try_current()) {
            handle.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_dropped_shield_finishes_what_it_began() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, finished) = oneshot::channel();
        let mut shield = Shield::new(async move {
            wait.await.unwrap();
            done.send(()).unwrap();
        });
        assert!(futures::FutureExt::now_or_never(&mut shield).is_none());
        drop(shield);
        go.send(()).unwrap();
        finished.await.unwrap();
    }
}
