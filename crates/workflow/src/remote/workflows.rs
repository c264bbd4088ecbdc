//! The handle of a process that owns nothing.

use super::reader::Reader;
use crate::names;
use perennial_store::{Clock, MessageSender, Result, Store};
use std::sync::Arc;

/// The workflows of a store that another process owns: give it to `duroxide::Client` as its provider.
///
/// A client starts workflows, raises events, cancels, and reads status, output, custom status, history and key-values. It runs
/// nothing: a `duroxide::runtime::Runtime` needs a process that owns the store.
///
/// Starts, events and cancellations return when they are stored and certain to be applied, in their order, whether or not there is an
/// owner now. What is read is some seconds old at most, as the store says; so a workflow that was just started may not be
/// found yet. Waiting for it works all the same.
///
/// Clones are the same client.
#[derive(Clone)]
pub struct RemoteWorkflows {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) reader: Reader,
    pub(super) sender: Arc<dyn MessageSender>,
    pub(super) clock: Arc<dyn Clock>,
}

impl RemoteWorkflows {
    /// The workflows that `store` shows, which only reads, and whose owner `sender` reaches.
    pub fn new(store: Arc<dyn Store>, sender: Arc<dyn MessageSender>, clock: Arc<dyn Clock>) -> Self {
        let reader = Reader::new(store, Arc::clone(&clock));
        let inner = Inner { reader, sender, clock };
        Self { inner: Arc::new(inner) }
    }

    /// The store beneath, which only reads. Bodies may be larger than it takes at once.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.inner.reader.store)
    }

    /// The longest id that an instance may be started with, in bytes.
    pub fn longest_instance_id(&self) -> usize {
        names::longest(&self.inner.reader.store.limits())
    }

    /// Closes the store. What was sent is sent.
    pub async fn close(&self) -> Result<()> {
        self.inner.reader.store.close().await
    }
}
