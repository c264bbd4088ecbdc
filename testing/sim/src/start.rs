//! Starts a process: the engine on its store, the runtime on the engine.

use crate::life::Life;
use crate::member::Member;
use crate::store::SimStore;
use crate::witness::Watched;
use crate::workflow;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use perennial_store::{Clock, Result};
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;

/// Opens the engine of a process.
pub async fn open(life: &Arc<Life>, store: SimStore) -> Result<Workflows> {
    let config = &life.scene.config;
    let settings = Settings {
        cache_bytes: config.cache_bytes,
        held_body_bytes: config.held_body_bytes,
        process_seed: Some(life.seed()),
        ..Settings::default()
    };
    let clock: Arc<dyn Clock> = Arc::clone(life) as Arc<dyn Clock>;
    Workflows::open_with_clock(Arc::new(store), settings, clock).await
}

/// Starts the runtime of a process on its engine.
pub async fn start(life: &Arc<Life>, witness: &Arc<Watched>, member: &Member, node: &str) -> Arc<Runtime> {
    let activities = workflow::activities(life);
    let options = options(member, node);
    Runtime::start_with_options(witness.clone(), activities, workflow::workflows(), options).await
}

fn options(member: &Member, node: &str) -> RuntimeOptions {
    RuntimeOptions {
        // The runtime would take this from the machine's clock.
        dispatcher_min_poll_interval: Duration::ZERO,
        // Longer than anything may take: a dispatcher that is not woken is stuck.
        dispatcher_long_poll_timeout: Duration::from_secs(48 * 3_600),
        orchestration_concurrency: member.turn_dispatchers,
        worker_concurrency: member.work_dispatchers,
        // Whatever was handed out at a kill counts as attempted, through no fault of its own.
        max_attempts: 10_000,
        observability: ObservabilityConfig {
            // Never at the same moment as anything else: the runtime waits for it in an order of its own.
            gauge_poll_interval: Duration::from_millis(597_013),
            ..ObservabilityConfig::default()
        },
        // The runtime would take this from the machine's clock.
        worker_node_id: Some(node.to_owned()),
        worker_tag_filter: member.tags.filter(),
        supported_replay_versions: member.replays(),
        ..RuntimeOptions::default()
    }
}
