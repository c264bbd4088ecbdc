//! Whatever happens to any request of a commit, the caller gets the right result.

use crate::support::{Fixture, draft, key, one, put};
use perennial_cosmos::CosmosStore;
use perennial_cosmos_server::{Fault, Kind, Rule, When};
use perennial_store::{Commit, ConflictReason, Error, Key, Op, Partition, ScanQuery, Store};

/// Transient faults of one request.
const PASSING: [Fault; 11] = [
    Fault::LostReply,
    Fault::LostRequest,
    Fault::timeout(true),
    Fault::timeout(false),
    Fault::internal(),
    Fault::unavailable(),
    Fault::retry_with(),
    Fault::range_gone(),
    Fault::throttled(5),
    Fault::Answer {
        status: 503,
        substatus: 0,
        retry_after_ms: None,
        executed: true,
    },
    Fault::Answer {
        status: 500,
        substatus: 0,
        retry_after_ms: None,
        executed: true,
    },
];

/// Creates what a partition holds before a commit: `old-1` and `old-2`.
async fn prepare(store: &CosmosStore, partition: &str) -> Vec<Op> {
    let first = put(store, draft(partition, "old-1", r#"{"n":1}"#)).await;
    let second = put(store, draft(partition, "old-2", r#"{"n":2}"#)).await;
    vec![
        Op::Replace(draft(partition, "old-1", r#"{"n":10}"#), first),
        Op::Delete(key(partition, "old-2"), second),
    ]
}

/// A name, what is committed, and the ids and bodies that must be there afterwards.
type Case = (&'static str, Vec<Op>, Vec<(&'static str, &'static str)>);

/// Commits of every kind on what [`prepare`] made.
fn commits(partition: &str, conditions: Vec<Op>) -> Vec<Case> {
    let [replace, delete] = <[Op; 2]>::try_from(conditions).unwrap();
    let create = Op::Create(draft(partition, "new", "{}"));
    let remove = |id: &str| Op::Remove(key(partition, id));
    let (one, two, new, ten) = (
        ("old-1", r#"{"n":1}"#),
        ("old-2", r#"{"n":2}"#),
        ("new", "{}"),
        ("old-1", r#"{"n":10}"#),
    );
    vec![
        ("create", vec![create.clone()], vec![new, one, two]),
        ("put", vec![Op::Put(draft(partition, "new", "{}"))], vec![new, one, two]),
        ("replace", vec![replace.clone()], vec![ten, two]),
        ("delete", vec![delete.clone()], vec![one]),
        ("remove", vec![remove("old-2")], vec![one]),
        ("remove nothing", vec![remove("nothing")], vec![one, two]),
        (
            "only deletions",
            vec![delete.clone(), remove("old-1"), remove("nothing")],
            vec![],
        ),
        (
            "start",
            vec![create.clone(), Op::Absent(key(partition, "head"))],
            vec![new, one, two],
        ),
        ("absent", vec![Op::Absent(key(partition, "head"))], vec![one, two]),
        (
            "turn",
            vec![remove("nothing"), delete, replace, create, remove("nothing-2")],
            vec![new, ten],
        ),
    ]
}

async fn contents(store: &CosmosStore, partition: &str) -> Vec<(String, String)> {
    let page = store
        .scan(&ScanQuery::all(Partition::new(partition), 100))
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    page.records
        .iter()
        .map(|record| (record.key.id.as_str().to_owned(), text(&record.body)))
        .collect()
}

/// Makes each commit with these rules in force and expects it to succeed as if there were none.
async fn expect_success(fixture: &Fixture, name: &str, rules: &[Rule]) -> u64 {
    expect_success_of(fixture, name, rules, |_| true).await
}

async fn expect_success_of(fixture: &Fixture, name: &str, rules: &[Rule], wanted: fn(&str) -> bool) -> u64 {
    let store = fixture.open().await;
    let mut hits = 0;
    for (n, (kind, ..)) in commits("", prepare(&store, "").await).into_iter().enumerate() {
        if !wanted(kind) {
            continue;
        }
        let partition = format!("{name} {kind}");
        let (_, ops, expected) = commits(&partition, prepare(&store, &partition).await).remove(n);
        fixture.server.faults().reset();
        rules.iter().for_each(|rule| fixture.server.faults().add(rule.clone()));
        let committed = store.commit(Commit::new(ops.clone())).await;
        hits += fixture.server.faults().hits();
        fixture.server.faults().reset();
        let log = || fixture.server.log_text();
        let committed = committed.unwrap_or_else(|error| panic!("{partition}: {error}\n{}", log()));
        let leaves_evidence = ops.iter().any(|op| op.draft().is_some());
        assert!(!(committed.inferred && leaves_evidence), "{partition}");
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, body)| (id.to_string(), body.to_string()))
            .collect();
        assert_eq!(contents(&store, &partition).await, expected, "{partition}");
        for (op, version) in ops.iter().zip(committed.versions) {
            let found = store.get(op.key()).await.unwrap().map(|record| record.version);
            assert_eq!(version, found.filter(|_| op.draft().is_some()), "{partition} {op:?}");
        }
    }
    hits
}

/// One fault at every request that a commit makes, whatever it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fault_anywhere_changes_nothing() {
    let fixture = Fixture::new().await;
    for fault in PASSING {
        let mut index = 0;
        while expect_success(&fixture, &format!("{fault:?} at {index}"), &[Rule::at(index, fault)]).await > 0 {
            index += 1;
        }
        assert!(index > 0, "{fault:?} met no request");
    }
}

/// Two in a row: the request that determines the outcome of the commit fails too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_faults_in_a_row_change_nothing() {
    let fixture = Fixture::new().await;
    for fault in [Fault::LostReply, Fault::timeout(true)] {
        for index in 0..4 {
            let rules = [Rule::at(index, fault), Rule::at(index + 1, fault)];
            expect_success(&fixture, &format!("{fault:?} twice at {index}"), &rules).await;
        }
    }
}

fn always(fault: Fault, kinds: &[Kind]) -> Rule {
    Rule::new(fault, When::Always).on(kinds.iter().copied())
}

/// No reply ever comes, but the service can be queried for what it did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_recognised_though_no_reply_ever_came() {
    let fixture = Fixture::new().await;
    let rules = [always(Fault::LostReply, &[Kind::Batch])];
    // A commit that never learns that a record to be removed is missing never gets to the rest, and one that changes
    // nothing leaves no trace.
    let wanted = |kind: &str| !["only deletions", "turn", "absent"].contains(&kind);
    let hits = expect_success_of(&fixture, "always", &rules, wanted).await;
    assert!(hits > 10);
}

async fn fail(fixture: &Fixture, store: &CosmosStore, op: Op, rules: &[Rule]) -> Error {
    fixture.server.faults().reset();
    rules.iter().for_each(|rule| fixture.server.faults().add(rule.clone()));
    let outcome = one(store, op).await;
    fixture.server.faults().reset();
    outcome.unwrap_err()
}

/// The right result may be that the outcome is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_cannot_be_known_is_unknown() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let create = |id: &str| Op::Create(draft("p", id, "{}"));
    let deaf = [always(Fault::LostReply, &Kind::DOCUMENTS)];
    let error = fail(&fixture, &store, create("a"), &deaf).await;
    assert!(matches!(error, Error::UnknownOutcome(_)), "{error}");
    assert!(store.get(&key("p", "a")).await.unwrap().is_some());
    let error = fail(
        &fixture,
        &store,
        create("b"),
        &[always(Fault::LostRequest, &Kind::DOCUMENTS)],
    )
    .await;
    assert!(matches!(error, Error::UnknownOutcome(_)), "{error}");
    assert!(store.get(&key("p", "b")).await.unwrap().is_none());
}

/// Where every attempt got a reply, a commit without a trace did not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_surely_did_not_happen_is_reported_as_such() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let create = Op::Create(draft("p", "a", "{}"));
    for fault in [Fault::unavailable(), Fault::internal(), Fault::timeout(false)] {
        let error = fail(&fixture, &store, create.clone(), &[always(fault, &[Kind::Batch])]).await;
        assert!(matches!(error, Error::Unavailable(_)), "{fault:?}: {error}");
    }
    let error = fail(
        &fixture,
        &store,
        create.clone(),
        &[always(Fault::throttled(7), &[Kind::Batch])],
    )
    .await;
    assert!(
        matches!(error, Error::Throttled { retry_after } if retry_after.as_millis() == 7),
        "{error}"
    );
    assert!(store.get(&key("p", "a")).await.unwrap().is_none());
    for fault in [Fault::timeout(true), Fault::LostReply] {
        let rule = always(fault, &[Kind::Batch]);
        let id = format!("{fault:?}");
        fixture.server.faults().add(rule);
        one(&store, Op::Create(draft("p", &id, "{}"))).await.unwrap();
        fixture.server.faults().reset();
        assert!(store.get(&key("p", &id)).await.unwrap().is_some());
    }
}

/// A conflict with another commit is reported as one, although a reply was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_with_another_commit_stays_one() {
    let fixture = Fixture::new().await;
    let (store, other) = (fixture.open().await, fixture.open().await);
    for fault in [Fault::LostReply, Fault::LostRequest, Fault::timeout(true)] {
        let rule = [Rule::at(0, fault)];
        let taken: Key = key(&format!("{fault:?}"), "taken");
        let old = put(&other, draft(taken.partition.as_str(), "taken", "1")).await;
        put(&other, draft(taken.partition.as_str(), "taken", "2")).await;
        let mine = draft(taken.partition.as_str(), "taken", "mine");
        let expect = |reason| Error::Conflict { op: 0, reason };
        assert_eq!(
            fail(&fixture, &store, Op::Create(mine.clone()), &rule).await,
            expect(ConflictReason::Exists)
        );
        assert_eq!(
            fail(&fixture, &store, Op::Replace(mine.clone(), old.clone()), &rule).await,
            expect(ConflictReason::Changed)
        );
        assert_eq!(
            fail(&fixture, &store, Op::Delete(taken.clone(), old.clone()), &rule).await,
            expect(ConflictReason::Changed)
        );
        assert_eq!(
            fail(&fixture, &store, Op::Absent(taken.clone()), &rule).await,
            expect(ConflictReason::Exists)
        );
        one(&other, Op::Remove(taken)).await.unwrap();
        assert_eq!(
            fail(&fixture, &store, Op::Replace(mine, old), &rule).await,
            expect(ConflictReason::Missing)
        );
    }
}

/// A batch of one operation may be refused as a whole.
#[tokio::test]
async fn a_refusal_of_the_whole_batch_is_recognised() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let version = put(&store, draft("p", "a", "1")).await;
    let mine = draft("p", "a", "2");
    for (status, op, reason) in [
        (409, Op::Create(mine.clone()), ConflictReason::Exists),
        (404, Op::Replace(mine.clone(), version.clone()), ConflictReason::Missing),
        (412, Op::Replace(mine.clone(), version.clone()), ConflictReason::Changed),
        (412, Op::Delete(key("p", "a"), version.clone()), ConflictReason::Changed),
    ] {
        let rule = always(Fault::answer(status, 0), &[Kind::Batch]);
        assert_eq!(
            fail(&fixture, &store, op, &[rule]).await,
            Error::Conflict { op: 0, reason }
        );
    }
    fixture
        .server
        .faults()
        .add(always(Fault::answer(404, 0), &[Kind::Batch]));
    assert_eq!(one(&store, Op::Remove(key("p", "a"))).await, Ok(None));
}

/// That what it deletes is gone may be another process's doing, if the reply was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_deletes_is_inferred_if_its_reply_was_lost() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let lost = Rule::at(0, Fault::LostReply);
    let unsent = Rule::at(0, Fault::LostRequest);
    let cases = [
        ("no fault", None, false),
        ("the reply was lost", Some(lost), true),
        ("only the request was lost", Some(unsent), false),
    ];
    for (name, fault, inferred) in cases {
        for kind in ["delete", "remove", "delete and remove", "remove, and another is absent"] {
            let partition = format!("{name}: {kind}");
            let version = put(&store, draft(&partition, "a", "1")).await;
            put(&store, draft(&partition, "b", "1")).await;
            let delete = Op::Delete(key(&partition, "a"), version);
            let remove = |id: &str| Op::Remove(key(&partition, id));
            let ops = match kind {
                "delete" => vec![delete],
                "remove" => vec![remove("a")],
                "delete and remove" => vec![delete, remove("b")],
                _ => vec![remove("a"), Op::Absent(key(&partition, "c"))],
            };
            fixture.server.faults().reset();
            fault.iter().for_each(|rule| fixture.server.faults().add(rule.clone()));
            let committed = store.commit(Commit::new(ops)).await.unwrap();
            assert_eq!(
                fixture.server.faults().hits(),
                u64::from(fault.is_some()),
                "{partition}"
            );
            assert_eq!(committed.inferred, inferred, "{partition}");
            fixture.server.faults().reset();
            assert!(store.get(&key(&partition, "a")).await.unwrap().is_none());
        }
    }
    // A record that was never there is removed for certain.
    let committed = store.commit(Commit::new(vec![Op::Remove(key("p", "nothing"))])).await;
    assert!(!committed.unwrap().inferred);
}

/// The reply to the next batch is lost, and the next request of this kind comes late.
fn lose_a_reply_and_delay(fixture: &Fixture, next: Kind) {
    let late = Fault::Delay {
        before_ms: 500,
        after_ms: 0,
    };
    let faults = fixture.server.faults();
    faults.reset();
    faults.add(always(Fault::LostReply, &[Kind::Batch]).times(1));
    faults.add(always(late, &[next]).times(1));
}

/// Another handle has overwritten a commit's records before its writer could determine that it happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_recognised_though_it_was_overwritten() {
    let fixture = Fixture::new().await;
    let (store, other) = (fixture.open().await, fixture.open().await);
    let old = put(&store, draft("p", "head", "1")).await;
    // The reply is lost, and the SDK's retry comes late.
    lose_a_reply_and_delay(&fixture, Kind::Batch);
    let mine = tokio::spawn(async move { one(&store, Op::Replace(draft("p", "head", "mine"), old)).await });
    let seen = loop {
        let record = other.get(&key("p", "head")).await.unwrap().unwrap();
        if record.body == "mine" && fixture.server.faults().hits() == 2 {
            break record.version;
        }
    };
    let mut theirs = seen;
    for n in 0..5 {
        let op = Op::Replace(draft("p", "head", &format!("theirs {n}")), theirs);
        theirs = one(&other, op).await.unwrap().unwrap();
    }
    // It happened, and what it wrote has no version any more.
    assert_eq!(mine.await.unwrap(), Ok(None));
    let found = other.get(&key("p", "head")).await.unwrap().unwrap();
    assert_eq!((&*found.body, found.version), (&b"theirs 4"[..], theirs));
}

/// A record was created, found by the retry, and deleted before its writer could be determined: that is not a conflict,
/// for it may have been this commit's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_gone_before_it_is_read_is_not_a_conflict() {
    let fixture = Fixture::new().await;
    let (store, other) = (fixture.open().await, fixture.open().await);
    lose_a_reply_and_delay(&fixture, Kind::Query);
    let mine = tokio::spawn(async move { one(&store, Op::Create(draft("p", "message", "mine"))).await });
    while fixture.server.faults().hits() < 2 {
        other.get(&key("p", "message")).await.unwrap();
    }
    one(&other, Op::Remove(key("p", "message"))).await.unwrap();
    let outcome = mine.await.unwrap();
    assert!(matches!(outcome, Err(Error::UnknownOutcome(_))), "{outcome:?}");
}

/// Totals count a commit once, whatever became of its replies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_count_once() {
    let fixture = Fixture::new().await;
    let counter = perennial_store::Counter::new("n");
    let lose = Rule::new(
        Fault::LostReply,
        When::Chance {
            per_million: 200_000,
            seed: 7,
        },
    );
    for round in 1..=3_i64 {
        let store = fixture.open().await;
        fixture.server.faults().add(lose.clone());
        for n in 0..10 {
            let op = Op::Create(draft("p", &format!("{round}-{n}"), "{}"));
            store
                .commit(Commit::new(vec![op]).count(counter.clone(), 1))
                .await
                .unwrap();
        }
        store.close().await.unwrap();
        fixture.server.faults().reset();
        let store = fixture.open().await;
        assert_eq!(store.counters().await.unwrap(), [(counter.clone(), round * 10)]);
        store.close().await.unwrap();
    }
}
