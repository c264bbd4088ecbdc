//! Runs N hello-worlds one after the other, on one thread: for counting instructions.
//!
//! `cargo build --release -p perennial-bench --example hello_memory`, then
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/hello_memory N [URL]` with two values of
//! N. The difference of the totals, divided by the difference of the counts, is the cost of one workflow; what the process
//! costs apart from workflows cancels out. The URL is `memory:` unless another one is given.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// How long one workflow may take. Under an emulator of the processor everything is fifty times slower.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().as_deref().unwrap_or("1000").parse()?;
    let url = arguments.next().unwrap_or_else(|| "memory:".to_owned());

    let perennial = perennial::connect(&url).await?;
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("greet", greet).build();
    let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("greet", name).await };
    let workflows = OrchestrationRegistry::builder().register("hello", hello).build();
    let options = RuntimeOptions {
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(perennial.provider(), activities, workflows, options).await;
    let client = Client::new(perennial.provider());
    for number in 0..count {
        let instance = format!("hello-{number}");
        client.start_orchestration(&instance, "hello", "world").await?;
        let result: Result<String, _> = perennial.workflows().result(&instance, TIMEOUT).await?;
        result?;
    }
    runtime.shutdown(None).await;
    perennial.close().await?;
    println!("{count} workflows on {url}");
    Ok(())
}
