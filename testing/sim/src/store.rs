//! A store that injects faults.

use crate::clock::pause;
use crate::defect;
use crate::effect::Effect;
use crate::fault::{Fault, Operation};
use crate::life::Life;
use crate::line::{Line, Turn};
use crate::network::{Network, lanes};
use crate::promise;
use crate::scene::Scene;
use crate::view::View;
use async_trait::async_trait;
use perennial_kv::MemoryStore;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Durability, Error, Key, Limits, ListFilter, ListPage,
    OnDurable, Op, Record, Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use perennial_workflow::testing::{self, Mutation};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A store of one process. Every call may fail, by chance or by its number.
#[derive(Clone)]
pub struct SimStore {
    inner: Arc<dyn Store>,
    life: Arc<Life>,
    /// The order of commits on a store of one process. A shared one promises none.
    line: Option<Line>,
    network: Option<Arc<Network>>,
}

impl SimStore {
    /// The store of a process that owns it, which is synced whenever something waits for that.
    pub fn alone(inner: &Arc<MemoryStore>, life: Arc<Life>) -> Self {
        tokio::spawn(sync(Arc::clone(inner), Arc::clone(&life)));
        let line = Line::new(life.scene.config.cold_reads);
        Self {
            inner: Arc::clone(inner) as _,
            life,
            line: Some(line),
            network: None,
        }
    }

    /// One of many handles of a shared store.
    pub fn shared(inner: Arc<dyn Store>, life: Arc<Life>, network: Network) -> Self {
        Self {
            inner,
            life,
            line: None,
            network: Some(Arc::new(network)),
        }
    }

    fn scene(&self) -> &Scene {
        &self.life.scene
    }

    /// Forwards a read, unless a fault prevents it. The result may come from a replica that lags.
    async fn read<T>(
        &self,
        operation: Operation,
        what: impl FnOnce() -> String,
        effect: impl Future<Output = Result<T>>,
        stale: impl FnOnce(&View, u64) -> Option<T>,
    ) -> Result<T> {
        self.life.pass().await;
        self.scene().stop_if_endless().await;
        let (call, fault) = self.scene().next_call(operation);
        self.note(call, fault, what);
        self.hesitate(call, fault).await?;
        let lagging = self.network.as_ref().and_then(|network| {
            let until_ms = network.sees_until_ms(self.scene(), call)?;
            stale(network.view()?, until_ms)
        });
        let answer = match lagging {
            Some(answer) => Ok(answer),
            None => effect.await,
        };
        self.linger(call, fault).await;
        if matches!(fault, Some(Fault::LostReply | Fault::LostRequest)) {
            return Err(lost_read());
        }
        answer
    }

    fn note(&self, call: u64, fault: Option<Fault>, what: impl FnOnce() -> String) {
        self.life.trace(|| match fault {
            Some(fault) => format!("#{call} {}  <-- {fault:?}", what()),
            None => format!("#{call} {}", what()),
        });
    }

    /// The part of a fault before a call takes effect.
    async fn hesitate(&self, call: u64, fault: Option<Fault>) -> Result<()> {
        match fault {
            Some(Fault::Throttled(ms)) => {
                return Err(Error::Throttled {
                    retry_after: std::time::Duration::from_millis(ms),
                });
            }
            Some(Fault::Unavailable) => return Err(Error::Unavailable("simulated".to_owned())),
            Some(Fault::Outage(ms)) => self.scene().out_for(ms),
            Some(Fault::SlowBefore(ms)) => pause(ms).await,
            Some(Fault::KillBefore) => self.life.end(),
            Some(Fault::FreezeBefore(ms)) => {
                self.freeze(ms);
                self.life.pass().await;
            }
            _ => {
                let ms = self.scene().config.latency(&mut self.scene().chance(call).fork());
                if ms > 0 {
                    pause(ms).await;
                }
            }
        }
        // A request that is under way to a database arrives, whatever becomes of its sender. But not after a long time: the sender
        // may have sent it again from elsewhere.
        if self.network.is_none() || matches!(fault, Some(Fault::KillBefore | Fault::SlowBefore(_))) {
            self.life.check().await;
        }
        if self.scene().is_out() {
            return Err(Error::Unavailable("simulated outage".to_owned()));
        }
        Ok(())
    }

    /// Freezes the process for a while.
    fn freeze(&self, ms: u64) {
        self.life.freeze();
        let life = Arc::clone(&self.life);
        tokio::spawn(async move {
            pause(ms).await;
            life.thaw();
        });
    }

    /// The part of a fault between the effect of a call and its reply.
    async fn linger(&self, call: u64, fault: Option<Fault>) {
        match fault {
            Some(Fault::SlowAfter(ms)) => pause(ms).await,
            Some(Fault::KillAfter) => self.life.end(),
            Some(Fault::FreezeAfter(ms)) => self.freeze(ms),
            _ => {
                let mut chance = self.scene().chance(!call);
                let ms = self.scene().config.latency(&mut chance);
                if ms > 0 {
                    pause(ms).await;
                }
            }
        }
        self.life.pass().await;
    }

    /// Commits in a task: a commit never runs in its caller's future.
    async fn commit_part(&self, commit: Commit) -> Result<Committed> {
        let store = self.clone();
        let made = tokio::spawn(async move { store.try_commit(commit).await });
        made.await
            .unwrap_or_else(|_| Err(Error::Closed("the process ends".to_owned())))
    }

    async fn try_commit(&self, commit: Commit) -> Result<Committed> {
        let line = match &self.line {
            Some(line) => Some(line.enter(&commit).await),
            None => None,
        };
        self.life.pass().await;
        self.scene().stop_if_endless().await;
        let (call, fault) = self.scene().next_call(Operation::Commit);
        self.note(call, fault, || describe(&commit));
        self.hesitate(call, fault).await?;
        if fault == Some(Fault::LostRequest) {
            if testing::is_broken(Mutation::TrustSuccess) {
                return Ok(Committed::default());
            }
            return Err(Error::UnknownOutcome("simulated".to_owned()));
        }
        let keys: Vec<Key> = commit.ops.iter().map(|op| op.key().clone()).collect();
        let again = (fault == Some(Fault::Twice)).then(|| commit.clone());
        let mut answer = self.apply(call, commit, line).await;
        if let (Some(again), Ok(_)) = (again, &answer) {
            answer = match self.apply(call, again, None).await {
                Err(Error::Conflict { .. }) => Err(Error::UnknownOutcome("simulated: sent twice".to_owned())),
                answer => answer,
            };
        }
        if let Err(error) = &answer {
            self.life.trace(|| format!("#{call} {error}"));
        }
        self.linger(call, fault).await;
        if fault == Some(Fault::LostReply) {
            if testing::is_broken(Mutation::TrustFailure) {
                return Err(lost_read());
            }
            return Err(Error::UnknownOutcome("simulated".to_owned()));
        }
        if let (Some(network), Ok(_) | Err(Error::Conflict { .. })) = (&self.network, &answer) {
            network.received(&keys);
        }
        answer
    }

    /// Applies a commit to the store. The next one follows when this one has its place in the order.
    async fn apply(&self, call: u64, commit: Commit, line: Option<Turn>) -> Result<Committed> {
        let effect = Effect::of(&commit);
        let lanes = lanes(&commit);
        let mut committing = self.inner.commit(commit);
        let ordered = poll_fn(|context| Poll::Ready(committing.as_mut().poll(context))).await;
        drop(line);
        let answer = match ordered {
            Poll::Ready(answer) => answer,
            Poll::Pending => committing.await,
        };
        if answer.is_ok() {
            effect.happened(&self.life);
        }
        if let Some(network) = &self.network {
            network.committed(&self.life, call, &effect.keys, answer.is_ok().then_some(lanes));
        }
        answer
    }
}

/// Orders a commit on a store of one process; what follows is observed when it is durable.
impl SimStore {
    async fn try_order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let line = match &self.line {
            Some(line) => Some(line.enter(&commit).await),
            None => None,
        };
        self.life.pass().await;
        self.scene().stop_if_endless().await;
        let (call, fault) = self.scene().next_call(Operation::Commit);
        self.note(call, fault, || format!("order {}", describe(&commit)));
        if let Err(error) = self.hesitate(call, fault).await {
            return Err(Refused { error, on_durable });
        }
        if fault == Some(Fault::LostRequest) {
            return Err(Refused {
                error: lost_read(),
                on_durable,
            });
        }
        let number = promise::order(&self.life);
        let (effect, life) = (Effect::of(&commit), Arc::clone(&self.life));
        let observed: OnDurable = Box::new(move |outcome| {
            life.trace(|| format!("#{call} is durable: {}", outcome.is_ok()));
            if outcome.is_ok() {
                effect.happened(&life);
                effect.acknowledged(&life);
                promise::durable(&life, number);
            }
            on_durable(outcome);
        });
        if testing::is_broken(Mutation::Reorder) && number.is_multiple_of(3) {
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move {
                pause(20).await;
                inner.order(commit, observed).await.ok();
            });
        } else if let Err(refused) = self.inner.order(commit, observed).await {
            promise::refuse(&self.life);
            self.life.trace(|| format!("#{call} {}", refused.error));
            return Err(refused);
        }
        drop(line);
        self.linger(call, fault).await;
        Ok(())
    }
}

/// Syncs the store of a process whenever something waits for it, until the process dies: then what waits is lost.
async fn sync(store: Arc<MemoryStore>, life: Arc<Life>) {
    loop {
        store.waiting().await;
        let (call, fault) = life.scene.next_call(Operation::Sync);
        let ms = match fault {
            Some(Fault::SlowBefore(ms) | Fault::SlowAfter(ms)) => ms,
            _ => life.scene.config.latency(&mut life.scene.chance(call).fork()),
        };
        if ms > 0 {
            pause(ms).await;
        }
        if fault == Some(Fault::KillBefore) {
            life.end();
        }
        if life.is_over() {
            return;
        }
        life.trace(|| format!("#{call} sync"));
        store.step();
        if fault == Some(Fault::KillAfter) {
            life.end();
        }
    }
}

fn lost_read() -> Error {
    Error::Unavailable("simulated: the answer was lost".to_owned())
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
        testing::advertised(self.inner.limits())
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        if let Some(committed) = defect::skipped_claim(&commit) {
            return Ok(committed);
        }
        let (commit, left_out) = defect::mutated(commit);
        let mut all = Committed::default();
        for part in testing::parts(commit, &self.inner.limits()) {
            let committed = self.commit_part(part).await;
            let before = all.versions.len();
            all.versions
                .extend(committed.map_err(|e| testing::of_part(e, before))?.versions);
        }
        for op in left_out {
            all.versions.insert(op, None);
        }
        Ok(all)
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        if self.network.is_some() {
            return Refused::or_call(self.commit(commit).await, on_durable);
        }
        let (commit, left_out) = defect::mutated(commit);
        let whole: OnDurable = Box::new(move |outcome| {
            on_durable(outcome.map(|mut committed| {
                for op in left_out {
                    committed.versions.insert(op, None);
                }
                committed
            }));
        });
        self.try_order(commit, whole).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let what = || format!("get {}:{}", key.partition.as_str(), brief(key.id.as_str()));
        let stale = |view: &View, until_ms| Some(view.get(key, until_ms));
        self.read(Operation::Get, what, self.inner.get(key), stale).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        let under = || query.under.as_ref().map_or("", |under| under.as_str());
        let what = || format!("scan {}:{}", query.partition.as_str(), brief(under()));
        let stale = |view: &View, until_ms| Some(view.scan(query, until_ms));
        self.read(Operation::Scan, what, self.inner.scan(query), stale).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let what = || format!("due {}", query.lane);
        let stale = |view: &View, until_ms| Some(view.due(query, until_ms));
        self.read(Operation::Due, what, self.inner.due(query), stale).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let what = || format!("list {:?} {:?}", filter.status, filter.parent);
        let effect = self.inner.list(filter, after, limit);
        self.read(Operation::List, what, effect, |_, _| None).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.read(
            Operation::Counters,
            || "tally".to_owned(),
            self.inner.counters(),
            |_, _| None,
        )
        .await
    }

    fn signals(&self) -> Signals {
        match &self.network {
            Some(network) => network.signals(),
            None => self.inner.signals(),
        }
    }

    async fn close(&self) -> Result<()> {
        self.life.pass().await;
        self.inner.close().await
    }
}
