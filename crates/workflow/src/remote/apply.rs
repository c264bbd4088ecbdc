//! The owner: turns the message of a client into a commit.

use super::message::Message;
use crate::send;
use crate::workflows::Workflows;
use async_trait::async_trait;
use bytes::Bytes;
use perennial_store::{Applied, MessageHandler, Op, Result};

impl Workflows {
    /// The name of this engine in messages of clients that reach it through their store.
    pub const ENGINE: &'static str = "workflow";
}

#[async_trait]
impl MessageHandler for Workflows {
    /// Stores a start, an event or a cancellation of a client elsewhere, as if the client were in this process. On a store
    /// that broke it fails: what is opened in its place belongs to another engine, and takes the message again.
    async fn apply(&self, payload: Bytes, cursor: Op) -> Result<Applied> {
        let (item, delay) = Message::decode(&payload)?;
        send::message_with(&self.engine(), item, delay, cursor).await
    }
}
