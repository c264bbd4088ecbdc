//! A real process whose disk becomes full under running workflows, and then has room again.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[path = "../../fjall/tests/support/preload.rs"]
mod preload;

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial::Health;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const WORKFLOWS: usize = 40;
const STEPS: u64 = 5;

/// Longer than the runtime retries the acknowledgement of a turn before it gives the workflow up.
const OUTAGE: Duration = Duration::from_millis(1_500);

fn instance(number: usize) -> String {
    format!("flow-{number}")
}

/// Runs the child until it ends, with a disk that becomes full.
fn run(when: &str, amount: usize) {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    // The running workflows fill the disk, not the creation of the store.
    drop(perennial_fjall::open(&store, perennial_fjall::Settings::default()).unwrap());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("CHILD_STORE", &store)
        .env("LD_PRELOAD", preload::compile(directory.path(), "faults"))
        .env("FAULT_ROOT", &store)
        .env("FAULT_TRIPPED", directory.path().join("tripped"))
        .env("FAULT_ERRNO", "28")
        .env(when, amount.to_string())
        .output()
        .unwrap();
    let (told, noise) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    let what = format!("{when}={amount}:\n{told}\n{noise}");
    assert!(child.status.success() && told.contains("all is well"), "{what}");
}

/// Not a test: the process that the tests start.
#[test]
fn child() {
    let Some(store) = std::env::var_os("CHILD_STORE") else {
        return;
    };
    let tripped = PathBuf::from(std::env::var_os("FAULT_TRIPPED").unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let url = format!("file://{}", PathBuf::from(store).display());
    let living = async {
        tokio::time::timeout(Duration::from_secs(120), live(&url, &tripped))
            .await
            .expect("the process hangs");
    };
    runtime.block_on(living);
    println!("\nall is well");
}

async fn live(url: &str, tripped: &Path) {
    let store = perennial::open(url).await.unwrap();
    let provider: Arc<dyn Provider> = store.clone();
    let step = |_: ActivityContext, input: String| async move { Ok(format!("{input}{}", "x".repeat(500))) };
    let flow = |ctx: OrchestrationContext, name: String| async move {
        for _ in 0..STEPS {
            ctx.schedule_activity("Step", name.clone()).await?;
        }
        Ok(name)
    };
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let workflows = OrchestrationRegistry::builder().register("Flow", flow).build();
    let runtime = Runtime::start_with_store(Arc::clone(&provider), activities, workflows).await;
    let client = Client::new(provider);

    let outage = {
        let (store, url, tripped) = (store.clone(), url.to_owned(), tripped.to_owned());
        tokio::spawn(async move { ride_out(&store, &url, &tripped).await })
    };
    for number in 0..WORKFLOWS {
        // A start with an unknown outcome is repeated; the runtime takes only one.
        while client
            .start_orchestration(instance(number), "Flow", number.to_string())
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for number in 0..WORKFLOWS {
        let id = instance(number);
        loop {
            // Reads fail as long as the store is away.
            match client.wait_for_orchestration(&id, Duration::from_secs(60)).await {
                Ok(OrchestrationStatus::Completed { output, .. }) => break assert_eq!(output, number.to_string()),
                Ok(other) => panic!("{id} is {other:?}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        let history = store.read(&id).await.unwrap();
        assert_eq!(history.len() as u64, 2 + 2 * STEPS, "{id}: {history:?}");
    }
    outage.await.unwrap();
    assert_eq!(store.health(), Health::Working);
    runtime.shutdown(None).await;
    store.close().await.unwrap();
    drop((client, store));

    // Everything is on disk, too.
    let store = perennial::open(url).await.unwrap();
    for number in 0..WORKFLOWS {
        let history = store.read(&instance(number)).await.unwrap();
        assert_eq!(history.len() as u64, 2 + 2 * STEPS);
    }
}

/// Waits until the disk is full, checks that every caller gets the reason, and makes room after a while.
async fn ride_out(store: &perennial::Workflows, url: &str, tripped: &Path) {
    let Health::Broken(outage) = store.closed().await else {
        panic!("the store broke");
    };
    assert!(outage.why.contains("No space left on device"), "{outage:?}");
    assert!(tripped.exists() && store.is_closed());
    // Another handle cannot open it either, and gets the reason.
    let refused = perennial::open(url).await.err().expect("the disk is full").to_string();
    assert!(refused.contains("full"), "{refused}");
    tokio::time::sleep(OUTAGE).await;
    std::fs::remove_file(tripped).unwrap();
    let reopened = perennial::open(url).await.unwrap();
    // A directory is opened once in a process: the handle that broke works again, too.
    assert!(reopened.health().is_working() && store.health().is_working());
}

#[test]
fn workflows_go_on_after_the_disk_was_full() {
    for bytes in [20_000, 60_001, 120_017] {
        run("FAULT_BYTES", bytes);
    }
}

#[test]
fn workflows_go_on_after_single_calls_failed() {
    // Between writes, syncs and other calls.
    for calls in [60, 61, 62, 203] {
        run("FAULT_CALLS", calls);
    }
}
