//! A bucket whose requests fail on purpose, and are counted.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use perennial_store::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long every request takes.
const LATENCY: Duration = Duration::from_millis(5);
/// How long a request is under way that takes effect although its caller was told that it failed.
const LATE: Duration = Duration::from_secs(40);

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails, and nothing happened.
    Before,
    /// It happens, and its reply is lost.
    After,
    /// It never ends, and nothing happens.
    HangBefore,
    /// It happens, and never ends.
    HangAfter,
    /// Its reply is lost, and it happens long after that.
    Late,
    /// It takes seconds.
    Slow,
    /// It is a listing that lacks the newest objects.
    LacksNewest,
    /// It is a listing that lacks the first objects.
    LacksFirst,
    /// Its process dies, and nothing happens.
    KillBefore,
    /// It happens, and its process dies.
    KillAfter,
}

impl Fault {
    pub(crate) const ALL: [Fault; 10] = [
        Self::Before,
        Self::After,
        Self::HangBefore,
        Self::HangAfter,
        Self::Late,
        Self::Slow,
        Self::LacksNewest,
        Self::LacksFirst,
        Self::KillBefore,
        Self::KillAfter,
    ];

    fn is_of_listings(self) -> bool {
        matches!(self, Self::LacksNewest | Self::LacksFirst)
    }
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    List,
    Copy,
    Delete,
}

/// A request that was made.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) process: u32,
    pub(crate) kind: Kind,
    pub(crate) path: String,
}

#[derive(Default)]
struct State {
    log: Vec<Request>,
    /// What happens to which request.
    plan: BTreeMap<usize, Fault>,
    killed: BTreeSet<u32>,
    /// Objects in the order in which they were created.
    created: Vec<Path>,
}

/// A bucket that several processes use.
#[derive(Clone)]
pub(crate) struct Faulty {
    objects: Arc<InMemory>,
    state: Arc<Mutex<State>>,
    kills: Arc<Notify>,
    clock: Arc<dyn Clock>,
}

impl Faulty {
    pub(crate) fn new(clock: Arc<dyn Clock>, plan: &[(usize, Fault)]) -> Self {
        let state = State {
            plan: plan.iter().copied().collect(),
            ..State::default()
        };
        Self {
            objects: Arc::default(),
            state: Arc::new(Mutex::new(state)),
            kills: Arc::default(),
            clock,
        }
    }

    /// The bucket without faults, for tests that change it by hand.
    pub(crate) fn objects(&self) -> &Arc<InMemory> {
        &self.objects
    }

    /// The bucket as one process sees it.
    pub(crate) fn process(&self, process: u32) -> Arc<dyn ObjectStore> {
        let bucket = self.clone();
        Arc::new(Process { bucket, process })
    }

    /// All requests so far.
    pub(crate) fn log(&self) -> Vec<Request> {
        self.state.lock().log.clone()
    }

    /// The request of this number meets a fault.
    pub(crate) fn plan(&self, index: usize, fault: Fault) {
        self.state.lock().plan.insert(index, fault);
    }

    pub(crate) fn is_killed(&self, process: u32) -> bool {
        self.state.lock().killed.contains(&process)
    }

    /// Waits until a process has died.
    pub(crate) async fn killed(&self, process: u32) {
        loop {
            let killed = self.kills.notified();
            if self.is_killed(process) {
                return;
            }
            killed.await;
        }
    }

    pub(crate) fn kill(&self, process: u32) {
        self.state.lock().killed.insert(process);
        self.kills.notify_waiters();
    }
}

/// The bucket as one process sees it.
#[derive(Clone)]
struct Process {
    bucket: Faulty,
    process: u32,
}

fn lost() -> Error {
    Error::Generic {
        store: "faulty",
        source: "the connection was lost".into(),
    }
}

impl Process {
    /// Counts a request, and decides what happens to it.
    fn begin(&self, kind: Kind, path: &Path) -> Option<Fault> {
        let mut state = self.bucket.state.lock();
        if state.killed.contains(&self.process) {
            return Some(Fault::HangBefore);
        }
        let index = state.log.len();
        state.log.push(Request {
            process: self.process,
            kind,
            path: path.to_string(),
        });
        let fault = state.plan.get(&index).copied();
        fault.filter(|fault| !fault.is_of_listings() || kind == Kind::List)
    }

    async fn request<T: Send + 'static>(
        &self,
        fault: Option<Fault>,
        effect: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let clock = &self.bucket.clock;
        clock.sleep(LATENCY).await;
        match fault {
            None | Some(Fault::LacksFirst | Fault::LacksNewest) => effect.await,
            Some(Fault::Before) => Err(lost()),
            Some(Fault::After) => {
                effect.await.ok();
                Err(lost())
            }
            Some(Fault::HangBefore) => std::future::pending().await,
            Some(Fault::HangAfter) => {
                effect.await.ok();
                std::future::pending().await
            }
            Some(Fault::Late) => {
                let clock = Arc::clone(clock);
                tokio::spawn(async move {
                    clock.sleep(LATE).await;
                    effect.await.ok();
                });
                Err(lost())
            }
            Some(Fault::Slow) => {
                clock.sleep(Duration::from_secs(3)).await;
                effect.await
            }
            Some(Fault::KillBefore) => {
                self.bucket.kill(self.process);
                std::future::pending().await
            }
            Some(Fault::KillAfter) => {
                effect.await.ok();
                self.bucket.kill(self.process);
                std::future::pending().await
            }
        }
    }

    /// What a listing lacks.
    fn lacks(&self, fault: Option<Fault>, object: &Path, position: usize) -> bool {
        let state = self.bucket.state.lock();
        let newest = state.created.iter().rev().take(2);
        match fault {
            Some(Fault::LacksNewest) => newest.into_iter().any(|created| created == object),
            Some(Fault::LacksFirst) => position == 0,
            _ => false,
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for Process {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let fault = self.begin(Kind::Put, location);
        let (bucket, location) = (self.bucket.clone(), location.clone());
        self.request(fault, async move {
            let put = bucket.objects.put_opts(&location, payload, opts).await;
            if put.is_ok() {
                bucket.state.lock().created.push(location);
            }
            put
        })
        .await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(lost())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.begin(Kind::Get, location);
        let (objects, location) = (Arc::clone(&self.bucket.objects), location.clone());
        self.request(fault, async move { objects.get_opts(&location, options).await })
            .await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let deleted = async move {
            let locations: Vec<_> = locations.collect().await;
            let first = locations.first().and_then(|location| location.as_ref().ok());
            let fault = this.begin(Kind::Delete, first.unwrap_or(&Path::default()));
            let objects = Arc::clone(&this.bucket.objects);
            let effect = async move {
                let stream = futures::stream::iter(locations).boxed();
                let deleted: Vec<_> = objects.delete_stream(stream).collect().await;
                Ok(deleted)
            };
            match this.request(fault, effect).await {
                Ok(deleted) => deleted,
                Err(error) => vec![Err(error)],
            }
        };
        futures::stream::once(deleted).flat_map(futures::stream::iter).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let fault = this.begin(Kind::List, prefix.as_ref().unwrap_or(&Path::default()));
            let objects = Arc::clone(&this.bucket.objects);
            let effect = async move { Ok(objects.list(prefix.as_ref()).collect::<Vec<_>>().await) };
            match this.request(fault, effect).await {
                Ok(listed) => {
                    let found = listed.into_iter().enumerate().filter(|(position, object)| {
                        object
                            .as_ref()
                            .is_ok_and(|object| !this.lacks(fault, &object.location, *position))
                    });
                    found.map(|(_, object)| object).collect()
                }
                Err(error) => vec![Err(error)],
            }
        };
        futures::stream::once(listed).flat_map(futures::stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(lost())
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.begin(Kind::Copy, from);
        let objects = Arc::clone(&self.bucket.objects);
        let (from, to) = (from.clone(), to.clone());
        self.request(fault, async move { objects.copy_opts(&from, &to, options).await })
            .await
    }
}
