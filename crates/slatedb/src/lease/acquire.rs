//! Acquires a lease: looks, waits until nobody holds it, takes it.

use super::candidate::{Delivery, Inner, Wait};
use super::document::{Document, Owner, State};
use super::held::{Held, Shared};
use super::mutation::mutant;
use super::object::{Failure, Found, Look};
use super::renew::Renewal;
use super::sight::{Sight, Verdict};
use super::tries::Tries;
use super::writer::Writer;
use super::{Error, Machine};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info};

const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// For how many request timeouts a request that fails is repeated: the first one, and those at the end of the wait.
const RETRY_TIMEOUTS: u32 = 3;

/// One call of [`Candidate::acquire`](super::Candidate::acquire).
pub(super) struct Acquisition {
    candidate: Arc<Inner>,
    wait: Wait,
    incarnation: String,
    sight: Sight,
    /// What was written and may be in effect.
    tries: Tries,
    has_written: bool,
    /// What the lease said before it was taken.
    predecessor: Option<Document>,
    has_compared: bool,
    began: Duration,
    /// When the bucket first and last replied.
    first_reply: Option<Duration>,
    last_reply: Option<Duration>,
    pause: Duration,
}

/// What to do next.
enum Next {
    /// The lease is ours, by a write that was sent at this time.
    Won(Box<Found>, Duration),
    /// To look again after a while.
    Look(Duration),
}

impl Acquisition {
    pub(super) fn new(candidate: Arc<Inner>, wait: Wait) -> Self {
        Self {
            wait,
            incarnation: candidate.machine.fresh(),
            sight: Sight::default(),
            tries: Tries::default(),
            has_written: false,
            predecessor: None,
            has_compared: false,
            began: candidate.machine.now(),
            first_reply: None,
            last_reply: None,
            pause: FIRST_PAUSE,
            candidate,
        }
    }

    fn machine(&self) -> &Machine {
        &self.candidate.machine
    }

    fn now(&self) -> Duration {
        self.candidate.machine.now()
    }

    /// Acquires the lease, starts to renew it and hands it to the caller.
    pub(super) async fn run(mut self, mut reply: oneshot::Sender<Result<Delivery, Error>>) {
        loop {
            match self.step().await {
                Ok(Next::Won(found, sent)) => {
                    let held = self.start(*found, sent);
                    // If the caller is gone, this drops the delivery, and so releases the lease.
                    reply.send(Ok(Delivery(Some(held)))).ok();
                    return;
                }
                Ok(Next::Look(after)) => {
                    let until = self.now() + after;
                    tokio::select! {
                        biased;
                        () = reply.closed() => return self.withdraw().await,
                        () = self.machine().sleep_until(until) => {}
                    }
                }
                Err(error) => {
                    self.withdraw().await;
                    reply.send(Err(error)).ok();
                    return;
                }
            }
        }
    }

    /// Looks at the lease, and takes it if it may be taken.
    async fn step(&mut self) -> Result<Next, Error> {
        let asked = self.now();
        let known = match self.verdict(asked) {
            Verdict::Wait(_) => self.sight.found().map(|found| found.version.clone()),
            // Before the lease is taken, its nonce is looked at as well.
            Verdict::Free => None,
        };
        let look = match self.candidate.object.read(known.as_ref()).await {
            Ok(look) => look,
            Err(failure) => return self.failed(failure),
        };
        let now = self.now();
        self.first_reply.get_or_insert(now);
        self.last_reply = Some(now);
        if let Look::Found(found) = &look
            && let Some(sent) = self.tries.sent(&found.document.nonce)
        {
            return self.won((**found).clone(), sent).await;
        }
        self.sight.note(look, mutant!(SeenBeforeAsked, asked, now));
        if self.verdict(now) != Verdict::Free {
            self.compare_clocks().await?;
        }
        match self.verdict(self.now()) {
            Verdict::Free => self.take().await,
            Verdict::Wait(left) => self.look_later(left),
        }
    }

    fn verdict(&self, now: Duration) -> Verdict {
        self.sight
            .verdict(now, |incarnation| self.candidate.former.has(incarnation))
    }

    /// Finds out by the clock of the bucket how old the lease is, once: later, this process has seen for itself.
    async fn compare_clocks(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_compared, true) {
            return Ok(());
        }
        let owner = self.sight.found().map(|found| found.document.owner.to_string());
        info!(
            bucket = self.candidate.object.bucket(),
            owner, "another process holds the lease: waiting for it"
        );
        match self.candidate.object.bucket_time().await {
            Ok(bucket_ms) => {
                let error = self.candidate.settings.bucket_clock_error;
                self.sight.compare(bucket_ms, error, self.now());
                Ok(())
            }
            Err(failure @ Failure::Denied { .. }) => Err(self.candidate.object.error(failure)),
            // The lease is waited for instead.
            Err(failure) => {
                debug!(why = failure.why(), "the clock of the bucket could not be read");
                Ok(())
            }
        }
    }

    /// Writes this process into the lease.
    async fn take(&mut self) -> Result<Next, Error> {
        let base = self.sight.found().cloned();
        let machine = self.machine();
        let owner = Owner {
            host: machine.host.clone(),
            process: machine.process,
            incarnation: self.incarnation.clone(),
        };
        let (since, nonce) = (machine.date(), machine.fresh());
        let previous = base.as_ref().map(|base| &base.document);
        let document = Document::taken(previous, owner, since, self.candidate.settings.length, nonce);
        let sent = self.now();
        self.tries.add(&document.nonce, sent);
        self.has_written = true;
        if previous.is_none_or(|previous| previous.owner.incarnation != self.incarnation) {
            self.predecessor = previous.cloned();
        }
        let replaced = base.as_ref().map(|base| &base.version);
        match self.candidate.object.write(&document, replaced).await {
            Ok(version) => {
                let found = Found {
                    document,
                    modified_ms: 0,
                    version,
                };
                self.won(found, sent).await
            }
            // Whether it was, the next look will tell.
            Err(failure @ (Failure::Refused(_) | Failure::Transient(_))) => self.failed(failure),
            Err(failure) => Err(self.candidate.object.error(failure)),
        }
    }

    /// A write of ours is in effect. It counts unless that took too long to learn.
    async fn won(&mut self, found: Found, sent: Duration) -> Result<Next, Error> {
        let now = self.now();
        if now < self.candidate.settings.deadline(sent) {
            return Ok(Next::Won(Box::new(found), sent));
        }
        // No other try can take effect after this one, and this one is replaced by the next.
        self.tries.clear();
        self.candidate.former.add(&self.incarnation);
        self.sight.note(Look::Found(Box::new(found)), now);
        Ok(Next::Look(self.next_pause()))
    }

    /// Another process holds the lease, for so long at least.
    fn look_later(&mut self, left: Duration) -> Result<Next, Error> {
        self.pause = FIRST_PAUSE;
        let look_every = self.candidate.settings.look_every;
        let now = self.now();
        let Wait::For(time) = self.wait else {
            return Ok(Next::Look(left.min(look_every)));
        };
        let until = self.first_reply.unwrap_or(self.began) + time;
        // A lease that is about to run out is waited for: it may well have been left behind before this process began.
        if now >= until && now + left > until + look_every {
            return Err(self.owned(now));
        }
        let pause = left.min(look_every);
        Ok(Next::Look(match until.saturating_sub(now) {
            Duration::ZERO => pause,
            rest => pause.min(rest),
        }))
    }

    fn owned(&self, now: Duration) -> Error {
        let bucket = self.candidate.object.bucket();
        match self.sight.found() {
            Some(Found { document, .. }) => Error::Owned {
                bucket,
                owner: Box::new(document.owner.clone()),
                since: document.since.clone(),
                generation: document.generation,
                unchanged_for: self.sight.unchanged_for(now),
            },
            None => Error::Unavailable {
                bucket,
                why: "its lease object was deleted a moment ago".to_owned(),
            },
        }
    }

    /// A request failed.
    fn failed(&mut self, failure: Failure) -> Result<Next, Error> {
        let now = self.now();
        let settings = &self.candidate.settings;
        let replied = |within: Duration| self.last_reply.is_some_and(|at| now.saturating_sub(at) < within);
        let is_final = match failure {
            Failure::Unreadable(_) | Failure::Unsupported(_) | Failure::NoBucket(_) => true,
            // Credentials are replaced now and then, and a standby may wait for weeks.
            Failure::Denied { .. } => !replied(settings.length),
            Failure::Refused(_) | Failure::Transient(_) => {
                let retry_for = settings.request_timeout * RETRY_TIMEOUTS;
                match (self.first_reply, self.wait) {
                    (None, _) => now >= self.began + retry_for,
                    (Some(first), Wait::For(time)) => now >= first + time.max(settings.length) + retry_for,
                    (Some(_), Wait::Forever) => false,
                }
            }
        };
        if is_final {
            return Err(self.candidate.object.error(failure));
        }
        debug!(why = failure.why(), "a lease could not be read or taken yet");
        Ok(Next::Look(self.next_pause()))
    }

    fn next_pause(&mut self) -> Duration {
        let longest = self.candidate.settings.look_every;
        let pause = self.pause.min(longest);
        self.pause = (self.pause * 2).min(longest);
        pause
    }

    /// Starts to renew a lease that was won.
    fn start(&mut self, found: Found, sent: Duration) -> Held {
        let Inner {
            object,
            settings,
            machine,
            runtime,
            former,
        } = &*self.candidate;
        let document = &found.document;
        info!(
            bucket = object.bucket(),
            generation = document.generation,
            "a lease was acquired"
        );
        metrics::counter!("perennial_lease_acquired_total").increment(1);
        let deadline = settings.deadline(sent);
        let shared = Shared::new(Arc::clone(&machine.boot), document, deadline, Arc::clone(former));
        let shared = Arc::new(shared);
        let renewal = Renewal {
            object: Arc::clone(object),
            machine: machine.clone(),
            settings: settings.clone(),
            shared: Arc::clone(&shared),
            writer: Writer::new(Arc::clone(object), machine.clone(), found),
            renewed: sent,
        };
        let (commands, received) = mpsc::unbounded_channel();
        runtime.spawn(renewal.run(received));
        Held::new(shared, commands, self.predecessor.take())
    }

    /// Gives up what may have been written, by one try. If it fails, the lease runs out by itself.
    async fn withdraw(&mut self) {
        if mutant!(ForgetWithdrawal, true, !self.has_written) {
            return;
        }
        self.candidate.former.add(&self.incarnation);
        let Ok(Look::Found(found)) = self.candidate.object.read(None).await else {
            return;
        };
        let Found {
            mut document, version, ..
        } = *found;
        if document.owner.incarnation == self.incarnation {
            document.state = State::Released;
            document.nonce = self.machine().fresh();
            if let Err(failure) = self.candidate.object.write(&document, Some(&version)).await {
                let why = failure.why();
                info!(why, "a lease that nobody wants any more is left to run out");
            }
        }
    }
}
