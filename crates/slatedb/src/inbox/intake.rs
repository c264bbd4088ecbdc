//! The owner: finds messages and has them applied.

use super::bell::Ring;
use super::cadence::{Cadence, Seen};
use super::cursors::Cursors;
use super::lane::{End, Handlers, Outcome, Shared};
use super::listing::{Known, Listing};
use super::names::{Incarnation, Places};
use super::requests::{Content, Failure, Requests};
use super::settings::IntakeSettings;
use crate::{Bucket, Shard};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use perennial_store::{Clock, MessageHandler, Result, Store};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::debug;

/// The largest bell that is read: what a client writes is far smaller.
const BELL_BYTES: usize = 1024;

/// Takes in the messages of clients, for as long as this process owns the shard.
///
/// It works on a task of its own. It ends by itself, at once, when the store stops; [`stop`](Self::stop) ends it before. One that is
/// dropped ends at once, too: nothing is lost by it, because the next owner goes on where this one was.
pub struct Intake {
    task: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Intake {
    /// Begins to take in messages on `runtime`. `store` is the store that this process owns, and each handler is an
    /// engine on the same store, by the name that clients use.
    pub async fn start(
        bucket: &Bucket,
        shard: Shard,
        store: Arc<dyn Store>,
        handlers: impl IntoIterator<Item = (&'static str, Arc<dyn MessageHandler>)>,
        settings: IntakeSettings,
        clock: Arc<dyn Clock>,
        runtime: &Handle,
    ) -> Result<Self> {
        let settings = Arc::new(settings);
        let mut health = store.health();
        let cursors = Cursors::open(store, Arc::clone(&settings)).await?;
        let requests = Requests::new(
            Arc::clone(bucket.objects()),
            Arc::clone(&clock),
            settings.request_timeout,
        );
        let shared = Arc::new(Shared {
            requests,
            places: Places::of(bucket, shard),
            cursors,
            handlers: Handlers::from_iter(handlers),
            clock,
            settings,
            stopping: watch::Sender::new(false),
        });
        let worker = Worker::new(Arc::clone(&shared));
        let task = runtime.spawn(async move {
            tokio::select! {
                biased;
                health = health.stopped() => debug!(%health, "messages are no longer taken in"),
                () = worker.run() => {}
            }
        });
        let task = Mutex::new(Some(task));
        Ok(Self { task, shared })
    }

    /// Stops after the messages that are under way.
    pub async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        let task = self.task.lock().take();
        if let Some(task) = task {
            // It was aborted with its runtime, or panicked: in either case it has ended.
            task.await.ok();
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

/// What a look showed.
struct Looked {
    began_ms: u64,
    /// The content of the bell, read before the listing; `None` if it could not be read.
    bell: Option<Bytes>,
    /// The listing, if there was one, and when it began.
    listing: Option<(u64, std::result::Result<Listing, Failure>)>,
}

/// The task that takes messages in.
struct Worker {
    shared: Arc<Shared>,
    cadence: Cadence,
    /// The content of the bell before the last listing that succeeded.
    bell: Option<Bytes>,
    /// Whether a listing failed: the next look must list, whatever the bell says.
    must_list: bool,
    /// Messages that are to be applied.
    known: BTreeMap<Incarnation, Known>,
    /// Incarnations whose lane is to be worked on, in order.
    queue: VecDeque<Incarnation>,
    /// Incarnations whose lane is worked on.
    working: BTreeSet<Incarnation>,
    /// Incarnations that are tried again after the next look.
    later: BTreeSet<Incarnation>,
    sweep_ms: u64,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        let sweep_ms = after(shared.clock.now_ms(), shared.settings.sweep_every);
        Self {
            shared,
            cadence: Cadence::default(),
            bell: None,
            must_list: true,
            known: BTreeMap::new(),
            queue: VecDeque::new(),
            working: BTreeSet::new(),
            later: BTreeSet::new(),
            sweep_ms,
        }
    }

    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut lanes: FuturesUnordered<BoxFuture<'static, Outcome>> = FuturesUnordered::new();
        let mut chores: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let mut look = self.look();
        loop {
            self.start_lanes(&mut lanes);
            tokio::select! {
                biased;
                () = shared.stopped() => break,
                Some(outcome) = lanes.next() => {
                    if outcome.end == End::Lost {
                        return;
                    }
                    self.ended(outcome);
                }
                Some(()) = chores.next() => {}
                looked = &mut look => {
                    self.looked(looked, &chores);
                    look = self.look();
                }
            }
        }
        while lanes.next().await.is_some() {}
    }

    fn start_lanes(&mut self, lanes: &mut FuturesUnordered<BoxFuture<'static, Outcome>>) {
        while lanes.len() < self.shared.settings.lanes.max(1) {
            let Some(incarnation) = self.queue.pop_front() else {
                return;
            };
            let Some(known) = self.known.get(&incarnation) else {
                continue;
            };
            self.working.insert(incarnation);
            let shared = Arc::clone(&self.shared);
            lanes.push(Box::pin(shared.drain(incarnation, known.clone())));
        }
    }

    /// Work on a lane has ended.
    fn ended(&mut self, outcome: Outcome) {
        let incarnation = outcome.incarnation;
        self.working.remove(&incarnation);
        let highest = self.known.get(&incarnation).map_or(0, |known| known.highest);
        match outcome.end {
            // More came meanwhile.
            End::Done if highest > outcome.reached => self.queue.push_back(incarnation),
            // The next listing tells of what is missing.
            End::Done | End::Missing => drop(self.known.remove(&incarnation)),
            End::Later | End::Lost => drop(self.later.insert(incarnation)),
            End::After((before, number)) => {
                self.later.insert(incarnation);
                self.add(before, Known::up_to(number));
            }
        }
    }

    /// Messages of an incarnation are known to exist.
    fn add(&mut self, incarnation: Incarnation, known: Known) {
        let is_waiting = self.known.contains_key(&incarnation);
        self.known.entry(incarnation).or_default().merge(known);
        if !is_waiting {
            self.queue.push_back(incarnation);
        }
    }

    fn looked(&mut self, looked: Looked, chores: &FuturesUnordered<BoxFuture<'static, ()>>) {
        let mut seen = match self.later.is_empty() {
            true => Seen::Nothing,
            false => Seen::Unfinished,
        };
        match looked.listing {
            None => {}
            Some((began_ms, Ok(listing))) => {
                self.cadence.listed(began_ms);
                self.must_list = false;
                // Only what was read before the listing is known to be older than it.
                let has_rung = looked.bell.is_some() && looked.bell != self.bell;
                if let Some(bell) = looked.bell {
                    self.bell = Some(bell);
                }
                if has_rung || !listing.messages.is_empty() {
                    seen = Seen::Messages;
                }
                self.add_all(listing, chores);
            }
            Some((_, Err(failure))) => {
                debug!(?failure, "the inbox could not be listed");
                self.must_list = true;
                seen = Seen::Unfinished;
            }
        }
        self.cadence.looked(looked.began_ms, seen);
        self.queue.extend(std::mem::take(&mut self.later));
        let now_ms = self.shared.clock.now_ms();
        if now_ms >= self.sweep_ms {
            self.sweep_ms = after(now_ms, self.shared.settings.sweep_every);
            chores.push(Box::pin(sweep(Arc::clone(&self.shared), now_ms)));
        }
    }

    /// Adds what a listing shows, and what the bell tells.
    fn add_all(&mut self, mut listing: Listing, chores: &FuturesUnordered<BoxFuture<'static, ()>>) {
        if let Some(ring) = self.bell.as_deref().and_then(Ring::decode) {
            listing.hint((ring.incarnation, ring.number));
        }
        for (incarnation, known) in listing.messages {
            self.add(incarnation, known);
        }
        if !listing.others.is_empty() {
            let shared = Arc::clone(&self.shared);
            let why = "it does not have the name of a message";
            chores.push(Box::pin(shared.put_aside(listing.others, why)));
        }
    }

    /// The next look: when it is time, reads the bell, and lists the inbox if the bell has rung or it is time for that, too.
    fn look(&self) -> BoxFuture<'static, Looked> {
        let shared = Arc::clone(&self.shared);
        let look_ms = self.cadence.next_look_ms(&shared.settings);
        let list_ms = match self.must_list {
            true => 0,
            false => self.cadence.next_list_ms(&shared.settings),
        };
        let known = self.bell.clone();
        Box::pin(async move {
            let left_ms = look_ms.saturating_sub(shared.clock.now_ms());
            shared.clock.sleep(Duration::from_millis(left_ms)).await;
            let began_ms = shared.clock.now_ms();
            let bell = read_bell(&shared).await;
            let has_rung = bell.is_some() && bell != known;
            let is_due = shared.clock.now_ms() >= list_ms;
            let mut listing = None;
            if has_rung || is_due {
                let now_ms = shared.clock.now_ms();
                listing = Some((now_ms, Listing::read(&shared.requests, &shared.places.inbox).await));
            }
            Looked {
                began_ms,
                bell,
                listing,
            }
        })
    }
}

/// The content of the bell; `None` if it cannot be read.
async fn read_bell(shared: &Shared) -> Option<Bytes> {
    match shared.requests.get(&shared.places.bell, BELL_BYTES).await {
        Ok(Content::Whole(content)) => Some(content),
        // It has never rung.
        Err(Failure::Missing) => Some(Bytes::new()),
        Ok(Content::TooLarge(_)) | Err(_) => None,
    }
}

async fn sweep(shared: Arc<Shared>, now_ms: u64) {
    match shared.cursors.sweep(now_ms).await {
        Ok(0) => {}
        Ok(swept) => debug!(swept, "old cursors of clients were forgotten"),
        Err(error) => debug!(%error, "old cursors of clients could not be forgotten yet"),
    }
}

fn after(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
}
