//! A person decides: a workflow waits for an approval, for days if need be, and gives up after a deadline.
//! `cargo run -p perennial --example approval [URL]`

use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// What the person who asks sees meanwhile is the custom status. A process that waits is not needed: the event and the
/// timer are in the store.
async fn expense(ctx: OrchestrationContext, deadline_ms: u64) -> Result<String, String> {
    ctx.set_custom_status("waiting for an approval");
    let decision = ctx.schedule_wait("decision");
    let deadline = ctx.schedule_timer(Duration::from_millis(deadline_ms));
    match ctx.select2(decision, deadline).await {
        Either2::First(decision) if decision == "yes" => ctx.schedule_activity("Pay", "42 EUR").await,
        Either2::First(decision) => Ok(format!("refused: {decision}")),
        Either2::Second(()) => Ok("nobody has decided in time".to_owned()),
    }
}

/// Runs three expenses: one is approved, one is refused, one is forgotten. Returns how they ended.
pub async fn run(url: &str) -> Result<[String; 3], Box<dyn std::error::Error>> {
    let perennial = perennial::connect(url).await?;
    let pay = |_: ActivityContext, amount: String| async move { Ok(format!("paid {amount}")) };
    let activities = ActivityRegistry::builder().register("Pay", pay).build();
    let workflows = OrchestrationRegistry::builder()
        .register_typed("Expense", expense)
        .build();
    let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;

    let client = Client::new(perennial.provider());
    for (id, deadline_ms) in [("taxi", 3_600_000_u64), ("yacht", 3_600_000), ("lunch", 200)] {
        client.start_orchestration_typed(id, "Expense", deadline_ms).await?;
    }
    for (id, decision) in [("taxi", "yes"), ("yacht", "we are a small company")] {
        // The status is set in the same step that begins to wait.
        client
            .wait_for_status_change(id, 0, Duration::from_millis(10), Duration::from_secs(30))
            .await?;
        client.raise_event(id, "decision", decision).await?;
    }
    let workflows = perennial.workflows();
    let ended = |id: &'static str| workflows.result(id, Duration::from_secs(30));
    let ended = [ended("taxi").await??, ended("yacht").await??, ended("lunch").await??];

    runtime.shutdown(None).await;
    perennial.close().await?;
    Ok(ended)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    for ended in run(&url).await? {
        println!("{ended}");
    }
    Ok(())
}
