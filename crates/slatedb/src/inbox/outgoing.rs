//! The client: sends messages in order, each until it exists or its time is over.

use super::bell::Ring;
use super::envelope::{Object, Position};
use super::mutation::Mutation;
use super::names::{Incarnation, Places};
use super::requests::{Content, Failure, Requests};
use super::settings::OutgoingSettings;
use crate::{Bucket, Shard};
use async_trait::async_trait;
use bytes::Bytes;
use perennial_store::{Clock, Error, MessageSender, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a ring that failed is tried again. The owner finds the messages within a minute anyway.
const RINGS: u32 = 5;

/// Draws random numbers, for the ids of incarnations: two clients must never draw the same.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;

/// Sends messages to the owner of a shard, through the bucket. Cheap to clone: clones share one queue.
///
/// Messages are sent one after the other, in the order in which they were given. A call returns when its message exists, and
/// if no other message waits behind it, when the bell was rung: so a function that is frozen right after the call leaves nothing
/// undone.
///
/// All requests are made by one task, so that a caller that is dropped tears nothing. It ends when every clone is dropped
/// and what waited was sent.
#[derive(Clone)]
pub struct Outgoing {
    queue: mpsc::Sender<Waiting>,
    clock: Arc<dyn Clock>,
    settings: Arc<OutgoingSettings>,
}

/// A message that waits to be sent.
struct Waiting {
    engine: &'static str,
    payload: Bytes,
    deadline_ms: u64,
    reply: oneshot::Sender<Result<()>>,
}

impl Outgoing {
    /// A client of a shard, whose requests are made on `runtime`.
    pub fn start(
        bucket: &Bucket,
        shard: Shard,
        settings: OutgoingSettings,
        clock: Arc<dyn Clock>,
        random: Random,
        runtime: &Handle,
    ) -> Self {
        let (queue, waiting) = mpsc::channel(settings.queue.max(1));
        let settings = Arc::new(settings);
        let requests = Requests::new(
            Arc::clone(bucket.objects()),
            Arc::clone(&clock),
            settings.request_timeout,
        );
        let sender = Sender {
            requests,
            places: Places::of(bucket, shard),
            settings: Arc::clone(&settings),
            clock: Arc::clone(&clock),
            random,
            current: None,
            before: None,
            unrung: None,
        };
        runtime.spawn(sender.run(waiting));
        Self { queue, clock, settings }
    }
}

#[async_trait]
impl MessageSender for Outgoing {
    async fn send(&self, engine: &'static str, payload: Bytes) -> Result<()> {
        if payload.len() > self.settings.message_bytes {
            return Err(Error::TooLarge {
                what: "a message through the bucket, in bytes,",
                actual: payload.len(),
                limit: self.settings.message_bytes,
            });
        }
        let (reply, outcome) = oneshot::channel();
        let deadline_ms = later(self.clock.now_ms(), self.settings.deadline);
        let waiting = Waiting {
            engine,
            payload,
            deadline_ms,
            reply,
        };
        let ended = "the runtime that sends messages has ended";
        let queued = self.queue.send(waiting).await;
        queued.map_err(|_| Error::Closed(ended.to_owned()))?;
        outcome.await.unwrap_or_else(|_| Err(unknown(ended)))
    }
}

fn later(at_ms: u64, by: Duration) -> u64 {
    at_ms.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
}

fn unknown(why: &str) -> Error {
    Error::UnknownOutcome(format!("it is unknown whether the message will be applied: {why}"))
}

/// The incarnation that is in use.
struct Current {
    incarnation: Incarnation,
    /// The last message that exists.
    sent: u64,
    rings: u64,
    /// The latest time that the clock showed.
    latest_ms: u64,
}

/// A ring that is due.
struct Unrung {
    ring_by_ms: u64,
    failed: u32,
}

/// What became of one attempt to create a message.
enum Attempt {
    Created,
    /// The name holds something else: another process uses this incarnation, as a copy of a virtual machine does.
    Taken,
    /// It did not happen, and no waiting helps.
    Denied(String),
    /// It may have happened, or may happen later.
    Unknown(String),
}

/// The task that sends.
struct Sender {
    requests: Requests,
    places: Places,
    settings: Arc<OutgoingSettings>,
    clock: Arc<dyn Clock>,
    random: Random,
    current: Option<Current>,
    /// The last message of the incarnations before: those of the next one must be applied after it.
    before: Option<Position>,
    unrung: Option<Unrung>,
}

impl Sender {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        while let Some(first) = self.next(&mut queue).await {
            let mut next = Some(first);
            while let Some(message) = next.take() {
                let outcome = self.deliver(&message).await;
                next = queue.try_recv().ok();
                if next.is_none() || self.is_overdue() {
                    self.ring().await;
                }
                // A caller that has gone does not matter.
                message.reply.send(outcome).ok();
            }
        }
    }

    /// The next message. Meanwhile a ring that failed is tried again.
    async fn next(&mut self, queue: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
        loop {
            let Some(unrung) = &self.unrung else {
                return queue.recv().await;
            };
            let pause = pause_after(unrung.failed);
            tokio::select! {
                biased;
                next = queue.recv() => {
                    if next.is_none() {
                        self.ring().await;
                    }
                    return next;
                }
                () = self.clock.sleep(pause) => self.ring().await,
            }
        }
    }

    /// Creates a message, and tries until its time is over.
    async fn deliver(&mut self, message: &Waiting) -> Result<()> {
        let mut failed = 0;
        // Why it may have been sent, after a first try.
        let mut doubt: Option<String> = None;
        loop {
            if self.clock.now_ms() >= message.deadline_ms {
                return Err(match doubt {
                    None => Error::Unavailable("a message was not sent: those before it took too long".to_owned()),
                    Some(why) => self.give_up(&why),
                });
            }
            let (incarnation, number) = self.next_name(doubt.is_none());
            let after = self.before.filter(|_| number == 1);
            let object = Object::new(message.engine, message.payload.clone(), after).map_err(Error::Invalid)?;
            match (self.attempt(incarnation, number, &object).await, &doubt) {
                (Attempt::Created, _) => {
                    self.created(number);
                    return Ok(());
                }
                (Attempt::Taken, None) => {
                    warn!(%incarnation, number, "another process sends under the same incarnation; a new one begins");
                    self.end_incarnation();
                }
                (Attempt::Taken, Some(why)) => return Err(self.give_up(why)),
                (Attempt::Denied(why), None) => {
                    self.end_incarnation();
                    return Err(Error::Invalid(format!("the object store refuses a message: {why}")));
                }
                (Attempt::Denied(why), Some(_)) => return Err(self.give_up(&why)),
                (Attempt::Unknown(why), _) => doubt = Some(why),
            }
            failed += 1;
            self.clock.sleep(pause_after(failed)).await;
        }
    }

    /// Gives up on a message that may be applied yet: no other one may have its number.
    fn give_up(&mut self, why: &str) -> Error {
        self.end_incarnation();
        unknown(why)
    }

    fn end_incarnation(&mut self) {
        let ended = self.current.take().filter(|current| current.sent > 0);
        self.before = ended.map(|current| (current.incarnation, current.sent)).or(self.before);
    }

    /// The name of the next message. An incarnation that has become too old ends before a message, never between two tries
    /// of the same.
    fn next_name(&mut self, is_first_try: bool) -> (Incarnation, u64) {
        let now_ms = self.clock.now_ms();
        let lifetime = self.settings.lifetime;
        // A clock that was put back would let it live for longer.
        let is_over =
            |current: &Current| now_ms >= later(current.incarnation.start_ms(), lifetime) || now_ms < current.latest_ms;
        if is_first_try && self.current.as_ref().is_some_and(is_over) {
            self.end_incarnation();
        }
        let random = &self.random;
        let current = self.current.get_or_insert_with(|| Current {
            incarnation: Incarnation::new(now_ms, random()),
            sent: 0,
            rings: 0,
            latest_ms: now_ms,
        });
        current.latest_ms = current.latest_ms.max(now_ms);
        (current.incarnation, current.sent + 1)
    }

    async fn attempt(&self, incarnation: Incarnation, number: u64, object: &Object) -> Attempt {
        let path = incarnation.message(&self.places.inbox, number);
        match self.requests.create(&path, object.content()).await {
            Ok(()) => return Attempt::Created,
            Err(Failure::Exists) => {}
            Err(Failure::Missing) => return Attempt::Denied("there is no such bucket or container".to_owned()),
            Err(Failure::Denied(why)) => return Attempt::Denied(why),
            Err(Failure::Failed(why)) => return Attempt::Unknown(why),
        }
        match self.requests.get(&path, object.len()).await {
            Ok(Content::Whole(found)) if object.is_stored_as(&found) => Attempt::Created,
            Ok(_) => Attempt::Taken,
            Err(Failure::Denied(why) | Failure::Failed(why)) => Attempt::Unknown(why),
            // The owner has just deleted it, or the object store only meant that another request is under way. To create it
            // again is right in either case.
            Err(Failure::Missing | Failure::Exists) => {
                Attempt::Unknown("the object store says both that it exists and that it does not".to_owned())
            }
        }
    }

    /// A message exists from now on.
    fn created(&mut self, number: u64) {
        metrics::counter!("perennial_inbox_sent_total").increment(1);
        if let Some(current) = &mut self.current {
            current.sent = number;
        }
        let ring_by_ms = later(self.clock.now_ms(), self.settings.ring_every);
        self.unrung.get_or_insert(Unrung { ring_by_ms, failed: 0 });
    }

    /// Whether messages have gone out for so long that the bell must not wait for the last of them.
    fn is_overdue(&self) -> bool {
        let now_ms = self.clock.now_ms();
        self.unrung.as_ref().is_some_and(|unrung| now_ms >= unrung.ring_by_ms)
    }

    /// Rings the bell if there are messages that it was not rung for.
    async fn ring(&mut self) {
        let Some(mut unrung) = self.unrung.take() else { return };
        let content = self.next_ring();
        let Err(failure) = self.requests.overwrite(&self.places.bell, content).await else {
            return;
        };
        unrung.failed += 1;
        debug!(?failure, failed = unrung.failed, "the bell could not be rung");
        if unrung.failed < RINGS {
            self.unrung = Some(unrung);
        }
    }

    fn next_ring(&mut self) -> Bytes {
        if self.settings.has(Mutation::SameRing) {
            return Bytes::from_static(b"ring");
        }
        match &mut self.current {
            Some(current) => {
                current.rings += 1;
                let ring = Ring {
                    incarnation: current.incarnation,
                    number: current.sent,
                    count: current.rings,
                };
                ring.encode()
            }
            // The incarnation of the messages has ended.
            None => Bytes::from(format!("{:032x}", (self.random)())),
        }
    }
}

fn pause_after(failed: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failed.saturating_sub(1).min(16));
    doubled.min(LONGEST_PAUSE)
}
