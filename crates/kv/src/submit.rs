//! How a commit gets its place in the order.
//!
//! If memory knows all records that a commit names, and no other commit stands in line for them, it is accepted at once.
//! Else it joins the [line](crate::line): it waits until it stands first for all its records, and then reads those that are
//! unknown without holding a lock. The read, and everything after it, does not run in the caller's future: on a quick engine the
//! thread whose commit leaves the line goes on with those that waited for it, on others a thread of the engine's runtime does.

use crate::committer::Core;
use crate::fetch::fetch;
use crate::line::Places;
use crate::lookup::{Found, Lookup, check_all};
use crate::prepare::Prepared;
use crate::readers::Readers;
use crate::state::{Accepted, Reply, State};
use crate::stats::add_one;
use crate::{EngineError, OrderedKv};
use parking_lot::MutexGuard;
use perennial_store::{Committed, Error, OnDurable, Result};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::oneshot;

/// How the caller of an accepted commit learns of its result.
pub(crate) enum Submitted {
    /// It is done.
    Done(Committed),
    /// It is done when the receiver says so.
    Waiting(Committed, oneshot::Receiver<Result<()>>),
    /// By a call, which the caller is to make if it is here.
    Ordered(Option<Reply>),
}

/// A commit that was not accepted, and never will be.
pub(crate) struct NotAccepted {
    pub(crate) error: Error,
    /// The call that was to be made, if there was to be one.
    pub(crate) on_durable: Option<OnDurable>,
}

/// Whether a commit was accepted.
pub(crate) type Outcome = std::result::Result<Submitted, NotAccepted>;

/// What the caller's first poll has achieved.
pub(crate) enum Submission {
    Decided(Outcome),
    /// It is decided when the receiver says so, whether or not anything receives it.
    InLine(oneshot::Receiver<Outcome>),
}

/// The outcome of a commit that was in line.
pub(crate) async fn decided(receiver: oneshot::Receiver<Outcome>) -> Outcome {
    receiver.await.unwrap_or_else(|_| {
        let why = "the storage engine ended before the commit was decided; open the store again and read what is there";
        Err(NotAccepted {
            error: Error::UnknownOutcome(why.to_owned()),
            on_durable: None,
        })
    })
}

/// A commit in line.
pub(crate) struct Request {
    prepared: Prepared,
    on_durable: Option<OnDurable>,
    reply: oneshot::Sender<Outcome>,
}

impl Request {
    fn new(prepared: Prepared, on_durable: Option<OnDurable>) -> (Self, oneshot::Receiver<Outcome>) {
        let (reply, receiver) = oneshot::channel();
        let request = Self {
            prepared,
            on_durable,
            reply,
        };
        (request, receiver)
    }
}

/// A commit that stands first for all its records, and reads those that memory does not know.
struct Reading {
    request: Request,
    places: Places,
    found: Vec<Found>,
}

/// Outcomes that are sent when no lock is held: a caller that is gone drops what it was to get.
type Replies = Vec<(oneshot::Sender<Outcome>, Outcome)>;

impl<E: OrderedKv> Core<E> {
    /// Gives a commit its place in the order, or in the line.
    pub(crate) fn submit(self: &Arc<Self>, prepared: Prepared, on_durable: Option<OnDurable>) -> Submission {
        if self.is_inline {
            return Submission::Decided(self.submit_inline(prepared, on_durable));
        }
        let mut state = self.state.lock();
        if let Err(error) = state.check_open() {
            return Submission::Decided(Err(NotAccepted { error, on_durable }));
        }
        if state.line.is_taken(prepared.keys()) {
            let records = state.line.records(prepared.keys());
            let (request, receiver) = Request::new(prepared, on_durable);
            state.line.wait(records, request);
            return Submission::InLine(receiver);
        }
        match state.look_up_all(&prepared) {
            Err(error) => Submission::Decided(Err(NotAccepted { error, on_durable })),
            Ok(Lookup::Complete(found)) => {
                let submitted = self.accept(&mut state, prepared, found, on_durable);
                Submission::Decided(Ok(submitted))
            }
            Ok(Lookup::Incomplete(found)) => {
                let records = state.line.records(prepared.keys());
                let places = state.line.enter(records);
                drop(state);
                self.read_first(prepared, on_durable, places, found)
            }
        }
    }

    /// Reads what a commit lacks that stands first for all its records: here on a quick engine, else on another thread.
    fn read_first(
        self: &Arc<Self>,
        prepared: Prepared,
        on_durable: Option<OnDurable>,
        places: Places,
        mut found: Vec<Found>,
    ) -> Submission {
        if let Some(readers) = &self.readers {
            let (request, receiver) = Request::new(prepared, on_durable);
            self.read_elsewhere(readers, Reading { request, places, found });
            return Submission::InLine(receiver);
        }
        self.read(&prepared, &mut found);
        let mut state = self.state.lock();
        let outcome = self.decide(&mut state, prepared, on_durable, found);
        let ready = state.line.leave(places);
        if !ready.is_empty() {
            let readings = self.advance(state, ready, Replies::new());
            self.start(readings);
        }
        Submission::Decided(outcome)
    }

    /// Reads and decides commits: here, with those that waited for them, or on threads of the engine's runtime.
    fn start(self: &Arc<Self>, mut readings: VecDeque<Reading>) {
        while let Some(mut reading) = readings.pop_front() {
            match &self.readers {
                Some(readers) => self.read_elsewhere(readers, reading),
                None => {
                    self.read(&reading.request.prepared, &mut reading.found);
                    readings.extend(self.conclude(reading));
                }
            }
        }
    }

    fn read_elsewhere(self: &Arc<Self>, readers: &Arc<Readers>, reading: Reading) {
        let mut job = ReadJob {
            core: Arc::clone(self),
            reading: Some(reading),
        };
        readers.run(Box::new(move || job.run()));
    }

    /// Reads the records of a commit that memory does not know.
    fn read(&self, prepared: &Prepared, found: &mut [Found]) {
        let engine = self.engine.read();
        // Where it is gone, the commit is refused because the store is closed.
        let Some(engine) = engine.as_ref() else { return };
        let fetching = catch_unwind(AssertUnwindSafe(|| fetch(engine, &prepared.ops, found)));
        if fetching.is_err() {
            for unread in found.iter_mut().filter(|found| matches!(found, Found::Unread)) {
                *unread = Found::Failed(panicked());
            }
        }
    }

    /// Accepts or refuses a commit that has read its records.
    fn decide(
        &self,
        state: &mut State,
        prepared: Prepared,
        on_durable: Option<OnDurable>,
        found: Vec<Found>,
    ) -> Outcome {
        match state.check_open().and_then(|()| check_all(&prepared, &found)) {
            Ok(()) => Ok(self.accept(state, prepared, found, on_durable)),
            Err(error) => Err(self.refuse(state, error, on_durable)),
        }
    }

    /// Decides a commit that has read its records, and goes on with those that waited for it.
    fn conclude(&self, reading: Reading) -> VecDeque<Reading> {
        let Reading { request, places, found } = reading;
        let mut state = self.state.lock();
        let outcome = self.decide(&mut state, request.prepared, request.on_durable, found);
        let ready = state.line.leave(places);
        self.advance(state, ready, Replies::from([(request.reply, outcome)]))
    }

    /// Decides the commits that stand first for all their records now, and those that stood behind them. Returns those that
    /// must read.
    fn advance(
        &self,
        mut state: MutexGuard<'_, State>,
        ready: Vec<(Places, Request)>,
        mut replies: Replies,
    ) -> VecDeque<Reading> {
        let (mut ready, mut readings) = (VecDeque::from(ready), VecDeque::new());
        while let Some((places, request)) = ready.pop_front() {
            let lookup = state.check_open().and_then(|()| state.look_up_all(&request.prepared));
            let outcome = match lookup {
                Ok(Lookup::Incomplete(found)) => {
                    readings.push_back(Reading { request, places, found });
                    continue;
                }
                Ok(Lookup::Complete(found)) => Ok(self.accept(&mut state, request.prepared, found, request.on_durable)),
                Err(error) => Err(self.refuse(&mut state, error, request.on_durable)),
            };
            replies.push((request.reply, outcome));
            ready.extend(state.line.leave(places));
        }
        drop(state);
        for (reply, outcome) in replies {
            drop(reply.send(outcome));
        }
        readings
    }

    /// A commit is not accepted.
    pub(crate) fn refuse(&self, state: &mut State, error: Error, on_durable: Option<OnDurable>) -> NotAccepted {
        // A read is the first to notice that another handle has taken over.
        if let (Error::Fenced(why), None) = (&error, &state.closed) {
            self.stop_serving(state, &EngineError::Fenced(why.clone()));
        }
        NotAccepted { error, on_durable }
    }

    /// Accepts a commit and leaves it to the committer. A relaxed one is visible at once and does not wait, unless too much
    /// is waiting.
    fn accept(
        &self,
        state: &mut State,
        prepared: Prepared,
        found: Vec<Found>,
        on_durable: Option<OnDurable>,
    ) -> Submitted {
        let (mut accepted, committed) = state.accept(prepared, found);
        self.count(&accepted);
        let mut lanes = Vec::new();
        if !accepted.durable {
            lanes = state.publish_early(&mut accepted);
        }
        let is_full = state.waiting_bytes > self.settings.max_waiting_bytes;
        let submitted = match on_durable {
            Some(on_durable) => {
                accepted.reply = Reply::Call(on_durable, committed);
                Submitted::Ordered(None)
            }
            None if accepted.durable || is_full => {
                let (ticket, receiver) = oneshot::channel();
                accepted.reply = Reply::Ticket(ticket);
                Submitted::Waiting(committed, receiver)
            }
            None => Submitted::Done(committed),
        };
        let is_awaited = !matches!(submitted, Submitted::Done(_));
        let was_idle = state.waiting.is_empty() || (is_awaited && !state.waiting_urgent);
        state.enqueue(accepted);
        if was_idle || state.is_group_complete(&self.settings) {
            self.wake_committer();
        }
        self.signal(&lanes);
        submitted
    }

    pub(crate) fn count(&self, accepted: &Accepted) {
        match accepted.durable {
            true => add_one(&self.counts.commits_durable),
            false => add_one(&self.counts.commits_relaxed),
        }
    }
}

/// A read that runs on the engine's runtime.
struct ReadJob<E: OrderedKv> {
    core: Arc<Core<E>>,
    reading: Option<Reading>,
}

impl<E: OrderedKv> ReadJob<E> {
    fn run(&mut self) {
        let Some(mut reading) = self.reading.take() else { return };
        self.core.read(&reading.request.prepared, &mut reading.found);
        let readings = self.core.conclude(reading);
        self.core.start(readings);
    }
}

impl<E: OrderedKv> Drop for ReadJob<E> {
    /// The runtime has ended before it ran: the store can read nothing any more, so this commit and all in line are refused.
    fn drop(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        {
            let mut state = self.core.state.lock();
            if state.closed.is_none() {
                let why = "the runtime of the storage engine has ended".to_owned();
                self.core
                    .stop_serving(&mut state, &EngineError::Io(ErrorKind::Other, why));
            }
        }
        // None of them reads, since the store is closed.
        drop(self.core.conclude(reading));
    }
}

fn panicked() -> EngineError {
    EngineError::Io(ErrorKind::Other, "the storage engine panicked".to_owned())
}
