//! Many processes on one container of Azure Cosmos DB: start this in several terminals, kill any of them, and the others go
//! on with its work. No account is needed to try it:
//!
//! ```sh
//! cargo run --release -p perennial-cli --features emulator -- cosmos emulator      # prints the URL
//! cargo run -p perennial --features cosmos --example many_processes -- URL
//! ```

use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

const WORKFLOWS: u64 = 20;

async fn square(ctx: OrchestrationContext, number: u64) -> Result<u64, String> {
    ctx.schedule_timer(Duration::from_millis(200)).await;
    ctx.schedule_activity_typed("Multiply", &(number, number)).await
}

/// Takes part in the work of the container until all workflows have ended; returns the sum of their results.
pub async fn run(url: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let perennial = perennial::connect(url).await?;
    let multiply = |_: ActivityContext, (left, right): (u64, u64)| async move { Ok(left * right) };
    let activities = ActivityRegistry::builder().register_typed("Multiply", multiply).build();
    let workflows = OrchestrationRegistry::builder()
        .register_typed("Square", square)
        .build();
    let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;

    // Every process starts all of them: ids are unique, so each runs once.
    let client = Client::new(perennial.provider());
    for number in 1..=WORKFLOWS {
        client
            .start_orchestration_typed(&format!("square-{number}"), "Square", number)
            .await?;
    }
    let mut sum = 0;
    for number in 1..=WORKFLOWS {
        let instance = format!("square-{number}");
        sum += perennial
            .workflows()
            .result::<u64>(&instance, Duration::from_secs(120))
            .await??;
    }

    runtime.shutdown(None).await;
    perennial.close().await?;
    Ok(sum)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args()
        .nth(1)
        .ok_or("name a store: cosmos://ACCOUNT/DATABASE/CONTAINER")?;
    println!("the sum of the squares is {}", run(&url).await?);
    Ok(())
}
