//! Totals after processes have died: right, or known to be in doubt until a count.

use crate::support::{Fixture, Random, draft};
use azure_data_cosmos::FeedScope;
use futures::StreamExt;
use perennial_cosmos::CosmosStore;
use perennial_cosmos_server::{Fault, Kind, Rule, When};
use perennial_store::{Commit, Counted, Counter, Doubt, Error, Op, Store};
use std::time::Duration;

const N: Counter = Counter::new("n");

/// A fixture whose handles write every few milliseconds, settle soon, and are soon taken for dead.
async fn hurried() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.settings.counters_interval = Duration::from_millis(20);
    fixture.settings.counters_idle = Duration::from_millis(100);
    fixture
}

async fn count(store: &CosmosStore, by: i64) {
    let commit = Commit::new(vec![Op::Put(draft("p", "a", "1"))]).count(N, by);
    store.commit(commit).await.unwrap();
}

fn counted(sum: i64) -> Counted {
    Counted {
        prefix: "".into(),
        at_ms: 1,
        took_ms: 2,
        sums: vec![(N, sum)],
    }
}

async fn documents(fixture: &Fixture) -> Vec<serde_json::Value> {
    let container = fixture.container().await;
    let found = container.query_items("SELECT * FROM c", FeedScope::partition("%tally"), None);
    found.await.unwrap().map(Result::unwrap).collect().await
}

async fn pause() {
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Waits until the documents of totals satisfy a condition.
async fn until(fixture: &Fixture, is_so: impl Fn(&[serde_json::Value]) -> bool) -> Vec<serde_json::Value> {
    loop {
        let found = documents(fixture).await;
        if is_so(&found) {
            return found;
        }
        pause().await;
    }
}

/// Waits until the totals are in doubt.
async fn doubt(store: &CosmosStore) -> Doubt {
    loop {
        match store.totals().await.unwrap().doubt {
            Some(doubt) => return doubt,
            None => pause().await,
        }
    }
}

/// Counts until that resolves the doubt: other handles may have to come to rest first.
async fn resolve_doubt(store: &CosmosStore, sum: i64) {
    loop {
        let doubt = doubt(store).await;
        if store.resolve_doubt(&doubt, &counted(sum)).await.unwrap() {
            return;
        }
        pause().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_dies_at_work_is_noticed_and_a_count_corrects_the_totals() {
    let fixture = hurried().await;
    let (victim, keeper) = (fixture.open().await, fixture.open().await);
    count(&keeper, 3).await;
    count(&victim, 5).await;
    drop(victim);
    resolve_doubt(&keeper, 8).await;
    let totals = keeper.totals().await.unwrap();
    assert_eq!((totals.sums, totals.doubt), (vec![(N, 8)], None));
    count(&keeper, 1).await;
    assert_eq!(keeper.counters().await.unwrap(), [(N, 9)]);
    keeper.close().await.unwrap();
    let later = fixture.open().await.totals().await.unwrap();
    assert_eq!((later.sums, later.doubt), (vec![(N, 9)], None));
}

/// Each engine counts what is its own: what it does not cover stays as it is, and in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_of_one_engine_leaves_the_totals_of_another_alone() {
    const A: Counter = Counter::new("one.a");
    const B: Counter = Counter::new("one.b");
    const OTHER: Counter = Counter::new("other.a");
    let fixture = hurried().await;
    let add = async |store: &CosmosStore, counter: Counter, by: i64| {
        let commit = Commit::new(vec![Op::Put(draft("p", "a", "1"))]).count(counter, by);
        store.commit(commit).await.unwrap();
    };
    let resolve = async |store: &CosmosStore, prefix: &'static str, sums: &[(Counter, i64)]| {
        let counted = Counted {
            prefix: prefix.into(),
            sums: sums.to_vec(),
            ..counted(0)
        };
        while !store.resolve_doubt(&doubt(store).await, &counted).await.unwrap() {
            pause().await;
        }
    };
    let (victim, keeper) = (fixture.open().await, fixture.open().await);
    for store in [&victim, &keeper] {
        add(store, A, 5).await;
        add(store, B, 1).await;
        add(store, OTHER, 20).await;
    }
    until(&fixture, |found| {
        let is_written = |document: &&serde_json::Value| document["totals"]["other.a"] == 20;
        found.iter().filter(is_written).count() == 2
    })
    .await;
    drop(victim);
    resolve(&keeper, "one.", &[(A, 11)]).await;
    let totals = keeper.totals().await.unwrap();
    assert_eq!(
        totals.sums,
        [(A, 11), (OTHER, 40)],
        "what is not counted is 0, or another's"
    );
    let left = totals.doubt.expect("the other engine has not counted");
    assert!(!left.concerns("one.") && left.concerns("other."));

    // It is known to the handles that come later.
    add(&keeper, OTHER, 1).await;
    keeper.close().await.unwrap();
    let (victim, keeper) = (fixture.open().await, fixture.open().await);
    let totals = keeper.totals().await.unwrap();
    assert_eq!(totals.sums, [(A, 11), (OTHER, 41)]);
    assert!(
        totals
            .doubt
            .is_some_and(|left| !left.concerns("one.") && left.concerns("other."))
    );
    resolve(&keeper, "other.", &[(OTHER, 42)]).await;
    let totals = keeper.totals().await.unwrap();
    assert_eq!(totals.sums, [(A, 11), (OTHER, 42)]);
    assert!(
        totals
            .doubt
            .is_some_and(|left| !left.concerns("one.") && !left.concerns("other."))
    );

    // Another handle dies, and nothing is certain any more.
    add(&victim, A, 1).await;
    drop(victim);
    while !doubt(&keeper).await.concerns("one.") {
        pause().await;
    }
    assert!(doubt(&keeper).await.concerns("other."));
    resolve(&keeper, "one.", &[(A, 12)]).await;
    let left = doubt(&keeper).await;
    assert!(!left.concerns("one.") && left.concerns("other."));
}

/// Killed before it ever wrote its totals: that it opened its document is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_dies_after_its_first_commit_is_noticed() {
    let mut fixture = hurried().await;
    fixture.settings.counters_interval = Duration::from_millis(300);
    let victim = fixture.open().await;
    count(&victim, 5).await;
    drop(victim);
    let written = documents(&fixture).await;
    assert_eq!(written.len(), 1, "its document was there before the commit");
    assert_eq!(written[0]["settled"], serde_json::Value::Null);
    let keeper = fixture.open().await;
    resolve_doubt(&keeper, 5).await;
    assert_eq!(keeper.counters().await.unwrap(), [(N, 5)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_dies_at_rest_leaves_no_doubt() {
    let fixture = hurried().await;
    let victim = fixture.open().await;
    count(&victim, 5).await;
    let settled = until(&fixture, |found| {
        found.iter().any(|document| document["settled"] == true)
    })
    .await;
    assert_eq!(settled[0]["totals"]["n"], 5);
    drop(victim);
    let keeper = fixture.open().await;
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(500)).await;
    let totals = keeper.totals().await.unwrap();
    assert_eq!((totals.sums, totals.doubt), (vec![(N, 5)], None));
}

/// A count that other handles may have changed replaces nothing; it is reported, with its time, until a better one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_while_others_work_is_reported_and_not_applied() {
    let mut fixture = hurried().await;
    let (victim, keeper) = (fixture.open().await, fixture.open().await);
    fixture.settings.counters_idle = Duration::from_secs(3600);
    let busy = fixture.open().await;
    count(&victim, 5).await;
    drop(victim);
    count(&busy, 1).await;
    let first = doubt(&keeper).await;
    assert_eq!(first.counted, None);
    assert!(
        !keeper.resolve_doubt(&first, &counted(6)).await.unwrap(),
        "the other may count at any moment"
    );
    for store in [&keeper, &busy] {
        let told = store.totals().await.unwrap().doubt.unwrap();
        assert_eq!(told.counted, Some(counted(6)));
    }
    busy.close().await.unwrap();
    resolve_doubt(&keeper, 6).await;
    assert_eq!(
        keeper.totals().await.unwrap(),
        perennial_store::Totals::certain(vec![(N, 6)])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_not_applied_if_another_handle_counted_meanwhile() {
    let fixture = hurried().await;
    let (victim, keeper, other) = (fixture.open().await, fixture.open().await, fixture.open().await);
    count(&victim, 5).await;
    drop(victim);
    // Another handle.
    let seen = doubt(&keeper).await;
    count(&other, 1).await;
    assert!(!keeper.resolve_doubt(&seen, &counted(5)).await.unwrap());
    // The same one.
    other.close().await.unwrap();
    let seen = doubt(&keeper).await;
    count(&keeper, 1).await;
    assert!(!keeper.resolve_doubt(&seen, &counted(6)).await.unwrap());
    // An older doubt.
    let seen = doubt(&keeper).await;
    doubt(&keeper).await;
    assert!(!keeper.resolve_doubt(&seen, &counted(7)).await.unwrap());
    resolve_doubt(&keeper, 7).await;
    assert_eq!(keeper.counters().await.unwrap(), [(N, 7)]);
}

/// A handle that was frozen, and taken for dead, may have its last counts twice: that is noticed, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_was_taken_for_dead_and_goes_on_puts_totals_in_doubt_again() {
    let mut fixture = hurried().await;
    let keeper = fixture.open().await;
    // Writes nothing by itself for an hour, and is taken for dead at once.
    fixture.settings.counters_interval = Duration::from_secs(3600);
    let frozen = fixture.open().await;
    count(&frozen, 5).await;
    let container = fixture.container().await;
    let mut open = documents(&fixture).await.pop().unwrap();
    open["until"] = 1.into();
    let id = open["id"].as_str().unwrap().to_owned();
    container.replace_item("%tally", &id, open, None).await.unwrap();
    resolve_doubt(&keeper, 5).await;
    // It wakes: its five are counted, and it does not know.
    count(&frozen, 2).await;
    let told = frozen.totals().await.unwrap();
    assert!(told.doubt.is_some(), "{told:?}");
    frozen.close().await.unwrap();
    assert!(
        keeper.totals().await.unwrap().doubt.is_some(),
        "it leaves the doubt behind"
    );
    resolve_doubt(&keeper, 7).await;
    assert_eq!(keeper.counters().await.unwrap(), [(N, 7)]);
}

/// A caller that later determines that it happened does not report it to this store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_unknown_outcome_puts_totals_in_doubt() {
    let mut fixture = hurried().await;
    fixture.settings.call_timeout = Duration::from_secs(1);
    let store = fixture.open().await;
    count(&store, 1).await;
    let hang = Fault::Hang {
        executed: true,
        for_ms: 60_000,
    };
    let rule = Rule::new(hang, When::Always).on([Kind::Batch, Kind::Query, Kind::Read]);
    fixture.server.faults().add(rule);
    let commit = Commit::new(vec![Op::Put(draft("p", "a", "2"))]).count(N, 1);
    let told = store.commit(commit).await.unwrap_err();
    assert!(matches!(told, Error::UnknownOutcome(_)), "{told}");
    fixture.server.faults().reset();
    assert!(store.totals().await.unwrap().doubt.is_some());
    resolve_doubt(&store, 2).await;
    assert_eq!(
        store.totals().await.unwrap(),
        perennial_store::Totals::certain(vec![(N, 2)])
    );
}

/// Totals of a store that an earlier version has written may have been wrong for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_an_earlier_version_are_counted_once() {
    let fixture = hurried().await;
    let container = fixture.container().await;
    let common = serde_json::json!({
        "id": "common", "partition": "%tally", "commit": "c", "written": 1, "totals": { "n": 152 },
    });
    container.create_item("%tally", "common", common, None).await.unwrap();
    let store = fixture.open().await;
    assert_eq!(store.counters().await.unwrap(), [(N, 152)]);
    resolve_doubt(&store, 140).await;
    let totals = store.totals().await.unwrap();
    assert_eq!((totals.sums, totals.doubt), (vec![(N, 140)], None));
}

/// In steady work totals cost no more than before; what is new is one write before the first count and one at rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_and_completing_take_one_write_each() {
    let mut fixture = Fixture::new().await;
    fixture.settings.counters_interval = Duration::from_millis(50);
    fixture.settings.counters_idle = Duration::from_millis(500);
    let store = fixture.open().await;
    let before = fixture.server.counts();
    let writes = || fixture.server.counts().since(&before).of(Kind::Batch);
    count(&store, 1).await;
    assert_eq!(writes(), 2, "the document is opened, then the commit is made");
    let own = |found: &[serde_json::Value]| found.iter().any(|document| document["totals"]["n"] == 1);
    until(&fixture, own).await;
    let (settled, used) = (|found: &[serde_json::Value]| found[0]["settled"] == true, writes());
    assert_eq!(used, 3, "the totals are written as they always were");
    until(&fixture, settled).await;
    assert_eq!(writes(), 4);
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(writes(), 4, "a handle at rest writes nothing");
}

/// Handles come, count, leave, die and are taken for dead, at random. Whatever happened, once all are at rest the
/// totals are right, or known to be in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_right_or_in_doubt_whichever_handle_dies_when() {
    let rounds = std::env::var("PERENNIAL_DOUBT_ROUNDS").map_or(6, |text| text.parse().unwrap());
    for seed in 0..rounds {
        let fixture = hurried().await;
        let mut random = Random(seed);
        let (mut handles, mut truth, mut doubts) = (vec![fixture.open().await], 0, 0);
        for _ in 0..60 {
            let at = random.below(handles.len());
            match random.below(10) {
                0 => handles.push(fixture.open().await),
                1 if handles.len() > 1 => handles.remove(at).close().await.unwrap(),
                2 if handles.len() > 1 => drop(handles.remove(at)),
                3 => pause().await,
                4 => {
                    let totals = handles[at].totals().await.unwrap();
                    if let Some(doubt) = totals.doubt {
                        doubts += 1;
                        handles[at].resolve_doubt(&doubt, &counted(truth)).await.unwrap();
                    }
                }
                _ => {
                    let by = random.below(5) as i64 - 1;
                    count(&handles[at], by).await;
                    truth += by;
                }
            }
        }
        let is_at_rest = |document: &serde_json::Value| {
            let until = document["until"].as_u64();
            document["id"] == "common" || document["settled"] == true || until.is_some_and(|until| until < now_ms())
        };
        until(&fixture, |found| found.iter().all(is_at_rest)).await;
        let totals = handles[0].totals().await.unwrap();
        if totals.doubt.is_some() {
            doubts += 1;
            resolve_doubt(&handles[0], truth).await;
        }
        let totals = handles[0].totals().await.unwrap();
        let sum = totals.sums.iter().map(|(_, sum)| *sum).sum::<i64>();
        println!("seed {seed}: {truth} in {} handles, {doubts} doubts", handles.len());
        assert_eq!(
            (sum, totals.doubt),
            (truth, None),
            "seed {seed}: {:#?}",
            documents(&fixture).await
        );
    }
}

fn now_ms() -> u64 {
    use perennial_store::{Clock, SystemClock};
    SystemClock.now_ms()
}
