//! The requests of a runtime that has nothing to do.

use crate::measure::{Idle, Plan};
use crate::sides::{Side, container};
use duroxide::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use perennial_bench::{BenchError, Slots};
use perennial_cosmos_server::Server;
use std::time::Duration;

/// How long a runtime may take to become idle.
const START: Duration = Duration::from_secs(2);

/// Watches an idle runtime for as long as the plan says.
pub async fn watch(server: &Server, side: Side, slots: Slots, plan: &Plan) -> Result<Idle, BenchError> {
    let name = format!("idle{slots}-{}", side.name()).replace('+', "-");
    let opened = side.open(server, &name, plan.tuned.then_some(slots)).await?;
    let options = RuntimeOptions {
        orchestration_concurrency: slots.turns,
        worker_concurrency: slots.activities,
        ..RuntimeOptions::default()
    };
    let activities = ActivityRegistry::builder().build();
    let workflows = OrchestrationRegistry::builder().build();
    let runtime = Runtime::start_with_options(opened.provider(), activities, workflows, options).await;
    tokio::time::sleep(START).await;
    let before = server.counts_in(&container(&name));
    tokio::time::sleep(plan.idle).await;
    let counts = server.counts_in(&container(&name)).since(&before);
    runtime.shutdown(Some(1_000)).await;
    opened.close().await?;
    let seconds = plan.idle.as_secs_f64().max(f64::MIN_POSITIVE);
    Ok(Idle {
        side: side.name(),
        slots,
        requests_per_second: counts.documents() as f64 / seconds,
        units_per_second: counts.ru / seconds,
    })
}
