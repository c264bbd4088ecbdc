//! Messages from processes that do not own a store to the one that does.

use crate::{Op, Result, Version};
use async_trait::async_trait;
use bytes::Bytes;

/// Sends messages to the process that owns a store.
#[async_trait]
pub trait MessageSender: Send + Sync + 'static {
    /// Sends a message to one engine of the owner, and returns once it is stored. It is applied exactly once, after every
    /// message for which an earlier call returned. [`Error::UnknownOutcome`](crate::Error::UnknownOutcome) if it may be
    /// applied or not.
    ///
    /// A caller that is dropped does not undo the message.
    async fn send(&self, engine: &'static str, payload: Bytes) -> Result<()>;
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Its effect and the cursor are durable. Holds the version that the cursor's operation wrote, if it is known.
    Done(Option<Version>),
    /// Nothing was committed, and it never can be: the reason, for people.
    Refused(String),
}

/// An engine of the owner, as the receiver of messages.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Commits the effect of a message together with `cursor`, in one commit, and returns when that is durable.
    ///
    /// The cursor says that the message was applied, and its operation has a condition: if it fails, the message was
    /// applied before, and nothing may be committed. The store of the handler must take commits over several partitions.
    async fn apply(&self, payload: Bytes, cursor: Op) -> Result<Applied>;
}
