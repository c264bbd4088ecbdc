//! Workflows in a bucket.
#![allow(clippy::unwrap_used)]

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial::Handle;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

async fn run_hello(perennial: &Handle, instance: &str) -> String {
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
    let workflows = OrchestrationRegistry::builder().register("Hello", hello).build();
    let runtime: Arc<Runtime> = Runtime::start_with_store(perennial.provider(), activities, workflows).await;
    let client = Client::new(perennial.provider());
    client.start_orchestration(instance, "Hello", "bucket").await.unwrap();
    let greeting: Result<String, String> = perennial.workflows().result(instance, TIMEOUT).await.unwrap();
    runtime.shutdown(None).await;
    greeting.unwrap()
}

async fn runs_and_stays(url: &str) {
    for instance in ["hello-1", "hello-2"] {
        let perennial = perennial::connect(url).await.unwrap();
        assert_eq!(run_hello(&perennial, instance).await, "Hello, bucket!");
        perennial.close().await.unwrap();
    }
    let perennial = perennial::connect(url).await.unwrap();
    for instance in ["hello-1", "hello-2"] {
        let greeting: Result<String, String> = perennial.workflows().result(instance, TIMEOUT).await.unwrap();
        assert_eq!(greeting.unwrap(), "Hello, bucket!");
    }
    perennial.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_run_in_a_bucket_in_memory() {
    runs_and_stays("slatedb+memory:workflows-run").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_run_in_a_directory_of_objects() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("slatedb+file://{}", directory.path().join("store").display());
    runs_and_stays(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_opened_twice_in_a_process_is_one_store() {
    let one = perennial::connect("slatedb+memory:opened-twice").await.unwrap();
    let other = perennial::connect("slatedb+memory:opened-twice").await.unwrap();
    assert_eq!(run_hello(&one, "hello").await, "Hello, bucket!");
    one.close().await.unwrap();
    let greeting: Result<String, String> = other.workflows().result("hello", TIMEOUT).await.unwrap();
    assert_eq!(greeting.unwrap(), "Hello, bucket!");
    other.close().await.unwrap();
}
