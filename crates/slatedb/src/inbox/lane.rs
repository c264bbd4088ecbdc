//! The messages of one incarnation, applied in order.

use super::cursors::{Cursor, Cursors};
use super::envelope::{Envelope, LONGEST_LINE, Position};
use super::listing::Known;
use super::mutation::Mutation;
use super::names::{Incarnation, Places};
use super::requests::{Content, Failure, Requests};
use super::settings::IntakeSettings;
use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path;
use perennial_store::{Applied, Clock, Error, MessageHandler};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{debug, warn};

/// Messages that are fetched ahead, if they are small.
const AHEAD: usize = 4;
/// How large those may be, in bytes: with many lanes, no more than this many times as much is in memory.
const SMALL: u64 = 256 << 10;
/// How many messages are deleted at once.
const DELETED_TOGETHER: usize = 64;

/// The engines by their names.
pub(crate) type Handlers = HashMap<&'static str, Arc<dyn MessageHandler>>;

/// What all lanes of an owner work with.
pub(crate) struct Shared {
    pub(crate) requests: Requests,
    pub(crate) places: Places,
    pub(crate) cursors: Cursors,
    pub(crate) handlers: Handlers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<IntakeSettings>,
    /// Whether the owner wants to stop after the messages that are under way.
    pub(crate) stopping: watch::Sender<bool>,
}

/// How the work on a lane ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All that was known is done.
    Done,
    /// The next message is missing.
    Missing,
    /// Something failed: it must be tried again.
    Later,
    /// Another message must be applied first.
    After(Position),
    /// The store takes nothing any more: another process owns it, or it was closed.
    Lost,
}

/// What became of a lane.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) incarnation: Incarnation,
    /// The last message that is done with.
    pub(crate) reached: u64,
    pub(crate) end: End,
}

/// A message as it was fetched.
type Fetched = (u64, Result<Content, Failure>);

/// Why a lane does not go on, if it does not.
type Step = Result<(), End>;

impl Shared {
    /// Applies the messages of an incarnation, as far as they are known.
    pub(crate) async fn drain(self: Arc<Self>, incarnation: Incarnation, known: Known) -> Outcome {
        let mut lane = Lane {
            shared: &self,
            incarnation,
            reached: 0,
            done: Vec::new(),
        };
        let end = match lane.work(&known).await {
            Ok(()) => End::Done,
            Err(end) => end,
        };
        lane.delete_done().await;
        let reached = lane.reached;
        Outcome {
            incarnation,
            reached,
            end,
        }
    }

    /// Waits until the owner wants to stop.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as this.
        self.stopping
            .subscribe()
            .wait_for(|is_stopping| *is_stopping)
            .await
            .ok();
    }

    /// Moves an object out of the inbox, for people to look at. The caller deletes it afterwards.
    async fn copy_aside(&self, object: &Path, why: &str) -> Result<(), Failure> {
        let name: Vec<_> = object.prefix_match(&self.places.inbox).into_iter().flatten().collect();
        let aside = name
            .into_iter()
            .fold(self.places.quarantine.clone(), |path, part| path.join(part));
        match self.requests.copy(object, &aside).await {
            // It was moved before.
            Err(Failure::Missing) => return Ok(()),
            copied => copied?,
        }
        warn!(%object, %why, "a message cannot be applied and is kept in quarantine");
        metrics::counter!("perennial_inbox_quarantined_total").increment(1);
        Ok(())
    }

    /// Moves objects that are no messages out of the inbox.
    pub(crate) async fn put_aside(self: Arc<Self>, objects: Vec<Path>, why: &'static str) {
        let mut copied = Vec::new();
        for object in objects {
            match self.copy_aside(&object, why).await {
                Ok(()) => copied.push(object),
                Err(failure) => debug!(%object, ?failure, "an object could not be put into quarantine yet"),
            }
        }
        self.delete(copied).await;
    }

    /// Deletes objects. Those that are left are found by the next listing.
    async fn delete(&self, objects: Vec<Path>) {
        if objects.is_empty() {
            return;
        }
        if let Err(failure) = self.requests.delete(objects).await {
            debug!(?failure, "messages that were applied could not be deleted yet");
        }
    }

    async fn fetch(&self, incarnation: Incarnation, number: u64) -> Fetched {
        let object = incarnation.message(&self.places.inbox, number);
        let limit = self.settings.message_bytes.saturating_add(LONGEST_LINE);
        (number, self.requests.get(&object, limit).await)
    }
}

/// A lane at work.
struct Lane<'a> {
    shared: &'a Shared,
    incarnation: Incarnation,
    /// The last message that is done with.
    reached: u64,
    /// Messages that are done with and must be deleted.
    done: Vec<Path>,
}

impl Lane<'_> {
    async fn work(&mut self, known: &Known) -> Step {
        let cursor = self.cursor().await?;
        self.reached = cursor.applied;
        if self
            .shared
            .cursors
            .refuses(self.incarnation, &cursor, self.shared.clock.now_ms())
        {
            self.reached = known.highest;
            return self.refuse(known).await;
        }
        let mut next = cursor.applied + 1;
        if self.shared.settings.has(Mutation::SkipGap) {
            next = known
                .numbers
                .iter()
                .copied()
                .find(|number| *number >= next)
                .unwrap_or(next);
        }
        if self.shared.settings.has(Mutation::ApplyTwice) {
            next = known.numbers.first().map_or(next, |first| next.min(*first));
        }
        self.drop_applied(known, next);
        let ahead = if known.largest > SMALL { 1 } else { AHEAD };
        let (shared, incarnation) = (self.shared, self.incarnation);
        let numbers = futures::stream::iter(next..=known.highest);
        let mut messages = numbers.map(|number| shared.fetch(incarnation, number)).buffered(ahead);
        loop {
            let next = tokio::select! {
                biased;
                () = shared.stopped() => return Err(End::Later),
                next = messages.next() => next,
            };
            let Some((number, fetched)) = next else { return Ok(()) };
            self.take(number, fetched).await?;
            self.reached = number;
            if self.done.len() >= DELETED_TOGETHER {
                self.delete_done().await;
            }
        }
    }

    fn object(&self, number: u64) -> Path {
        self.incarnation.message(&self.shared.places.inbox, number)
    }

    async fn cursor(&self) -> Result<Cursor, End> {
        let cursor = self.shared.cursors.get(self.incarnation).await;
        cursor.map_err(|error| self.failed(&error))
    }

    /// Deletes messages that were applied before, by an owner that did not come to it.
    fn drop_applied(&mut self, known: &Known, next: u64) {
        let applied = known.numbers.iter().take_while(|number| **number < next);
        let objects: Vec<Path> = applied.map(|number| self.object(*number)).collect();
        metrics::counter!("perennial_inbox_dropped_total").increment(objects.len() as u64);
        self.done.extend(objects);
    }

    async fn delete_done(&mut self) {
        self.shared.delete(std::mem::take(&mut self.done)).await;
    }

    /// Refuses an incarnation by its name: its cursor may have been forgotten.
    async fn refuse(&mut self, known: &Known) -> Step {
        for number in &known.numbers {
            let object = self.object(*number);
            let why = "it is too old, and may have been applied before";
            self.copy_aside(&object, why).await?;
            self.done.push(object);
        }
        Ok(())
    }

    async fn copy_aside(&self, object: &Path, why: &str) -> Step {
        let copied = self.shared.copy_aside(object, why).await;
        copied.map_err(|failure| {
            debug!(%object, ?failure, "a message could not be put into quarantine yet");
            End::Later
        })
    }

    /// Deals with the next message.
    async fn take(&mut self, number: u64, fetched: Result<Content, Failure>) -> Step {
        let cursor = self.cursor().await?;
        let object = match fetched {
            Ok(Content::Whole(object)) => object,
            Ok(Content::TooLarge(bytes)) => {
                let why = format!("it has {bytes} bytes, which is too large");
                return self.quarantine(number, &cursor, &why).await;
            }
            Err(Failure::Missing) => {
                warn!(incarnation = %self.incarnation, number, "a message is missing; those after it wait for it");
                return Err(End::Missing);
            }
            Err(failure) => {
                debug!(incarnation = %self.incarnation, number, ?failure, "a message could not be read yet");
                return Err(End::Later);
            }
        };
        let envelope = match Envelope::decode(&object) {
            Ok(envelope) => envelope,
            Err(why) => return self.quarantine(number, &cursor, &why).await,
        };
        if let Some(before) = envelope.after {
            self.check_before(before).await?;
        }
        let Some(handler) = self.shared.handlers.get(&*envelope.engine) else {
            let why = format!("the owner has no engine {:?}", envelope.engine);
            return self.quarantine(number, &cursor, &why).await;
        };
        if self.shared.settings.has(Mutation::DeleteBeforeDurable) {
            self.shared.delete(vec![self.object(number)]).await;
        }
        self.apply(&**handler, number, &cursor, envelope.payload).await
    }

    async fn apply(&mut self, handler: &dyn MessageHandler, number: u64, cursor: &Cursor, payload: Bytes) -> Step {
        let (shared, incarnation) = (self.shared, self.incarnation);
        let advance = shared.cursors.advance(incarnation, cursor, number);
        let advance = advance.map_err(|error| self.failed(&error))?;
        match handler.apply(payload, advance).await {
            Ok(Applied::Done(version)) => {
                shared.cursors.advanced(incarnation, number, version);
                metrics::counter!("perennial_inbox_applied_total").increment(1);
            }
            Ok(Applied::Refused(why)) => {
                warn!(%incarnation, number, %why, "a message was refused");
                metrics::counter!("perennial_inbox_refused_total").increment(1);
                let passed = shared.cursors.pass(incarnation, cursor, number).await;
                passed.map_err(|error| self.failed(&error))?;
            }
            // No later try can succeed.
            Err(error @ (Error::Invalid(_) | Error::TooLarge { .. } | Error::Corrupt(_))) => {
                return self.quarantine(number, cursor, &error.to_string()).await;
            }
            Err(error) => return Err(self.failed(&error)),
        }
        self.done.push(self.object(number));
        Ok(())
    }

    /// Passes a message that cannot be applied, and keeps it elsewhere.
    async fn quarantine(&mut self, number: u64, cursor: &Cursor, why: &str) -> Step {
        let object = self.object(number);
        self.copy_aside(&object, why).await?;
        let passed = self.shared.cursors.pass(self.incarnation, cursor, number).await;
        passed.map_err(|error| self.failed(&error))?;
        self.done.push(object);
        Ok(())
    }

    /// The store failed, or another owner has moved the cursor: it is read again next time.
    fn failed(&self, error: &Error) -> End {
        self.shared.cursors.forget(self.incarnation);
        debug!(incarnation = %self.incarnation, %error, "messages could not be applied yet");
        match error {
            Error::Fenced(_) | Error::Closed(_) => End::Lost,
            _ => End::Later,
        }
    }

    /// Whether the message that must be applied first was. One that is missing is not waited for.
    async fn check_before(&self, (before, number): Position) -> Step {
        let shared = self.shared;
        let found = shared.cursors.get(before).await;
        let cursor = found.map_err(|error| self.failed(&error))?;
        if cursor.applied >= number || shared.cursors.refuses(before, &cursor, shared.clock.now_ms()) {
            return Ok(());
        }
        let next = before.message(&shared.places.inbox, cursor.applied + 1);
        match shared.requests.get(&next, 0).await {
            Ok(_) => Err(End::After((before, number))),
            Err(Failure::Missing) => {
                let now = shared.cursors.get(before).await;
                let moved = now.map_err(|error| self.failed(&error))? != cursor;
                if moved {
                    return Err(End::After((before, number)));
                }
                warn!(incarnation = %self.incarnation, %before, "earlier messages of a client are missing");
                Ok(())
            }
            Err(_) => Err(End::Later),
        }
    }
}
