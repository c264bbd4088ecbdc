//! The smallest workflow: one activity. `cargo run -p perennial --example hello [URL]`

use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// Runs one workflow and returns its greeting.
pub async fn run(url: &str) -> Result<String, Box<dyn std::error::Error>> {
    let perennial = perennial::connect(url).await?;
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
    let workflows = OrchestrationRegistry::builder().register("Hello", hello).build();
    let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;

    // A start whose id exists already changes nothing, so a program may simply start its work again after a crash.
    let client = Client::new(perennial.provider());
    client.start_orchestration("hello-1", "Hello", "Rust").await?;
    let greeting = perennial
        .workflows()
        .result("hello-1", Duration::from_secs(30))
        .await??;

    runtime.shutdown(None).await;
    perennial.close().await?;
    Ok(greeting)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "file://./perennial-data".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
