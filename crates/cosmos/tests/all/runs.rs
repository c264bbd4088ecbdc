//! The cost of a process is recorded where other processes find it.

use crate::support::{Fixture, draft};
use perennial_cosmos::{Account, CosmosStore, Run, Settings};
use perennial_store::{Commit, Counter, DueQuery, Lane, Op, Store};
use std::time::Duration;

const DONE: Counter = Counter::new("done");

async fn work(store: &CosmosStore, partition: &str, times: i64) {
    let commit = Commit::new(vec![Op::Put(draft(partition, "a", "1"))]).count(DONE, times);
    store.commit(commit).await.unwrap();
    let undone = Commit::new(vec![Op::Put(draft(partition, "a", "2"))]).count(DONE, -1);
    store.commit(undone).await.unwrap();
}

fn units(run: &Run) -> f64 {
    run.spent.values().map(|spent| spent.units).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_run_is_shown_to_later_handles() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    work(&store, "p", 3).await;
    let before = fixture.server.counts();
    store.due(&DueQuery::new(&Lane::new("work"), 0, 1)).await.unwrap();
    assert_eq!(fixture.server.counts().since(&before).total, 1);
    let own = store.runs().await.unwrap();
    assert_eq!(own.len(), 1, "an open handle reports itself");
    store.close().await.unwrap();
    let runs = fixture.open().await.runs().await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].counted[DONE.0.as_ref()], 3, "a decrease does not count");
    assert_eq!((runs[0].spent["commit"].calls, runs[0].spent["due"].calls), (2, 1));
    assert!(runs[0].began_ms <= runs[0].told_ms && units(&runs[0]) > 2.0, "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_run_is_reported_now_and_then() {
    let mut fixture = Fixture::new().await;
    fixture.settings.counters_interval = Duration::from_millis(50);
    let (store, other) = (fixture.open().await, fixture.open().await);
    work(&store, "p", 1).await;
    loop {
        let runs = other.runs().await.unwrap();
        if let [run] = runs.as_slice() {
            assert_eq!(run.counted[DONE.0.as_ref()], 1);
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_latest_are_kept_and_a_reader_is_not_a_run() {
    let fixture = Fixture::new().await;
    for round in 0..20 {
        let store = fixture.open().await;
        work(&store, &format!("p{round}"), round + 1).await;
        store.close().await.unwrap();
    }
    let looking = fixture.open().await;
    looking.counters().await.unwrap();
    looking.close().await.unwrap();
    let runs = fixture.open().await.runs().await.unwrap();
    assert_eq!(runs.len(), 16);
    let counted: Vec<i64> = runs.iter().map(|run| run.counted[DONE.0.as_ref()]).collect();
    assert_eq!((counted[0], counted[15]), (20, 5), "{counted:?}");
}

/// Closing must not fail for data that is only of interest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_recorded_is_no_reason_to_fail() {
    use perennial_cosmos_server::{Fault, Rule, When};
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let op = Op::Put(draft("p", "a", "1"));
    store.commit(Commit::new(vec![op])).await.unwrap();
    fixture
        .server
        .faults()
        .add(Rule::new(Fault::answer(403, 0), When::Always));
    store.close().await.unwrap();
    fixture.server.faults().reset();
    assert_eq!(fixture.open().await.runs().await.unwrap(), []);
}

#[tokio::test]
async fn an_emulator_on_this_machine_needs_no_key() {
    let fixture = Fixture::new().await;
    let account = Account::parse(&fixture.url()).unwrap();
    let store = perennial_cosmos::open(account, Settings::default()).await.unwrap();
    store.close().await.unwrap();
}
