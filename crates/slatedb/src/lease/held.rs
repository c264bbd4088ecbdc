//! A lease that is held, and handles on it.

use super::document::Document;
use super::mutation::mutant;
use super::renew::Command;
use super::{BootClock, Ended, Error, Owner, Shown};
use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// A lease that is held, and renewed in the background.
///
/// [Release](Self::release) it when nothing is served any more, so that another process can take over at once. If it is dropped
/// without that, it is not valid any more and not renewed, and runs out by itself.
pub struct Held {
    handle: Handle,
    commands: mpsc::UnboundedSender<Command>,
    predecessor: Option<Document>,
}

/// Says whether a lease is still held. Cheap to clone, and does not keep the lease.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// What an owner and its handles share.
pub(super) struct Shared {
    boot: Arc<dyn BootClock>,
    owner: Owner,
    generation: u64,
    /// When the lease ends for its owner, in nanoseconds of the boot clock; 0 once it has ended.
    deadline: AtomicU64,
    ended: watch::Sender<Option<Ended>>,
    /// Why the last renewal failed.
    failure: Mutex<Option<String>>,
    former: Arc<Former>,
}

/// Incarnations of this process that have ended and may still be in the lease object. Nobody need wait for them.
#[derive(Debug, Default)]
pub(super) struct Former(Mutex<Vec<String>>);

/// More cannot be in the object or on their way to it.
const MOST_FORMER: usize = 16;

impl Former {
    pub(super) fn add(&self, incarnation: &str) {
        let mut former = self.0.lock();
        if former.len() == MOST_FORMER {
            former.remove(0);
        }
        former.push(incarnation.to_owned());
    }

    pub(super) fn has(&self, incarnation: &str) -> bool {
        self.0.lock().iter().any(|former| former == incarnation)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Shared {
    pub(super) fn new(boot: Arc<dyn BootClock>, document: &Document, deadline: Duration, former: Arc<Former>) -> Self {
        Self {
            boot,
            owner: document.owner.clone(),
            generation: document.generation,
            deadline: AtomicU64::new(nanos(deadline)),
            ended: watch::Sender::new(None),
            failure: Mutex::new(None),
            former,
        }
    }

    fn is_valid(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Acquire);
        if self.is_before(deadline) {
            return true;
        }
        if deadline > 0 {
            // The first to see that the lease has run out makes it final: it never becomes valid again.
            let why = self.failure.lock().clone();
            let why = why.unwrap_or_else(|| "this process was stopped for too long".to_owned());
            self.end(Ended::Expired { why });
        }
        false
    }

    fn is_before(&self, deadline: u64) -> bool {
        nanos(self.boot.now()) < mutant!(ServeAfterLease, if deadline > 0 { u64::MAX } else { 0 }, deadline)
    }

    pub(super) fn check(&self) -> Result<(), Ended> {
        match self.is_valid() {
            true => Ok(()),
            // The reason is there before the deadline is taken away.
            false => Err(self.ended.borrow().clone().unwrap_or(Ended::Stopped)),
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        match self.deadline.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Puts the end off, unless it has come: a lease that has ended stays so.
    pub(super) fn extend(&self, until: Duration) {
        if self.is_valid() {
            let later = |deadline: u64| (deadline > 0).then(|| deadline.max(nanos(until)));
            let extended = self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
            extended.ok();
            *self.failure.lock() = None;
        }
    }

    pub(super) fn renewal_failed(&self, why: &str) {
        *self.failure.lock() = Some(why.to_owned());
    }

    /// Ends the lease. The first reason stands.
    pub(super) fn end(&self, why: Ended) {
        let is_first = self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            if is_first {
                *ended = Some(why);
            }
            is_first
        });
        self.deadline.store(0, Ordering::Release);
        if is_first {
            self.former.add(&self.owner.incarnation);
            if !matches!(*self.ended.borrow(), Some(Ended::Released)) {
                metrics::counter!("perennial_lease_lost_total").increment(1);
            }
        }
    }

    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ended)) => ended.clone(),
            // The sender lives as long as this.
            _ => Ended::Stopped,
        }
    }
}

impl Handle {
    /// Whether the lease is held: nobody else owns the shard at the moment of the call. Once it is not, it never is again.
    ///
    /// To be called after a read and before its reply.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Fails with the reason if the lease is not held any more.
    pub fn check(&self) -> Result<(), Ended> {
        self.0.check()
    }

    /// When the lease ends unless it is renewed, by the boot clock of its [`Machine`](super::Machine); `None` once it has ended.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline()
    }

    /// How long the lease is held at least, if nobody ends it.
    pub fn remaining(&self) -> Duration {
        let now = self.0.boot.now();
        self.deadline()
            .map_or(Duration::ZERO, |deadline| deadline.saturating_sub(now))
    }

    /// Waits until the lease is not held any more, and returns why.
    pub async fn lost(&self) -> Ended {
        self.0.ended().await
    }

    /// Changes from `None` to the reason when the lease ends.
    pub fn watch(&self) -> watch::Receiver<Option<Ended>> {
        self.0.ended.subscribe()
    }

    /// The owner: this process.
    pub fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// What [`is_valid`](Self::is_valid) would return, without making it final.
    #[cfg(test)]
    pub(super) fn would_be_valid(&self) -> bool {
        self.0.is_before(self.0.deadline.load(Ordering::Acquire))
    }

    /// How often the lease has been taken. Grows with each owner.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }
}

impl Held {
    pub(super) fn new(
        shared: Arc<Shared>,
        commands: mpsc::UnboundedSender<Command>,
        predecessor: Option<Document>,
    ) -> Self {
        Self {
            handle: Handle(shared),
            commands,
            predecessor,
        }
    }

    /// A handle on the lease.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// What the lease object said before; `None` if there was none.
    pub fn predecessor(&self) -> Option<&Document> {
        self.predecessor.as_ref()
    }

    /// Writes something into the lease object for others to see, in place of what was shown before. Returns when it is in the
    /// bucket.
    pub async fn show(&self, shown: Shown) -> Result<(), Error> {
        let (reply, shown_at) = oneshot::channel();
        self.commands.send(Command::Show(shown, reply)).ok();
        match shown_at.await {
            Ok(result) => result,
            Err(_) => Err(Error::Ended(self.handle.check().err().unwrap_or(Ended::Stopped))),
        }
    }

    /// Gives the lease up, so that another process can take over at once. It is invalid from this call on, so nothing must be
    /// served any more; writes must have ended before.
    ///
    /// Fails if that could not be written to the bucket: the lease then runs out by itself. Goes on if this future is dropped.
    pub async fn release(self) -> Result<(), Error> {
        self.handle.0.end(Ended::Released);
        let (reply, released) = oneshot::channel();
        self.commands.send(Command::Release(reply)).ok();
        released.await.unwrap_or(Err(Error::Stopped))
    }

    /// Gives the lease up without waiting for it.
    pub(super) fn release_in_background(&self) {
        self.handle.0.end(Ended::Released);
        self.commands.send(Command::Release(oneshot::channel().0)).ok();
    }
}

impl Deref for Held {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.0.end(Ended::Dropped);
    }
}
