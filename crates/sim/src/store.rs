//! A store that fails as it is told.

use crate::clock::pause;
use crate::facts::Activity;
use crate::fault::{Fault, Operation};
use crate::scene::{Life, Scene};
use async_trait::async_trait;
use perennial_kv::MemoryStore;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Durability, Error, Key, Limits, ListFilter, ListPage, Op,
    Record, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use perennial_workflow::testing::{self, Mutation};
use std::sync::Arc;
use tokio::sync::Mutex;

/// A store of one process. Every call may fail, by chance or by its number.
#[derive(Clone)]
pub struct SimStore {
    inner: Arc<MemoryStore>,
    scene: Arc<Scene>,
    life: Arc<Life>,
    /// Commits take effect in the order in which they were made, however slow the first of them is.
    line: Arc<Mutex<()>>,
}

impl SimStore {
    /// Wraps a store, for one process.
    pub fn new(inner: Arc<MemoryStore>, scene: Arc<Scene>, life: Arc<Life>) -> Self {
        Self {
            inner,
            scene,
            life,
            line: Arc::default(),
        }
    }

    /// Passes a read on, unless something goes wrong.
    async fn read<T>(
        &self,
        operation: Operation,
        what: impl FnOnce() -> String,
        effect: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.life.check().await;
        let (call, fault) = self.scene.next_call(operation);
        self.note(call, fault, what);
        self.hesitate(call, fault).await?;
        let answer = effect.await;
        self.linger(call, fault).await;
        if matches!(fault, Some(Fault::LostReply | Fault::LostRequest)) {
            return Err(lost_read());
        }
        answer
    }

    fn note(&self, call: u64, fault: Option<Fault>, what: impl FnOnce() -> String) {
        self.scene.trace(|| match fault {
            Some(fault) => format!("#{call} {}  <-- {fault:?}", what()),
            None => format!("#{call} {}", what()),
        });
    }

    /// What happens before a call takes effect.
    async fn hesitate(&self, call: u64, fault: Option<Fault>) -> Result<()> {
        match fault {
            Some(Fault::Throttled(ms)) => {
                return Err(Error::Throttled {
                    retry_after: std::time::Duration::from_millis(ms),
                });
            }
            Some(Fault::Unavailable) => return Err(Error::Unavailable("simulated".to_owned())),
            Some(Fault::Outage(ms)) => self.scene.out_for(ms),
            Some(Fault::SlowBefore(ms)) => pause(ms).await,
            Some(Fault::KillBefore) => self.life.end(),
            _ => {
                let ms = self.scene.config.latency(&mut self.scene.chance(call).fork());
                if ms > 0 {
                    pause(ms).await;
                }
            }
        }
        self.life.check().await;
        if self.scene.is_out() {
            return Err(Error::Unavailable("simulated outage".to_owned()));
        }
        Ok(())
    }

    /// What happens between the effect of a call and its answer.
    async fn linger(&self, call: u64, fault: Option<Fault>) {
        match fault {
            Some(Fault::SlowAfter(ms)) => pause(ms).await,
            Some(Fault::KillAfter) => self.life.end(),
            _ => {
                let mut chance = self.scene.chance(!call);
                let ms = self.scene.config.latency(&mut chance);
                if ms > 0 {
                    pause(ms).await;
                }
            }
        }
        self.life.check().await;
    }

    async fn try_commit(&self, commit: Commit) -> Result<Committed> {
        let line = self.line.lock().await;
        self.life.check().await;
        let (call, fault) = self.scene.next_call(Operation::Commit);
        self.note(call, fault, || describe(&commit));
        self.hesitate(call, fault).await?;
        if fault == Some(Fault::LostRequest) {
            if testing::is_broken(Mutation::TrustSuccess) {
                return Ok(Committed::default());
            }
            return Err(Error::UnknownOutcome("simulated".to_owned()));
        }
        let scheduled: Vec<Activity> = commit.ops.iter().filter_map(scheduled).collect();
        let answer = self.inner.commit(commit).await;
        if answer.is_ok() {
            self.scene.facts.lock().scheduled.extend(scheduled);
        }
        drop(line);
        if let Err(error) = &answer {
            self.scene.trace(|| format!("#{call} {error}"));
        }
        self.linger(call, fault).await;
        if fault == Some(Fault::LostReply) {
            if testing::is_broken(Mutation::TrustFailure) {
                return Err(lost_read());
            }
            return Err(Error::UnknownOutcome("simulated".to_owned()));
        }
        answer
    }
}

fn lost_read() -> Error {
    Error::Unavailable("simulated: the answer was lost".to_owned())
}

/// The activity that an operation stores, if it does.
fn scheduled(op: &Op) -> Option<Activity> {
    let key = &op.draft()?.key;
    let mut parts = key.id.as_str().strip_prefix("work/")?.split('/');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let instance = key.partition.as_str().strip_prefix("wf:")?;
    Some((instance.to_owned(), number()?, number()?))
}

/// A commit in one line.
fn describe(commit: &Commit) -> String {
    let mut ops: Vec<String> = commit
        .ops
        .iter()
        .map(|op| {
            let verb = match op {
                Op::Create(_) => "+",
                Op::Put(_) => "=",
                Op::Replace(..) => "~",
                Op::Delete(..) => "-",
                Op::Remove(_) => "/",
                Op::Absent(_) => "?",
            };
            let key = op.key();
            format!("{verb}{}:{}", key.partition.as_str(), brief(key.id.as_str()))
        })
        .collect();
    ops.sort_unstable();
    let relaxed = if commit.durability == Durability::Relaxed {
        " relaxed"
    } else {
        ""
    };
    format!("commit{relaxed} {}", ops.join(" "))
}

/// An id without the zeros that pad its numbers.
fn brief(id: &str) -> String {
    let parts: Vec<&str> = id
        .split('/')
        .map(|part| {
            if part.len() == 16 {
                part.trim_start_matches('0')
            } else {
                part
            }
        })
        .collect();
    parts.join("/")
}

#[async_trait]
impl Store for SimStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        // A commit never runs in its caller's future.
        let store = self.clone();
        let made = tokio::spawn(async move { store.try_commit(commit).await });
        made.await
            .unwrap_or_else(|_| Err(Error::Closed("the process ends".to_owned())))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let what = || format!("get {}:{}", key.partition.as_str(), brief(key.id.as_str()));
        self.read(Operation::Get, what, self.inner.get(key)).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        let under = || query.under.as_ref().map_or("", |under| under.as_str());
        let what = || format!("scan {}:{}", query.partition.as_str(), brief(under()));
        self.read(Operation::Scan, what, self.inner.scan(query)).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let what = || format!("due {}", query.lane);
        self.read(Operation::Due, what, self.inner.due(query)).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let what = || format!("list {:?} {:?}", filter.status, filter.parent);
        self.read(Operation::List, what, self.inner.list(filter, after, limit))
            .await
    }

    async fn tally(&self) -> Result<Vec<(Counter, i64)>> {
        self.read(Operation::Tally, || "tally".to_owned(), self.inner.tally())
            .await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    async fn close(&self) -> Result<()> {
        self.life.check().await;
        self.inner.close().await
    }
}
