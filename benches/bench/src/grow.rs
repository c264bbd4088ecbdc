//! Measures whether a store stays fast as it grows: measure it, fill it, measure it again, best each in a separate
//! process, so that memory left over from one does not count for the next.

use crate::closed_loop::{Measurement, run_case};
use crate::process::{peak_rss_bytes, rss_bytes};
use crate::report::median;
use crate::workload::Workload;
use crate::{BenchError, Case, Target, Wait};
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, WorkItem};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Fillers at work at once: enough for a group commit to be a large group.
const FILLERS: u64 = 256;

/// A measurement on a store, empty or full.
#[derive(Debug, Clone)]
pub struct SamplePlan {
    /// The workload.
    pub case: Case,
    /// How long clients go on starting workflows in one round.
    pub duration: Duration,
    /// How many rounds.
    pub rounds: u32,
    /// When a workflow counts as finished.
    pub wait: Wait,
    /// Starts every instance id, and must be new to the store.
    pub prefix: String,
}

/// The state of the store and of this process at one moment, and its speed then.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// How long opening the store took, in seconds.
    pub open_s: f64,
    /// Resident memory after opening, in bytes.
    pub rss_opened: Option<u64>,
    /// Resident memory after the workload, in bytes.
    pub rss_worked: Option<u64>,
    /// The highest resident memory so far, in bytes.
    pub rss_peak: Option<u64>,
    /// The rounds of the workload.
    pub rounds: Vec<Measurement>,
}

impl Sample {
    /// Workflows per second: the median of the rounds.
    pub fn per_second(&self) -> f64 {
        median(self.rounds.iter().map(Measurement::per_second).collect())
    }

    /// How long the slowest start of a runtime took, in seconds.
    pub fn runtime_start_s(&self) -> f64 {
        self.rounds
            .iter()
            .map(|round| round.runtime_start_s)
            .fold(0.0, f64::max)
    }
}

/// A store that was filled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Filled {
    /// How many finished instances were put into it.
    pub instances: u64,
    /// How long that took, in seconds.
    pub elapsed_s: f64,
    /// The highest resident memory so far, in bytes.
    pub rss_peak: Option<u64>,
}

/// Opens `target` as it is, measures it, and closes it again.
pub async fn sample(target: &dyn Target, plan: &SamplePlan) -> Result<Sample, BenchError> {
    let started = Instant::now();
    let opened = target.open().await?;
    let open_s = started.elapsed().as_secs_f64();
    let rss_opened = rss_bytes();
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let prefix = format!("{}-{round}", plan.prefix);
        rounds.push(run_case(opened.subject(), plan.case, plan.duration, plan.wait, &prefix).await?);
    }
    let sample = Sample {
        open_s,
        rss_opened,
        rss_worked: rss_bytes(),
        rss_peak: peak_rss_bytes(),
        rounds,
    };
    opened.close().await?;
    Ok(sample)
}

/// Opens `target` as it is, puts `instances` finished hello-worlds into it, and closes it again.
pub async fn grow(
    target: &dyn Target,
    instances: u64,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> Result<Filled, BenchError> {
    let opened = target.open().await?;
    let started = Instant::now();
    fill(opened.subject().provider, instances, progress).await?;
    let elapsed_s = started.elapsed().as_secs_f64();
    opened.close().await?;
    Ok(Filled {
        instances,
        elapsed_s,
        rss_peak: peak_rss_bytes(),
    })
}

/// Puts `instances` finished hello-worlds into a store, with the history that the runtime would have written,
/// but in one turn each.
async fn fill(
    provider: Arc<dyn Provider>,
    instances: u64,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> Result<(), BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    let progress = Arc::new(progress);
    let mut fillers = JoinSet::new();
    for _ in 0..FILLERS.min(instances) {
        let (provider, next, progress) = (Arc::clone(&provider), Arc::clone(&next), Arc::clone(&progress));
        fillers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= instances {
                    return Ok(());
                }
                fill_one(provider.as_ref(), number).await?;
                if number % 1_000 == 999 {
                    progress(number + 1);
                }
            }
        });
    }
    while let Some(joined) = fillers.join_next().await {
        let filled: Result<(), ProviderError> = joined.map_err(|e| BenchError::new("fill the store", e))?;
        filled.map_err(|e| BenchError::new("fill the store", e))?;
    }
    Ok(())
}

/// Starts one instance and finishes whichever instance is handed out next: in the end all are finished.
async fn fill_one(provider: &dyn Provider, number: u64) -> Result<(), ProviderError> {
    let start = WorkItem::StartOrchestration {
        instance: format!("filled-{number:012}"),
        orchestration: Workload::Hello.orchestration().into(),
        input: Workload::Hello.input(),
        version: Some("1.0.0".into()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    };
    provider.enqueue_for_orchestrator(start, None).await?;
    loop {
        let fetched = provider
            .fetch_orchestration_item(Duration::from_secs(30), Duration::from_secs(5), None)
            .await?;
        let Some((item, token, _)) = fetched else { continue };
        return provider
            .ack_orchestration_item(
                &token,
                INITIAL_EXECUTION_ID,
                finished_hello(&item.instance),
                vec![],
                vec![],
                metadata(),
                vec![],
            )
            .await;
    }
}

fn finished_hello(instance: &str) -> Vec<Event> {
    let event = |id: u64, source: Option<u64>, kind: EventKind| {
        Event::with_event_id(id, instance, INITIAL_EXECUTION_ID, source, kind)
    };
    let started = EventKind::OrchestrationStarted {
        name: Workload::Hello.orchestration().into(),
        version: "1.0.0".into(),
        input: Workload::Hello.input(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let scheduled = EventKind::ActivityScheduled {
        name: "greet".into(),
        input: Workload::Hello.input(),
        session_id: None,
        tag: None,
    };
    vec![
        event(1, None, started),
        event(2, None, scheduled),
        event(
            3,
            Some(2),
            EventKind::ActivityCompleted {
                result: "Hello, world!".into(),
            },
        ),
        event(
            4,
            None,
            EventKind::OrchestrationCompleted {
                output: "Hello, world!".into(),
            },
        ),
    ]
}

fn metadata() -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some("Completed".into()),
        output: Some("Hello, world!".into()),
        orchestration_name: Some(Workload::Hello.orchestration().into()),
        orchestration_version: Some("1.0.0".into()),
        parent_instance_id: None,
        pinned_duroxide_version: Some(duroxide::current_build_version()),
    }
}
