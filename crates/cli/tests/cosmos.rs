//! Stores in Cosmos DB as users create them, run on them and query their cost, on the test server.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic, and waits for a real process"
)]

mod support;

use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::{AccountReference, CosmosClient, RoutingStrategy};
use duroxide::runtime::{Runtime, registry::ActivityRegistry};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_cosmos_server::{Options, Server};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;
use support::{facts, run, text, told};

async fn serve() -> Server {
    Server::start(Options::default()).await.unwrap()
}

fn url(server: &Server) -> String {
    let endpoint = server.endpoint();
    format!("cosmos+{}db/workflows", endpoint)
}

async fn perennial(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    run(support::perennial(directory.path(), arguments)).await
}

async fn init(url: &str) {
    let output = perennial(&["cosmos", "init", url]).await;
    assert!(output.status.success(), "{}", told(&output));
}

/// Asserts this exit code and a line that holds all of these.
fn refused(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    let line = text(&output.stderr);
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_is_made_once() {
    let server = serve().await;
    let url = url(&server);
    for (arguments, expected) in [
        (
            &["--autoscale", "2000"][..],
            "created the container workflows of the database db",
        ),
        (&["--serverless"], "nothing to do"),
        (&["--throughput", "400"], "its throughput was left as it is"),
    ] {
        let arguments: Vec<&str> = ["cosmos", "init", &url].iter().chain(arguments).copied().collect();
        let output = perennial(&arguments).await;
        assert!(output.status.success(), "{}", told(&output));
        assert!(text(&output.stdout).contains(expected), "{}", told(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_of_something_else_is_left_alone() {
    let server = serve().await;
    let account =
        AccountReference::with_authentication_key(server.endpoint().parse().unwrap(), server.key().to_owned());
    let client = CosmosClient::builder().build(account, RoutingStrategy::PreferredRegions(Vec::new()));
    let client = client.await.unwrap();
    client.create_database("db", None).await.unwrap();
    let other = ContainerProperties::new("workflows", "/id".into());
    client
        .database_client("db")
        .create_container(other, None)
        .await
        .unwrap();
    for command in ["init", "cost"] {
        let output = perennial(&["cosmos", command, &url(&server)]).await;
        refused(&output, 3, &["partition key \"/id\"", "name another container"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_have_another_exit_code_than_failures() {
    for (wrong, code) in [
        (&["cosmos", "init"][..], 2),
        (&["cosmos", "init", "cosmos://a/b/c", "--throughput", "450"], 2),
        (&["cosmos", "init", "cosmos://a/b/c", "--autoscale", "500"], 2),
        (
            &[
                "cosmos",
                "init",
                "cosmos://a/b/c",
                "--autoscale",
                "1000",
                "--serverless",
            ],
            2,
        ),
        (&["cosmos", "cost", "cosmos://a/b/c", "--per-minute", "0"], 2),
        (&["cosmos", "cost", "cosmos://a/b/c", "--processes", "2"], 2),
        (&["cosmos", "emulator", "--port", "66000"], 2),
        (&["cosmos", "init", "file:///tmp/x"], 3),
        (&["cosmos", "init", "cosmos://a/b"], 3),
    ] {
        refused(&perennial(wrong).await, code, &[]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_ever_shown() {
    let server = serve().await;
    let url = url(&server);
    init(&url).await;
    let secret = "aHVudGVyMg==";
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["cosmos", "init", &url][..],
        &["cosmos", "cost", &url],
        &["demo", "--store", &url],
    ] {
        let mut command = support::perennial(directory.path(), arguments);
        command.env("PERENNIAL_COSMOS_KEY", secret);
        let output = run(command).await;
        refused(&output, 3, &["credentials"]);
        assert!(!told(&output).contains(secret), "{}", told(&output));
    }
    for command in [&["cosmos", "init"][..], &["cosmos", "cost"], &["demo", "--store"]] {
        let url = "cosmos://me:hunter2@account/db/workflows";
        let arguments: Vec<&str> = command.iter().copied().chain([url]).collect();
        let output = perennial(&arguments).await;
        refused(&output, 3, &["holds credentials"]);
        assert!(!told(&output).contains("hunter2"), "{}", told(&output));
    }
}

/// Runs hello-worlds as a program does, with the account's key passed in.
async fn hello_worlds(server: &Server, count: u32) {
    let store = perennial::Builder::new(url(server)).cosmos_key(server.key()).open();
    let store = store.await.unwrap();
    let other = perennial::open(&url(server)).await.unwrap();
    assert!(!Arc::ptr_eq(&store, &other), "each is a process to the other");
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
    let workflows = OrchestrationRegistry::builder().register("Hello", hello).build();
    let runtime = Runtime::start_with_store(store.clone(), activities, workflows).await;
    let client = Client::new(store.clone());
    for number in 0..count {
        let instance = format!("hello-{number}");
        client.start_orchestration(&instance, "Hello", "Rust").await.unwrap();
    }
    for number in 0..count {
        let instance = format!("hello-{number}");
        let ended = client.wait_for_orchestration(&instance, Duration::from_secs(60)).await;
        assert!(format!("{ended:?}").contains("Hello, Rust!"), "{ended:?}");
    }
    runtime.shutdown(None).await;
    store.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_workflows_is_shown_after_a_run() {
    let server = serve().await;
    let url = url(&server);
    refused(
        &perennial(&["cosmos", "cost", &url]).await,
        3,
        &["does not exist", "cosmos init"],
    );
    init(&url).await;
    refused(&perennial(&["cosmos", "cost", &url]).await, 1, &["no run is recorded"]);
    hello_worlds(&server, 7).await;
    let before = server.counts();
    let output = perennial(&["cosmos", "cost", &url, "--per-minute", "6000"]).await;
    let asked = server.counts().since(&before).total;
    assert!(asked <= 8, "asking what it costs costs little, not {asked} requests");
    println!("{}", told(&output));
    let facts = facts(&output);
    let number = |key: &str| -> f64 { facts[key].parse().unwrap() };
    assert_eq!(facts["workflows"], "7");
    assert!(number("units_per_workflow") > 4.0, "{facts:?}");
    assert!(
        number("units_per_workflow") * 7.0 <= number("request_units") + 1.0,
        "{facts:?}"
    );
    assert!(number("requests_per_workflow") >= 4.0, "{facts:?}");
    assert!(
        number("needed_units_per_second") >= 99.0 * number("units_per_workflow"),
        "{facts:?}"
    );
    assert!(
        number("throughput") * 0.7 >= number("needed_units_per_second"),
        "{facts:?}"
    );
    assert!(number("autoscale") >= number("throughput") && number("autoscale") % 1000.0 == 0.0);
    assert!(text(&output.stdout).contains("| commit"), "{}", told(&output));
    // A process that only queries the cost is no run.
    let again = support::facts(&perennial(&["cosmos", "cost", &url]).await);
    assert_eq!(again["request_units"], facts["request_units"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_runs_on_it() {
    let server = serve().await;
    let url = url(&server);
    init(&url).await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--workflows", "10", "--step-ms", "1", "--store", &url];
    for batch in ["starting batch 1", "starting batch 2"] {
        let output = run(support::perennial(directory.path(), &arguments)).await;
        let facts = facts(&output);
        assert!(text(&output.stdout).contains(batch), "{}", told(&output));
        assert_eq!((facts["orders"].as_str(), facts["failed"].as_str()), ("10", "0"));
        assert_eq!(facts["steps_without_execution"], "0");
    }
    let cost = facts(&perennial(&["cosmos", "cost", &url]).await);
    assert_eq!(cost["runs"], "2");
}
