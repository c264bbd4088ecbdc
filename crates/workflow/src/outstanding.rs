//! Acknowledgements that were given and are not durable yet.
//!
//! On a store that belongs to this process, an ack returns once its commit is *ordered*: checked, and with a fixed place
//! among all commits. What it adds is not seen before it is durable, see [`perennial_store::Store::order`]. A call that
//! begins after an ack has returned waits here for what it must see.

use crate::engine::Engine;
use crate::tuning::{OUTSTANDING_ACKS, OUTSTANDING_BYTES};
use parking_lot::Mutex;
use perennial_store::Commit;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// What an ack is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A turn: it changes what readers of its instance see.
    Turn,
    /// An activity: its result is a message, which no reader sees before a turn consumes it.
    Work,
}

/// The acks of a process that are not durable yet.
#[derive(Default)]
pub struct Outstanding {
    acks: Mutex<Acks>,
    /// How many there are, for callers that would not wait.
    count: AtomicUsize,
    changed: Notify,
    /// Whether the last handle on the engine was dropped. Held while a call of the store uses the engine.
    is_dropped: Mutex<bool>,
}

#[derive(Default)]
struct Acks {
    /// Those that are outstanding, oldest first.
    entries: Vec<Entry>,
    next: u64,
    bytes: usize,
}

struct Entry {
    number: u64,
    instance: Arc<str>,
    kind: Kind,
    bytes: usize,
    /// Whether its commit is ordered. Until then the ack has not returned, and no caller need see it.
    is_ordered: bool,
}

/// One ack, outstanding until this is dropped.
pub struct Ack {
    all: Arc<Outstanding>,
    number: u64,
}

impl Ack {
    /// Its number: it grows from ack to ack.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The commit of this ack is durable, or has failed: `follow` is what follows, unless the engine is gone.
    pub fn conclude(self, engine: &Weak<Engine>, follow: impl FnOnce(&Arc<Engine>)) {
        let is_dropped = self.all.is_dropped.lock();
        let engine = (!*is_dropped).then(|| engine.upgrade()).flatten();
        // Without an engine there is no memory that must agree.
        if let Some(engine) = engine {
            follow(&engine);
        }
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        let mut acks = self.all.acks.lock();
        if let Some(at) = acks.entries.iter().position(|entry| entry.number == self.number) {
            let entry = acks.entries.remove(at);
            acks.bytes -= entry.bytes;
        }
        self.all.count.store(acks.entries.len(), Ordering::Release);
        drop(acks);
        self.all.changed.notify_waiters();
    }
}

impl Outstanding {
    /// An ack of an instance begins, with what it is about to commit.
    pub fn begin(self: &Arc<Self>, instance: &Arc<str>, kind: Kind, commit: &Commit) -> Ack {
        let drafts = commit.ops.iter().filter_map(|op| op.draft());
        let bytes = drafts.map(|draft| draft.body.len()).sum();
        let mut acks = self.acks.lock();
        acks.next += 1;
        acks.bytes += bytes;
        let number = acks.next;
        acks.entries.push(Entry {
            number,
            instance: Arc::clone(instance),
            kind,
            bytes,
            is_ordered: false,
        });
        self.count.store(acks.entries.len(), Ordering::Release);
        Ack {
            all: Arc::clone(self),
            number,
        }
    }

    /// The last handle on the engine is about to be dropped, and the engine with it. Waits for a call that uses the engine;
    /// later ones do not. If such a call were the last to use it, the store would be closed there, after the drop has returned.
    pub fn drop_engine(&self) {
        *self.is_dropped.lock() = true;
    }

    /// The commit of an ack is ordered, and the ack is about to return. Waits if there are too many, or too large ones: until
    /// there is room, or this one is durable.
    pub async fn ordered(&self, number: u64) {
        {
            let mut acks = self.acks.lock();
            let Some(entry) = acks.entries.iter_mut().find(|entry| entry.number == number) else {
                return;
            };
            entry.is_ordered = true;
        }
        let is_full = |acks: &Acks| acks.entries.len() > OUTSTANDING_ACKS || acks.bytes > OUTSTANDING_BYTES;
        self.until(|acks| !is_full(acks) || !acks.entries.iter().any(|entry| entry.number == number))
            .await;
    }

    async fn until(&self, is_over: impl Fn(&Acks) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_over(&self.acks.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until none of these acks is outstanding, of those that have returned by now.
    async fn until_none(&self, is_awaited: impl Fn(&Entry) -> bool) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let latest = self.acks.lock().next;
        self.until(|acks| {
            let mut before = acks.entries.iter().take_while(|entry| entry.number <= latest);
            !before.any(|entry| entry.is_ordered && is_awaited(entry))
        })
        .await;
    }

    /// Waits until every ack that has returned is durable, or has failed.
    pub async fn all(&self) {
        self.until_none(|_| true).await;
    }

    /// Waits until everything that was acknowledged for an instance is durable, or has failed.
    pub async fn of(&self, instance: &str) {
        self.until_none(|entry| &*entry.instance == instance).await;
    }

    /// Waits until the turns of an instance are durable that were acknowledged, or have failed.
    pub async fn turns_of(&self, instance: &str) {
        self.until_none(|entry| entry.kind == Kind::Turn && &*entry.instance == instance)
            .await;
    }
}
