//! Clients in a closed loop: each starts its next workflow when its last one has finished.

use crate::observe::{Finished, Observed};
use crate::process::{cpu_seconds, rss_bytes};
use crate::workload::{Workload, activities, orchestrations};
use crate::{BenchError, Case, Counts, Subject, Wait, Waiter};
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationStatus};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How long a single workflow may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What one run of one case gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    /// Workflows that completed.
    pub workflows: u64,
    /// Workflows that could not be started, failed, or did not end in time: stores under load fail some.
    pub failed: u64,
    /// Why the first of them failed.
    pub failure: Option<String>,
    /// From the first start to the last completion, in seconds.
    pub elapsed_s: f64,
    /// How long starting the runtime took beforehand, in seconds.
    pub runtime_start_s: f64,
    /// CPU seconds of the whole process meanwhile (runtime, clients and store), where the platform reports them.
    pub cpu_s: Option<f64>,
    /// Resident memory at the end, in bytes, where the platform reports it.
    pub rss_bytes: Option<u64>,
    /// Durable commits that the runtime and the clients requested.
    pub commits: u64,
    /// The latency of every workflow in microseconds, sorted.
    #[serde(skip)]
    pub latencies_us: Vec<u64>,
}

impl Measurement {
    /// Completed workflows per second.
    pub fn per_second(&self) -> f64 {
        self.workflows as f64 / self.elapsed_s.max(f64::MIN_POSITIVE)
    }
}

/// The waiting clients by instance: each gets the moment its workflow finished.
#[derive(Default)]
struct Waiters(Mutex<HashMap<String, oneshot::Sender<(Instant, Finished)>>>);

impl Waiters {
    fn expect(&self, instance: &str) -> oneshot::Receiver<(Instant, Finished)> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().insert(instance.to_owned(), sender);
        receiver
    }

    fn finished(&self, finished: Finished) {
        let now = Instant::now();
        if let Some(waiter) = self.0.lock().remove(&finished.instance) {
            // A client that gave up no longer listens, and nothing is lost by that.
            drop(waiter.send((now, finished)));
        }
    }
}

/// Everything a client needs to run one workflow.
struct Runner {
    client: Client,
    ends: Ends,
}

/// How the end of a workflow is noticed.
enum Ends {
    /// By the store's own way to wait.
    Durable(Arc<dyn Waiter>),
    /// By the acknowledgement of its last commit.
    Acknowledged(Arc<Waiters>),
    /// By duroxide's polling client.
    Polled,
}

impl Runner {
    /// Runs one workflow to its end and says when it began and ended, or why it did not complete.
    async fn run(&self, workload: Workload, instance: &str) -> Result<(Instant, Instant), String> {
        let receiver = match &self.ends {
            Ends::Acknowledged(waiters) => Some(waiters.expect(instance)),
            Ends::Durable(_) | Ends::Polled => None,
        };
        let started = Instant::now();
        self.client
            .start_orchestration(instance, workload.orchestration(), workload.input())
            .await
            .map_err(|e| e.to_string())?;
        if let Ends::Durable(waiter) = &self.ends {
            waiter.completed(instance, TIMEOUT).await?;
            return Ok((started, Instant::now()));
        }
        let Some(receiver) = receiver else {
            let status = self.client.wait_for_orchestration(instance, TIMEOUT).await;
            return match status.map_err(|e| e.to_string())? {
                OrchestrationStatus::Completed { .. } => Ok((started, Instant::now())),
                other => Err(format!("it ended as {other:?}")),
            };
        };
        match tokio::time::timeout(TIMEOUT, receiver).await {
            Ok(Ok((at, finished))) if finished.completed => Ok((started, at)),
            Ok(Ok((_, finished))) => Err(format!("it failed: {}", finished.output)),
            Ok(Err(_)) => Err("the store was closed meanwhile".into()),
            Err(_) => Err(format!("it was not finished after {} s", TIMEOUT.as_secs())),
        }
    }
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    latencies_us: Vec<u64>,
    last: Option<Instant>,
    failed: u64,
    failure: Option<String>,
}

impl Seen {
    fn take(&mut self, outcome: Result<(Instant, Instant), String>) {
        match outcome {
            Ok((started, ended)) => {
                let latency = ended.duration_since(started);
                self.latencies_us
                    .push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                self.last = self.last.max(Some(ended));
            }
            Err(why) => {
                self.failed += 1;
                self.failure.get_or_insert(why);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.latencies_us.extend(other.latencies_us);
        self.last = self.last.max(other.last);
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
    }
}

/// Runs `case` on `subject` for `duration` and then waits for the workflows in flight.
///
/// `prefix` starts every instance id and must be new to the store. One workflow runs first, unmeasured.
pub async fn run_case(
    subject: Subject,
    case: Case,
    duration: Duration,
    wait: Wait,
    prefix: &str,
) -> Result<Measurement, BenchError> {
    let waiters = Arc::new(Waiters::default());
    let observed = Observed::new(subject.provider, {
        let waiters = Arc::clone(&waiters);
        move |finished| waiters.finished(finished)
    });
    let options = RuntimeOptions {
        orchestration_concurrency: case.slots.turns,
        worker_concurrency: case.slots.activities,
        ..RuntimeOptions::default()
    };
    let store: Arc<dyn Provider> = observed.clone();
    let starting = Instant::now();
    let runtime = Runtime::start_with_options(Arc::clone(&store), activities(), orchestrations(), options).await;
    let runtime_start_s = starting.elapsed().as_secs_f64();
    let runner = Arc::new(Runner {
        client: Client::new(store),
        ends: match (wait, subject.waiter) {
            (Wait::Client, _) => Ends::Polled,
            (Wait::Commit, Some(waiter)) => Ends::Durable(waiter),
            (Wait::Commit, None) => Ends::Acknowledged(waiters),
        },
    });
    let result = measure(&runner, &observed, case, duration, prefix).await;
    runtime.shutdown(Some(1_000)).await;
    result.map(|measured| Measurement {
        runtime_start_s,
        ..measured
    })
}

async fn measure(
    runner: &Arc<Runner>,
    observed: &Observed,
    case: Case,
    duration: Duration,
    prefix: &str,
) -> Result<Measurement, BenchError> {
    let warm_up = runner.run(Workload::Hello, &format!("{prefix}-warm-up")).await;
    warm_up.map_err(|why| BenchError::new("run a single hello-world", why))?;
    let counts_before = observed.counts();
    let cpu_before = cpu_seconds();
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..case.clients {
        clients.spawn(client_loop(
            Arc::clone(runner),
            case.workload,
            started + duration,
            format!("{prefix}-{client}"),
        ));
    }
    let mut seen = Seen::default();
    while let Some(joined) = clients.join_next().await {
        seen.merge(joined.map_err(|e| BenchError::new("run a client", e))?);
    }
    seen.latencies_us.sort_unstable();
    Ok(Measurement {
        workflows: seen.latencies_us.len() as u64,
        failed: seen.failed,
        failure: seen.failure,
        elapsed_s: seen
            .last
            .map_or(duration, |last| last.duration_since(started))
            .as_secs_f64(),
        runtime_start_s: 0.0,
        cpu_s: cpu_before.and_then(|before| Some(cpu_seconds()? - before)),
        rss_bytes: rss_bytes(),
        commits: since(counts_before, observed.counts()),
        latencies_us: seen.latencies_us,
    })
}

fn since(before: Counts, now: Counts) -> u64 {
    now.commits().saturating_sub(before.commits())
}

async fn client_loop(runner: Arc<Runner>, workload: Workload, until: Instant, prefix: String) -> Seen {
    let mut seen = Seen::default();
    for number in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        seen.take(runner.run(workload, &format!("{prefix}-{number}")).await);
    }
    seen
}
