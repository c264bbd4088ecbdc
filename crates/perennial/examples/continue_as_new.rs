//! A workflow that runs for ever, in executions of its own: each has a short history, so replaying it stays cheap.
//! `cargo run -p perennial --example continue_as_new [URL]`

use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one execution hands to the next.
#[derive(Clone, Serialize, Deserialize)]
struct Meter {
    reading: u64,
    rounds_left: u32,
}

/// Reads a meter, and goes on as a new execution. This one ends after some rounds; most never do.
async fn watch(ctx: OrchestrationContext, meter: Meter) -> Result<u64, String> {
    let used: u64 = ctx.schedule_activity_typed("Measure", &meter.reading).await?;
    let next = Meter {
        reading: meter.reading + used,
        rounds_left: meter.rounds_left.saturating_sub(1),
    };
    if next.rounds_left == 0 {
        return Ok(next.reading);
    }
    ctx.schedule_timer(Duration::from_millis(20)).await;
    // Nothing after this runs: the execution ends here.
    ctx.continue_as_new_typed(&next).await?;
    Ok(0)
}

/// Runs some rounds; returns the last reading and how many executions there were.
pub async fn run(url: &str) -> Result<(u64, usize), Box<dyn std::error::Error>> {
    let perennial = perennial::connect(url).await?;
    let measure = |_: ActivityContext, reading: u64| async move { Ok(7 + reading % 2) };
    let activities = ActivityRegistry::builder().register_typed("Measure", measure).build();
    let workflows = OrchestrationRegistry::builder().register_typed("Watch", watch).build();
    let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;

    let client = Client::new(perennial.provider());
    let first = Meter {
        reading: 0,
        rounds_left: 10,
    };
    client.start_orchestration_typed("meter-1", "Watch", first).await?;
    let reading = perennial
        .workflows()
        .result("meter-1", Duration::from_secs(30))
        .await??;
    let executions = client.list_executions("meter-1").await?.len();

    runtime.shutdown(None).await;
    perennial.close().await?;
    Ok((reading, executions))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let (reading, executions) = run(&url).await?;
    println!("the meter is at {reading} after {executions} executions");
    Ok(())
}
