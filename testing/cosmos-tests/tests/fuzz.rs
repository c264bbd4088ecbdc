//! Names of any kind, and sizes beyond a document: nothing is refused that a local store takes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

use duroxide::providers::TagFilter;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_cosmos_tests::{Process, Program, Room};
use std::sync::Arc;
use std::time::Duration;

/// The characters of names.
const PARTS: [&str; 16] = [
    "a", "Z", "0", "\"", "'", "/", "\\", "#", "?", "%", "\n", "\t", " ", "é", "日本", "😀",
];

/// Names of one byte to a thousand, the same in every run.
fn names() -> Vec<String> {
    let mut names: Vec<String> = PARTS.iter().map(|part| (*part).to_owned()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for bytes in [2, 3, 7, 30, 100, 255, 256, 500, 999, 1_000] {
        let mut name = String::new();
        while name.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from(state >> 60).unwrap();
            name.push_str(PARTS[at % PARTS.len()]);
        }
        names.push(name);
    }
    names.extend(["..", "%2f", "~~", "$", "{}", "[\"a\"]"].map(str::to_owned));
    names
}

async fn output(client: &Client, instance: &str) -> String {
    match client.wait_for_orchestration(instance, Duration::from_secs(30)).await {
        Ok(OrchestrationStatus::Completed { output, .. }) => output,
        other => panic!("{instance:?}: {other:?}"),
    }
}

/// A name is an instance, a session, a tag, a key of a value and an activity at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_text_is_a_name() {
    let room = Room::new().await;
    let store = Arc::new(room.workflows().await);
    let names = names();
    let mut activities = ActivityRegistry::builder();
    for name in &names {
        let echo = |_: ActivityContext, input: String| async move { Ok(input) };
        activities = activities.register(name.as_str(), echo);
    }
    let everywhere = |ctx: OrchestrationContext, name: String| async move {
        ctx.set_kv_value(name.clone(), "before");
        // The runtime takes no longer tags.
        let short: String = name.chars().take(60).collect();
        let first = ctx
            .schedule_activity_on_session(name.clone(), name.clone(), name.clone())
            .await?;
        let second = ctx.schedule_activity(name.clone(), first).with_tag(short).await?;
        ctx.set_kv_value(name.clone(), second.clone());
        Ok(second)
    };
    let workflows = OrchestrationRegistry::builder()
        .register("Everywhere", everywhere)
        .build();
    let options = RuntimeOptions {
        worker_tag_filter: TagFilter::Any,
        max_sessions_per_runtime: 1_000,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities.build(), workflows, options).await;
    let client = Client::new(store.clone());
    for name in &names {
        let started = client.start_orchestration(name, "Everywhere", name).await;
        started.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    for name in &names {
        assert_eq!(&output(&client, name).await, name);
        assert_eq!(client.get_kv_value(name, name).await.unwrap().as_ref(), Some(name));
    }
    let mut listed = client.list_all_instances().await.unwrap();
    let mut names = names;
    listed.sort_unstable();
    names.sort_unstable();
    assert_eq!(listed, names);
    runtime.shutdown(Some(0)).await;
}

/// Three megabytes as an input, as a result, as a message and as an output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_megabytes_come_through() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    process.begin("result", "Large", "3000000").await;
    assert_eq!(process.output("result").await.len(), 3_000_000);
    let large = "é".repeat(1_500_000);
    process.begin("message", "Collect", "1").await;
    process.enqueue("message", &large).await;
    assert!(process.output("message").await == large);
    process.begin("input", "Hello", &large).await;
    assert_eq!(process.output("input").await.len(), 3_000_000 + "Hello, !".len());
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_activities_at_once() {
    let room = Room::new().await;
    let program = Program::new(16);
    let process = Process::start(&room, &program).await;
    let before = room.counts();
    process.begin("fan", "Fan", "500").await;
    assert_eq!(process.output("fan").await, "500");
    println!("fan-out 500 at 16+16: {}", room.counts().since(&before));
    let effects = program.effects.of("fan:");
    assert_eq!((effects.len(), effects.values().sum::<usize>()), (500, 500));
    room.assert_clean().await;
    process.stop().await;
}
