//! Notifications of new work, so that an engine need not poll.

use crate::Lane;
use tokio::sync::broadcast;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A record was put into this lane.
    Placed(Lane),
    /// Signals were lost: query every lane.
    Missed,
}

/// Receives notifications of new work. Signals are hints: they may be lost, late or duplicated.
pub struct Signals(Option<broadcast::Receiver<Lane>>);

impl Signals {
    /// The signals of a store that has none: [`Signals::next`] never returns.
    pub fn none() -> Self {
        Self(None)
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        let Some(receiver) = &mut self.0 else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(lane) => Signal::Placed(lane),
            Err(broadcast::error::RecvError::Lagged(_)) => Signal::Missed,
            Err(broadcast::error::RecvError::Closed) => {
                self.0 = None;
                Signal::Missed
            }
        }
    }
}

/// The sending end, for stores.
#[derive(Clone)]
pub struct SignalSender(broadcast::Sender<Lane>);

impl SignalSender {
    /// A sender whose receivers may fall `capacity` signals behind.
    pub fn new(capacity: usize) -> Self {
        Self(broadcast::Sender::new(capacity))
    }

    /// A new receiver.
    pub fn subscribe(&self) -> Signals {
        Signals(Some(self.0.subscribe()))
    }

    /// Whether there is a receiver.
    pub fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Announces that a record was put into a lane.
    pub fn placed(&self, lane: &Lane) {
        if self.is_heard() {
            // Without a receiver the signal reaches no one, which is not a failure.
            self.0.send(lane.clone()).ok();
        }
    }
}
