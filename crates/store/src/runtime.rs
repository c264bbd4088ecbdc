//! Futures that depend on the tokio runtime they run on: its timers, its sockets, its tasks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::runtime::{Handle, Id};

fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// Runs a future as long as it is polled on the runtime where it began; `None` if it is polled on another one.
///
/// A future may be moved to another runtime because its own has ended. Timers and connections that were made on the old one
/// never answer there, or panic, so whatever holds them must begin again. A future that holds none needs no such care.
///
/// ```
/// use futures::FutureExt;
/// use perennial_store::on_one_runtime;
/// use tokio::runtime::Builder;
///
/// let mut never = Box::pin(on_one_runtime(std::future::pending::<()>()));
/// let (one, other) = (Builder::new_current_thread().build()?, Builder::new_current_thread().build()?);
/// one.block_on(async { assert!((&mut never).now_or_never().is_none()) });
/// assert_eq!(other.block_on(never), None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn on_one_runtime<F: Future>(future: F) -> Option<F::Output> {
    let began = current();
    let mut future = pin!(future);
    poll_fn(|context| match current() {
        now if now.is_some() && now != began => Poll::Ready(None),
        _ => future.as_mut().poll(context).map(Some),
    })
    .await
}
