//! The calls from outside: starts, events, messages, cancellations; each until it is acknowledged.

use crate::Failure;
use crate::case::{APPROVALS, CANCEL, Case, END, Kind, MESSAGES, QUEUE, START, named_child};
use crate::ledger::{Ledger, Lines};
use crate::line::{Attempt, Line};
use duroxide::providers::Provider;
use duroxide::{Client, EventKind};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How many generations are in flight at a time.
const OPEN: usize = 2;

/// How long a workflow may take for one step that the driver waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often the store is polled for changes that have no signal.
const GLANCE: Duration = Duration::from_millis(4);

/// Drives the cases on from where earlier processes left them.
pub struct Driver {
    store: Arc<dyn Provider>,
    client: Client,
    ledger: Arc<Ledger>,
    past: Past,
    large_input: String,
}

/// A call from outside.
enum Call {
    Start(Kind),
    Raise(&'static str),
    Send(&'static str),
    Cancel,
}

impl Call {
    fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => START,
            Self::Raise(event) => event,
            Self::Send(message) => message,
            Self::Cancel => CANCEL,
        }
    }
}

/// The progress that the ledger records.
struct Past {
    tried: HashMap<(String, String), u32>,
    acked: HashSet<(String, String)>,
    finished: HashSet<String>,
    generations: BTreeSet<u32>,
}

impl Past {
    fn of(lines: &Lines) -> Self {
        let mut past = Self {
            tried: HashMap::new(),
            acked: HashSet::new(),
            finished: HashSet::new(),
            generations: BTreeSet::new(),
        };
        for line in &lines.all {
            match line {
                Line::Tried(Attempt {
                    instance,
                    call,
                    attempt,
                }) => {
                    past.tried.insert((instance.clone(), call.clone()), *attempt);
                    past.generations
                        .extend(Case::parse(instance).map(|case| case.generation));
                }
                Line::Acked(Attempt { instance, call, .. }) => {
                    past.acked.insert((instance.clone(), call.clone()));
                }
                Line::Finished(instance) => {
                    past.finished.insert(instance.clone());
                }
                _ => {}
            }
        }
        past
    }

    fn open_generations(&self) -> Vec<u32> {
        let open = |generation: &u32| Case::of(*generation).any(|case| !self.finished.contains(&case.instance()));
        self.generations.iter().copied().filter(open).collect()
    }
}

impl Driver {
    /// A driver that goes on from `past`; some workflows get an input of `input_bytes`.
    pub fn new(store: Arc<dyn Provider>, ledger: Arc<Ledger>, past: &Lines, input_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            client: Client::new(Arc::clone(&store)),
            store,
            ledger,
            past: Past::of(past),
            large_input: "x".repeat(input_bytes),
        })
    }

    /// Drives generation after generation; with `finish`, only those that were begun, to their end.
    pub async fn run(self: Arc<Self>, finish: bool) -> Result<(), Failure> {
        let mut next = self.past.generations.last().map_or(0, |last| last + 1);
        let mut open = JoinSet::new();
        for generation in self.past.open_generations() {
            open.spawn(Arc::clone(&self).generation(generation));
        }
        loop {
            while !finish && open.len() < OPEN {
                open.spawn(Arc::clone(&self).generation(next));
                next += 1;
            }
            match open.join_next().await {
                Some(ended) => ended??,
                None => return self.settled().await,
            }
        }
    }

    async fn generation(self: Arc<Self>, generation: u32) -> Result<(), Failure> {
        let mut cases = JoinSet::new();
        for case in Case::of(generation).filter(|case| !self.past.finished.contains(&case.instance())) {
            let driver = Arc::clone(&self);
            cases.spawn(async move {
                let driven = driver.case(case).await;
                driven.map_err(|why| Failure::from(format!("{case}: {why}")))
            });
        }
        while let Some(ended) = cases.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn case(&self, case: Case) -> Result<(), Failure> {
        let instance = case.instance();
        self.call(&instance, Call::Start(case.kind)).await?;
        match case.kind {
            Kind::Approve => {
                for event in APPROVALS {
                    self.until_waiting(&instance, event).await?;
                    self.call(&instance, Call::Raise(event)).await?;
                }
            }
            Kind::Inbox => {
                for message in MESSAGES.into_iter().chain([END]) {
                    self.call(&instance, Call::Send(message)).await?;
                }
            }
            Kind::Cancel => {
                // A workflow that is cancelled before its first turn still cancels its child, which never existed; that
                // message would never be consumed.
                self.until_begun(&instance).await?;
                if case.cancels_late() {
                    self.until_waiting(&named_child(&instance), "never").await?;
                }
                self.call(&instance, Call::Cancel).await?;
            }
            _ => {}
        }
        self.client.wait_for_orchestration(&instance, TIMEOUT).await?;
        if case.kind == Kind::Detach {
            self.client
                .wait_for_orchestration(&named_child(&instance), TIMEOUT)
                .await?;
        }
        self.ledger.append(&Line::Finished(instance));
        Ok(())
    }

    /// Makes a call, unless an earlier process has recorded that it was acknowledged.
    async fn call(&self, instance: &str, call: Call) -> Result<(), Failure> {
        let name = (instance.to_owned(), call.name().to_owned());
        if self.past.acked.contains(&name) {
            return Ok(());
        }
        let before = self.past.tried.get(&name).copied().unwrap_or_default();
        let attempt = Attempt {
            instance: name.0,
            call: name.1,
            attempt: before + 1,
        };
        self.ledger.append(&Line::Tried(attempt.clone()));
        let payload = attempt.payload();
        match call {
            Call::Start(kind) => {
                let input = if kind == Kind::Nap {
                    self.large_input.as_str()
                } else {
                    ""
                };
                self.client.start_orchestration(instance, kind.workflow(), input).await
            }
            Call::Raise(event) => self.client.raise_event(instance, event, payload).await,
            Call::Send(_) => self.client.enqueue_event(instance, QUEUE, payload).await,
            Call::Cancel => self.client.cancel_instance(instance, payload).await,
        }?;
        self.ledger.append(&Line::Acked(attempt));
        Ok(())
    }

    /// Waits until an instance has made its first turn.
    async fn until_begun(&self, instance: &str) -> Result<(), Failure> {
        let begun = || async { Ok(!self.store.read(instance).await?.is_empty()) };
        self.until(&format!("{instance} has begun"), begun).await
    }

    /// Waits until an instance waits for an event, or has ended.
    async fn until_waiting(&self, instance: &str, event: &str) -> Result<(), Failure> {
        let waits = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event);
        self.until(&format!("{instance} waits for {event}"), || async {
            let history = self.store.read(instance).await?;
            Ok(history.iter().any(|e| waits(&e.kind) || e.is_terminal()))
        })
        .await
    }

    /// Waits until nothing runs and nothing is queued.
    async fn settled(&self) -> Result<(), Failure> {
        self.until("the store is settled", || async {
            let depths = self.client.get_queue_depths().await?;
            let queued = depths.orchestrator_queue + depths.worker_queue + depths.timer_queue;
            Ok(queued == 0 && self.client.list_instances_by_status("Running").await?.is_empty())
        })
        .await
    }

    async fn until<F>(&self, what: &str, ready: impl Fn() -> F) -> Result<(), Failure>
    where
        F: Future<Output = Result<bool, Failure>>,
    {
        let wait = async {
            while !ready().await? {
                tokio::time::sleep(GLANCE).await;
            }
            Ok(())
        };
        tokio::time::timeout(TIMEOUT, wait)
            .await
            .map_err(|_| format!("waited in vain until {what}"))?
    }
}
