//! Where a message came from, and what is known of its intent.

use crate::engine::Engine;
use crate::records::envelope::IntentRef;
use perennial_store::Sharing;
use std::sync::Arc;
use tokio::sync::watch;

/// What is known of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This process is removing it; the outcome will be known in a moment.
    Going,
    /// It is gone, and no process can be delivering it.
    Gone,
    /// It may still exist, or another process may still be delivering it.
    Unknown,
}

/// The intent of a message, as this process knows it.
#[derive(Debug)]
pub struct Origin {
    /// Which one it is.
    pub from: IntentRef,
    fate: watch::Sender<Fate>,
}

impl Origin {
    /// An intent with what is known of it.
    pub fn new(from: IntentRef, fate: Fate) -> Self {
        Self {
            from,
            fate: watch::Sender::new(fate),
        }
    }

    /// What is known.
    pub fn fate(&self) -> Fate {
        *self.fate.borrow()
    }

    /// Updates what is known.
    pub fn tell(&self, fate: Fate) {
        self.fate.send_replace(fate);
    }
}

/// The intent of a message that was found in the store.
pub fn origin(engine: &Engine, from: IntentRef) -> Arc<Origin> {
    // A process that owns its store delivers every intent that it finds before it looks for messages.
    let fate = match engine.store.sharing() {
        Sharing::Exclusive => Fate::Gone,
        Sharing::Shared => Fate::Unknown,
    };
    Arc::new(Origin::new(from, fate))
}

/// Waits until it is known what became of an intent.
pub async fn known(origin: &Origin) {
    // The sender is borrowed, so it cannot go away meanwhile.
    origin.fate.subscribe().wait_for(|fate| *fate != Fate::Going).await.ok();
}
