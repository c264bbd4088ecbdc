//! Sessions on a shared store: which worker may run the activities of a session.

use super::chore::{self, Topic};
use super::encode;
use crate::tuning::SESSION_LINGER_MS;
use perennial_store::{Draft, Key, Order, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PREFIX: &str = "ses:";

/// A worker's hold on a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The worker.
    pub owner: Arc<str>,
    /// Until when it holds the session.
    pub until_ms: u64,
    /// The process that wrote this.
    pub process: Arc<str>,
}

impl Session {
    /// Where a session is.
    pub fn key(session: &str) -> Key {
        Key::new(Partition::new(format!("{PREFIX}{session}")), RecordId::of("session"))
    }

    /// The record to write. It is a chore, so that a session whose worker is gone is removed.
    pub fn draft(&self, session: &str, order: Order) -> Result<Draft> {
        let place = chore::place(Topic::Sessions, order, self.until_ms.saturating_add(SESSION_LINGER_MS));
        Ok(Draft::new(Self::key(session), encode(self)?).placed(place))
    }
}
