//! The writes of one incarnation whose outcome is not known yet.

use std::time::Duration;

/// Nonces that were sent, each with the time of the boot clock before it was sent.
#[derive(Debug, Default)]
pub(super) struct Tries(Vec<(String, Duration)>);

impl Tries {
    pub(super) fn add(&mut self, nonce: &str, sent: Duration) {
        self.0.push((nonce.to_owned(), sent));
    }

    /// When a nonce was sent; `None` if it is another process's.
    pub(super) fn sent(&self, nonce: &str) -> Option<Duration> {
        self.0.iter().find(|(tried, _)| tried == nonce).map(|(_, sent)| *sent)
    }

    /// Forgets them all: one of them took effect, so that no other can.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
