//! What processes have cost is written down where others find it.

use crate::support::{Bed, draft};
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
async fn a_run_that_has_ended_is_told_to_who_comes_later() {
    let bed = Bed::new().await;
    let store = bed.open().await;
    work(&store, "p", 3).await;
    let before = bed.server.counts();
    store.due(&DueQuery::new(&Lane::new("work"), 0, 1)).await.unwrap();
    assert_eq!(bed.server.counts().since(&before).total, 1);
    let own = store.runs().await.unwrap();
    assert_eq!(own.len(), 1, "who is open tells of itself");
    store.close().await.unwrap();
    let runs = bed.open().await.runs().await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(
        runs[0].counted[DONE.0.as_ref()],
        3,
        "what was taken back does not count"
    );
    assert_eq!((runs[0].spent["commit"].calls, runs[0].spent["due"].calls), (2, 1));
    assert!(runs[0].began_ms <= runs[0].told_ms && units(&runs[0]) > 2.0, "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_goes_on_is_told_now_and_then() {
    let mut bed = Bed::new().await;
    bed.settings.counters_interval = Duration::from_millis(50);
    let (store, other) = (bed.open().await, bed.open().await);
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
async fn only_the_latest_are_kept_and_who_only_looks_is_none() {
    let bed = Bed::new().await;
    for round in 0..20 {
        let store = bed.open().await;
        work(&store, &format!("p{round}"), round + 1).await;
        store.close().await.unwrap();
    }
    let looking = bed.open().await;
    looking.counters().await.unwrap();
    looking.close().await.unwrap();
    let runs = bed.open().await.runs().await.unwrap();
    assert_eq!(runs.len(), 16);
    let counted: Vec<i64> = runs.iter().map(|run| run.counted[DONE.0.as_ref()]).collect();
    assert_eq!((counted[0], counted[15]), (20, 5), "{counted:?}");
}

/// Closing is not to fail for what is only of interest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_written_down_is_no_reason_to_fail() {
    use perennial_cosmos_server::{Fault, Rule, When};
    let bed = Bed::new().await;
    let store = bed.open().await;
    let op = Op::Put(draft("p", "a", "1"));
    store.commit(Commit::new(vec![op])).await.unwrap();
    bed.server.faults().add(Rule::new(Fault::answer(403, 0), When::Always));
    store.close().await.unwrap();
    bed.server.faults().reset();
    assert_eq!(bed.open().await.runs().await.unwrap(), []);
}

#[tokio::test]
async fn an_emulator_on_this_machine_needs_no_key() {
    let bed = Bed::new().await;
    let account = Account::parse(&bed.url()).unwrap();
    let store = perennial_cosmos::open(account, Settings::default()).await.unwrap();
    store.close().await.unwrap();
}
