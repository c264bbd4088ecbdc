//! Commits that wait for a read.

use crate::engine::Failure;
use crate::fixture::{Fixture, WORK, create, draft, key, listed, put, queued};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use perennial_kv::{EngineError, Settings, Table};
use perennial_store::{
    Commit, Committed, ConflictReason, DueQuery, Error, ListFilter, OnDurable, Op, Refused, Result, Store,
};
use std::io::ErrorKind;
use std::sync::Arc;

/// A commit after its first poll.
fn poll<'a>(fixture: &'a Fixture, commit: Commit) -> BoxFuture<'a, Result<Committed>> {
    let mut committing = fixture.store.commit(commit);
    assert!(committing.as_mut().now_or_never().is_none());
    committing
}

/// The place of a commit in the order, by the version of its first record.
fn place(committed: &Result<Committed>) -> u64 {
    committed.as_ref().unwrap().version(0).unwrap().as_number().unwrap()
}

fn conflict(op: usize, reason: ConflictReason) -> Result<Committed> {
    Err(Error::Conflict { op, reason })
}

#[tokio::test]
async fn a_commit_that_waits_delays_only_those_that_name_its_records() {
    let fixture = Fixture::new().await;
    fixture.control.hold("x");
    let first = poll(&fixture, put(&["x", "y"], "first"));
    fixture.control.until_waiting(1).await;
    let second = poll(&fixture, put(&["y", "z"], "second"));
    let third = poll(&fixture, put(&["z"], "third"));
    // Neither the first commit's records nor those of a commit that waits for it.
    let other = fixture.store.commit(put(&["w"], "other")).await;
    assert_eq!(fixture.body("w").await.unwrap(), "other");
    for id in ["y", "z"] {
        assert!(fixture.body(id).await.is_none(), "{id}");
    }
    fixture.control.release("x");
    // Awaited in reverse, so that none is driven by another one's caller.
    let (third, second, first) = (third.await, second.await, first.await);
    assert!(place(&other) < place(&first) && place(&first) < place(&second) && place(&second) < place(&third));
    for (id, body) in [("x", "first"), ("y", "second"), ("z", "third")] {
        assert_eq!(fixture.body(id).await.unwrap(), body);
    }
}

#[tokio::test]
async fn later_commits_build_on_the_one_that_waits() {
    let fixture = Fixture::new().await;
    fixture.put("old", "1").await;
    let version = fixture.version("old").await;
    fixture.control.hold("old");
    let replace = |body: &str| Commit::new(vec![Op::Replace(draft("old", body), version.clone())]);
    let first = poll(&fixture, replace("2"));
    let late = poll(&fixture, replace("3"));
    let create_again = poll(&fixture, create(&["old"], "4"));
    let delete = poll(&fixture, Commit::new(vec![Op::Remove(key("old"))]));
    let missing = poll(&fixture, replace("5"));
    let absent = poll(&fixture, create(&["old"], "6"));
    fixture.control.release("old");
    first.await.unwrap();
    assert_eq!(late.await, conflict(0, ConflictReason::Changed));
    assert_eq!(create_again.await, conflict(0, ConflictReason::Exists));
    delete.await.unwrap();
    assert_eq!(missing.await, conflict(0, ConflictReason::Missing));
    absent.await.unwrap();
    assert_eq!(fixture.body("old").await.unwrap(), "6");
}

/// A record is read, then changed by a commit that came before, and only then is the read used: that must not happen.
#[tokio::test]
async fn a_commit_does_not_use_what_it_read_before_an_earlier_one_changed_it() {
    let fixture = Fixture::new().await;
    fixture.put("a", "1").await;
    fixture.put("b", "1").await;
    let version = fixture.version("a").await;
    fixture.control.hold("b");
    let first = poll(&fixture, put(&["a", "b"], "2"));
    fixture.control.until_waiting(1).await;
    fixture.control.take_rounds();
    let stale = poll(&fixture, Commit::new(vec![Op::Replace(draft("a", "3"), version)]));
    assert_eq!(fixture.control.take_rounds(), 0, "it reads when it is its turn");
    fixture.control.release("b");
    assert_eq!(stale.await, conflict(0, ConflictReason::Changed));
    first.await.unwrap();
    assert_eq!(fixture.body("a").await.unwrap(), "2");
}

#[tokio::test]
async fn commits_whose_callers_are_gone_take_effect_whole_and_in_order() {
    let fixture = Fixture::new().await;
    fixture.control.hold("x");
    drop(poll(&fixture, create(&["x", "y"], "1")));
    drop(poll(&fixture, create(&["y", "z"], "2")));
    drop(poll(&fixture, put(&["y", "z"], "3")));
    let last = poll(&fixture, create(&["z", "w"], "4"));
    fixture.control.until_waiting(1).await;
    fixture.control.release("x");
    assert_eq!(last.await, conflict(0, ConflictReason::Exists));
    // Everything that was accepted before this one is durable with it.
    fixture.put("end", "").await;
    for (id, body) in [("x", "1"), ("y", "3"), ("z", "3")] {
        assert_eq!(fixture.body(id).await.unwrap(), body, "{id}");
    }
}

#[tokio::test]
async fn an_order_returns_when_it_is_accepted_and_calls_follow_that_order() {
    let fixture = Fixture::new().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let call = |name: &'static str| -> OnDurable {
        let calls = Arc::clone(&calls);
        Box::new(move |outcome| calls.lock().push((name, outcome.is_ok())))
    };
    fixture.control.hold("x");
    let order = |commit, name| {
        let mut ordering = fixture.store.order(commit, call(name));
        assert!(ordering.as_mut().now_or_never().is_none());
        ordering
    };
    let first = order(create(&["x"], "1"), "first");
    let second = order(put(&["x"], "2"), "second");
    let refused = order(create(&["x"], "3"), "refused");
    drop(order(put(&["x"], "4"), "dropped"));
    fixture.store.order(put(&["y"], "5"), call("other")).await.unwrap();
    fixture.control.until_waiting(1).await;
    fixture.control.release("x");
    first.await.unwrap();
    second.await.unwrap();
    let Err(Refused { error, on_durable }) = refused.await else {
        panic!("it creates a record that exists")
    };
    assert_eq!(Err(error), conflict(0, ConflictReason::Exists));
    fixture.put("x", "6").await;
    on_durable(Ok(Committed::default()));
    let names = ["other", "first", "second", "dropped", "refused"];
    assert_eq!(*calls.lock(), names.map(|name| (name, true)));
}

#[tokio::test]
async fn a_relaxed_commit_that_waited_is_seen_at_once() {
    let fixture = Fixture::new().await;
    fixture.control.hold("x");
    let first = poll(&fixture, Commit::new(vec![Op::Create(queued("x", 1))]).relaxed());
    let second = poll(&fixture, Commit::new(vec![Op::Put(listed("x", "new"))]).relaxed());
    let due = || async {
        fixture
            .store
            .due(&DueQuery::new(&WORK, 0, 10))
            .await
            .unwrap()
            .records
            .len()
    };
    // It waits for neither of them: they have not returned.
    let list = fixture.store.list(&ListFilter::kind("thing"), None, 10).await.unwrap();
    assert_eq!((list.entries.len(), due().await), (0, 0));
    fixture.control.until_waiting(1).await;
    fixture.control.hold_writes(true);
    fixture.control.release("x");
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(fixture.body("x").await.unwrap(), "listed");
    assert_eq!(due().await, 0);
    fixture.control.hold_writes(false);
    let list = fixture.store.list(&ListFilter::kind("thing"), None, 10).await.unwrap();
    assert_eq!(list.entries.len(), 1);
}

#[tokio::test]
async fn a_read_that_fails_refuses_its_commit_and_no_other() {
    let fixture = Fixture::new().await;
    fixture.put("x", "1").await;
    let error = EngineError::Io(ErrorKind::TimedOut, "no reply".to_owned());
    for failure in [Failure::Error(error), Failure::Panic] {
        fixture.control.hold("x");
        let first = poll(&fixture, put(&["x", "y"], "2"));
        let second = poll(&fixture, put(&["y"], "3"));
        fixture.control.until_waiting(1).await;
        fixture.control.fail_read(failure);
        fixture.control.release("x");
        let outcome = first.await;
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
        second.await.unwrap();
        assert_eq!(fixture.body("x").await.unwrap(), "1");
        assert_eq!(fixture.body("y").await.unwrap(), "3");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_can_be_overwritten_and_not_created() {
    let fixture = Fixture::new().await;
    let corrupt = || Failure::Error(EngineError::Corrupt("a bad block".to_owned()));
    fixture.control.fail_read(corrupt());
    let outcome = fixture.store.commit(create(&["x"], "1")).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    fixture.control.fail_read(corrupt());
    fixture.store.commit(put(&["x"], "2")).await.unwrap();
    assert_eq!(fixture.body("x").await.unwrap(), "2");
}

#[tokio::test]
async fn a_commit_whose_records_are_known_reads_nothing() {
    let fixture = Fixture::with(Settings::default()).await;
    let committed = fixture.store.commit(create(&["x", "y"], "1")).await.unwrap();
    assert_eq!(fixture.control.take_rounds(), 1, "both records in all tables at once");
    let version = committed.version(0).unwrap().clone();
    let replace = Commit::new(vec![Op::Replace(draft("x", "2"), version.clone())]);
    fixture.store.commit(replace.clone()).await.unwrap();
    assert_eq!(
        fixture.store.commit(replace).await,
        conflict(0, ConflictReason::Changed)
    );
    // What is known to be in vain is refused before the rest is read, and what follows an unknown record is not.
    let ops = |first, second| Commit::new(vec![first, second]);
    let vain = Op::Delete(key("x"), version);
    let unknown = || Op::Create(draft("unknown", "1"));
    let outcome = fixture.store.commit(ops(vain.clone(), unknown())).await;
    assert_eq!(outcome, conflict(0, ConflictReason::Changed));
    assert_eq!(fixture.control.take_rounds(), 0);
    let outcome = fixture.store.commit(ops(unknown(), vain)).await;
    assert_eq!(outcome, conflict(1, ConflictReason::Changed));
    assert_eq!(fixture.control.take_rounds(), 1);
}

#[tokio::test]
async fn a_cold_record_moves_between_tables_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let drafts = [draft("a", "1"), listed("a", "new"), queued("a", 1), listed("a", "done")];
    for before in &drafts {
        for after in &drafts {
            for draft in [before, after] {
                fixture
                    .store
                    .commit(Commit::new(vec![Op::Put(draft.clone())]))
                    .await
                    .unwrap();
            }
            let count = |table| fixture.disk.count(table);
            let records: usize = [Table::Records, Table::Queue, Table::Listed].map(count).iter().sum();
            assert_eq!(records, 1, "a record is in one table");
            fixture
                .store
                .commit(Commit::new(vec![Op::Remove(key("a"))]))
                .await
                .unwrap();
            for table in [Table::Records, Table::Queue, Table::Listed, Table::Index] {
                assert_eq!(count(table), 0, "{table:?}");
            }
        }
    }
}
