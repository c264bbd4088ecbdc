//! A client of an object store that fails on purpose.

use crate::fault::{broken, denied, throttled};
use crate::request::{Condition, Recorded};
use crate::write_times::WriteTimes;
use crate::{Counts, Fault, Latency, Method, Request};
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, Result};
use parking_lot::Mutex;
use perennial_store::Clock;
use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A client of an object store that fails on purpose, adds latency, and counts and records requests.
///
/// Clones are the same client. [`client`](Self::client) gives another one on the same bucket, as another process has it.
#[derive(Clone)]
pub struct FaultyBucket {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) write_times: Arc<WriteTimes>,
    state: Arc<State>,
}

type Plan = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

struct State {
    made: Mutex<Made>,
    faults: Mutex<Faults>,
    latency: Mutex<Latency>,
    list_lag: Mutex<Duration>,
    is_frozen: watch::Sender<bool>,
    requested: watch::Sender<usize>,
}

/// The requests that were made.
#[derive(Default)]
struct Made {
    counts: Counts,
    records: Vec<Recorded>,
    is_recording: bool,
    next: usize,
}

#[derive(Default)]
struct Faults {
    by_index: BTreeMap<usize, Fault>,
    plan: Option<Plan>,
}

/// A request that has no number yet.
pub(crate) struct Draft {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) condition: Condition,
    pub(crate) sent_bytes: usize,
}

impl Draft {
    pub(crate) fn new(method: Method, path: &Path) -> Self {
        Self {
            method,
            path: path.clone(),
            condition: Condition::None,
            sent_bytes: 0,
        }
    }
}

/// Sends a request to the store behind the client; may be called more than once.
pub(crate) type Sender<T> = Box<dyn Fn() -> BoxFuture<'static, Result<T>> + Send + Sync>;

pub(crate) fn sender<T, Reply>(send: impl Fn() -> Reply + Send + Sync + 'static) -> Sender<T>
where
    Reply: Future<Output = Result<T>> + Send + 'static,
{
    Box::new(move || Box::pin(send()))
}

impl FaultyBucket {
    /// A client of a store, without faults or latency. Delays and times of requests are by this clock.
    pub fn new(inner: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            made: Mutex::new(Made {
                is_recording: true,
                ..Made::default()
            }),
            faults: Mutex::default(),
            latency: Mutex::default(),
            list_lag: Mutex::default(),
            is_frozen: watch::Sender::new(false),
            requested: watch::Sender::new(0),
        };
        Self {
            inner,
            clock,
            write_times: Arc::default(),
            state: Arc::new(state),
        }
    }

    /// Another client of the same bucket, with this clock: its faults, counts and latency are its own. Listings that lag know
    /// what all clients have written.
    #[must_use]
    pub fn client(&self, clock: Arc<dyn Clock>) -> Self {
        Self {
            write_times: Arc::clone(&self.write_times),
            ..Self::new(Arc::clone(&self.inner), clock)
        }
    }

    /// The same client with latency.
    #[must_use]
    pub fn with_latency(self, latency: Latency) -> Self {
        self.set_latency(latency);
        self
    }

    /// Requests take so long from now on.
    pub fn set_latency(&self, latency: Latency) {
        *self.state.latency.lock() = latency;
    }

    /// Every listing from now on lacks the objects that were written within this time.
    pub fn set_list_lag(&self, lag: Duration) {
        *self.state.list_lag.lock() = lag;
    }

    /// The request with this index meets a fault. Indices count from 0, from the creation of the client or its last
    /// [`restart`](Self::restart).
    pub fn fail_at(&self, index: usize, fault: Fault) {
        self.state.faults.lock().by_index.insert(index, fault);
    }

    /// Chooses the fault of every request from now on, in place of an earlier plan. Faults by index come first.
    pub fn plan(&self, plan: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.state.faults.lock().plan = Some(Box::new(plan));
    }

    /// Ends all faults. Requests that hang go on hanging.
    pub fn heal(&self) {
        *self.state.faults.lock() = Faults::default();
    }

    /// Freezes the client, as if its process were stopped: requests do not reach the store and replies do not reach the
    /// caller before [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.state.is_frozen.send_replace(true);
    }

    /// Ends a freeze.
    pub fn thaw(&self) {
        self.state.is_frozen.send_replace(false);
    }

    /// Numbers requests from 0 again, and forgets counts and records. Faults stay.
    pub fn restart(&self) {
        let mut made = self.state.made.lock();
        *made = Made {
            is_recording: made.is_recording,
            ..Made::default()
        };
        self.state.requested.send_replace(0);
    }

    /// Whether requests are recorded (they are by default) or only counted, as for long benchmarks.
    pub fn set_recording(&self, is_recording: bool) {
        self.state.made.lock().is_recording = is_recording;
    }

    /// How many requests were made.
    pub fn requested(&self) -> usize {
        *self.state.requested.borrow()
    }

    /// Waits until so many requests were made, whether they have returned or not.
    pub async fn wait_for(&self, requests: usize) {
        let mut requested = self.state.requested.subscribe();
        // The sender lives as long as this client.
        requested.wait_for(|made| *made >= requests).await.ok();
    }

    /// How many requests were made, by kind.
    pub fn counts(&self) -> Counts {
        self.state.made.lock().counts.clone()
    }

    /// The requests that were made, and what became of them, in order.
    pub fn records(&self) -> Vec<Recorded> {
        self.state.made.lock().records.clone()
    }

    pub(crate) fn list_lag(&self, fault: Option<&Fault>) -> Duration {
        let lag = *self.state.list_lag.lock();
        match fault {
            Some(Fault::StaleList(more)) => lag.max(*more),
            _ => lag,
        }
    }

    /// Makes a request, with whatever is to go wrong; returns the fault as well.
    pub(crate) async fn pass_with_fault<T: Send + 'static>(
        &self,
        draft: Draft,
        send: Sender<T>,
    ) -> Result<(T, Option<Fault>)> {
        let (request, fault) = self.begin(draft);
        self.thawed().await;
        let latency = self.state.latency.lock().of(request.method);
        self.sleep(latency).await;
        let result = self.apply(&request, fault.clone(), send).await;
        self.thawed().await;
        self.end(request.index, &result);
        result.map(|value| (value, fault))
    }

    /// Makes a request, with whatever is to go wrong.
    pub(crate) async fn pass<T: Send + 'static>(&self, draft: Draft, send: Sender<T>) -> Result<T> {
        self.pass_with_fault(draft, send).await.map(|(value, _)| value)
    }

    fn begin(&self, draft: Draft) -> (Request, Option<Fault>) {
        let request = {
            let mut made = self.state.made.lock();
            made.counts.add(draft.method);
            made.next += 1;
            Request {
                index: made.next - 1,
                method: draft.method,
                path: draft.path,
                condition: draft.condition,
                sent_bytes: draft.sent_bytes,
                at_ms: self.clock.now_ms(),
            }
        };
        let fault = {
            let mut faults = self.state.faults.lock();
            let planned = faults.by_index.remove(&request.index);
            planned.or_else(|| faults.plan.as_mut().and_then(|plan| plan(&request)))
        };
        let mut made = self.state.made.lock();
        if made.is_recording {
            made.records.push(Recorded {
                request: request.clone(),
                fault: fault.clone(),
                reply: None,
            });
        }
        self.state.requested.send_replace(request.index + 1);
        (request, fault)
    }

    fn end<T>(&self, index: usize, result: &Result<T>) {
        let mut made = self.state.made.lock();
        let record = made
            .records
            .iter_mut()
            .rev()
            .find(|record| record.request.index == index);
        if let Some(record) = record {
            record.reply = Some(result.as_ref().map(|_| ()).map_err(ToString::to_string));
        }
    }

    async fn apply<T>(&self, request: &Request, fault: Option<Fault>, send: Sender<T>) -> Result<T>
    where
        T: Send + 'static,
    {
        match fault {
            None | Some(Fault::StaleList(_)) => send().await,
            Some(Fault::Fail) => Err(broken(request)),
            Some(Fault::LoseReply) => {
                send().await.ok();
                Err(broken(request))
            }
            Some(Fault::Hang) => pending().await,
            Some(Fault::HangAfter) => {
                send().await.ok();
                pending().await
            }
            Some(Fault::Delay(delay)) => {
                self.sleep(delay).await;
                send().await
            }
            Some(Fault::DelayReply(delay)) => {
                let result = send().await;
                self.sleep(delay).await;
                result
            }
            Some(Fault::Late(delay)) => {
                let clock = Arc::clone(&self.clock);
                tokio::spawn(async move {
                    clock.sleep(delay).await;
                    send().await.ok();
                });
                Err(broken(request))
            }
            Some(Fault::Twice) => {
                send().await.ok();
                send().await
            }
            Some(Fault::Throttle) => Err(throttled()),
            Some(Fault::Deny) => Err(denied(request)),
        }
    }

    async fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            self.clock.sleep(duration).await;
        }
    }

    async fn thawed(&self) {
        let mut is_frozen = self.state.is_frozen.subscribe();
        // The sender lives as long as this client.
        is_frozen.wait_for(|is_frozen| !is_frozen).await.ok();
    }
}

impl fmt::Debug for FaultyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyBucket({:?})", self.inner)
    }
}

impl fmt::Display for FaultyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyBucket({})", self.inner)
    }
}
