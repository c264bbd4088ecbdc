//! Holds on an opened store: a program may open a store in several places, and its last holder closes it.

use crate::{Error, Result};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Closes a store and the engines on it, once.
pub type Closer = Box<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// The holds on one opened store.
pub struct Holders {
    count: AtomicUsize,
    close: Closer,
}

/// A hold on an opened store. Clones are the same hold: to release one is to release all of them.
///
/// The store is closed when its last hold is [released](Self::release). A hold that is dropped without that does not count
/// any more, but closes nothing: whatever it kept alive is dropped with it.
#[derive(Clone)]
pub struct Hold(Arc<Inner>);

struct Inner {
    holders: Arc<Holders>,
    is_released: watch::Sender<bool>,
}

impl Holders {
    /// The first hold on a store that `close` closes.
    pub fn first(close: Closer) -> Hold {
        let holders = Arc::new(Self {
            count: AtomicUsize::new(1),
            close,
        });
        Hold::new(holders)
    }

    /// Another hold on the store; `None` if the last one has been released.
    pub fn another(self: &Arc<Self>) -> Option<Hold> {
        let add = |count: usize| (count > 0).then_some(count + 1);
        let added = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        added.is_ok().then(|| Hold::new(Arc::clone(self)))
    }

    /// Removes one hold; returns whether it was the last one.
    fn leave(&self) -> bool {
        self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Hold {
    fn new(holders: Arc<Holders>) -> Self {
        Self(Arc::new(Inner {
            holders,
            is_released: watch::Sender::new(false),
        }))
    }

    /// All holds on the same store.
    pub fn holders(&self) -> &Arc<Holders> {
        &self.0.holders
    }

    /// Whether this hold was released.
    pub fn is_released(&self) -> bool {
        *self.0.is_released.borrow()
    }

    /// Fails if this hold was released.
    pub fn check(&self) -> Result<()> {
        match self.is_released() {
            true => Err(Error::Closed("it was closed; open the store again".to_owned())),
            false => Ok(()),
        }
    }

    /// Waits until this hold is released.
    pub async fn released(&self) {
        let mut released = self.0.is_released.subscribe();
        // The sender lives as long as this hold.
        released.wait_for(|is_released| *is_released).await.ok();
    }

    /// Releases this hold, and closes the store if it was the last one. A second call does nothing.
    pub async fn release(&self) -> Result<()> {
        if self.0.is_released.send_replace(true) || !self.0.holders.leave() {
            return Ok(());
        }
        (self.0.holders.close)().await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.is_released.borrow() {
            self.holders.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hold, and how often its store was closed.
    fn hold() -> (Hold, Arc<AtomicUsize>) {
        let closed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&closed);
        let close = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(()) }) as BoxFuture<'static, Result<()>>
        };
        (Holders::first(Box::new(close)), closed)
    }

    #[tokio::test]
    async fn the_last_holder_closes_once() {
        let (first, closed) = hold();
        let second = first.holders().another().unwrap();
        let same = second.clone();
        first.release().await.unwrap();
        assert!(first.is_released() && first.check().is_err() && second.check().is_ok());
        assert_eq!(closed.load(Ordering::Relaxed), 0);
        second.release().await.unwrap();
        same.release().await.unwrap();
        same.released().await;
        assert_eq!(closed.load(Ordering::Relaxed), 1);
        assert!(first.holders().another().is_none() && second.holders().another().is_none());
    }

    #[tokio::test]
    async fn a_hold_that_was_dropped_does_not_keep_the_store_open() {
        let (first, closed) = hold();
        drop(first.holders().another());
        first.release().await.unwrap();
        assert_eq!(closed.load(Ordering::Relaxed), 1);
    }
}
