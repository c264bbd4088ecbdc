//! An order: a payment that is retried, a pause, a parcel as a sub-workflow that waits for an event.
//! `cargo run -p perennial --example order [URL]`

use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistry, RetryPolicy};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    id: u32,
    cents: u64,
}

/// Pays, waits for the time in which the customer may cancel, and ships. It runs again from the beginning whenever something
/// happens: whatever is awaited through `ctx` is remembered, so it must do nothing else that has an effect.
async fn order(ctx: OrchestrationContext, order: Order) -> Result<String, String> {
    let backoff = BackoffStrategy::Fixed {
        delay: Duration::from_millis(20),
    };
    let policy = RetryPolicy::new(5).with_backoff(backoff);
    let receipt: String = ctx.schedule_activity_with_retry_typed("Charge", &order, policy).await?;
    ctx.schedule_timer(Duration::from_millis(100)).await;
    let parcel = format!("parcel-{}", order.id);
    let signed_by: String = ctx
        .schedule_sub_orchestration_with_id_typed("Ship", parcel, &order)
        .await?;
    Ok(format!("{receipt}, received by {signed_by}"))
}

/// Waits until the parcel was handed over.
async fn ship(ctx: OrchestrationContext, _order: Order) -> Result<String, String> {
    let delivered = ctx.schedule_wait("delivered");
    ctx.set_custom_status("on its way");
    Ok(delivered.await)
}

/// Runs one order and returns how it ended.
pub async fn run(url: &str) -> Result<String, Box<dyn std::error::Error>> {
    let perennial = perennial::connect(url).await?;
    // The bank is down twice. An activity may run again if its process dies before its result is stored, so a real one sends
    // the order's id along, and the bank charges each order once.
    let failures = Arc::new(AtomicU32::new(2));
    let charge = move |_: ActivityContext, order: Order| {
        let down = failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        async move {
            match down {
                Ok(_) => Err("the bank is down".to_owned()),
                Err(_) => Ok(format!("order {} paid with {} cents", order.id, order.cents)),
            }
        }
    };
    let activities = ActivityRegistry::builder().register_typed("Charge", charge).build();
    let workflows = OrchestrationRegistry::builder()
        .register_typed("Order", order)
        .register_typed("Ship", ship)
        .build();
    let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;

    let client = Client::new(perennial.provider());
    let new = Order { id: 17, cents: 4_200 };
    client.start_orchestration_typed("order-17", "Order", new).await?;
    // An event reaches what waits for it, so the parcel must be on its way first.
    let timeout = Duration::from_secs(30);
    client
        .wait_for_status_change("parcel-17", 0, Duration::from_millis(10), timeout)
        .await?;
    client.raise_event("parcel-17", "delivered", "Ada").await?;
    let ended = perennial.workflows().result("order-17", timeout).await??;

    runtime.shutdown(None).await;
    perennial.close().await?;
    Ok(ended)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
