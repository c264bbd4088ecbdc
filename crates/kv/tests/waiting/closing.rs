//! Closing, breaking and dropping a store while commits wait for a read.

use crate::engine::{Control, Failure};
use crate::fixture::{Fixture, create, key, open, put};
use futures::FutureExt;
use perennial_kv::{EngineError, MemoryDisk, Settings};
use perennial_store::{Committed, Error, Health, OnDurable, Refused, Result, Store};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Commits of which the first waits for a read of `x`, the others for it.
async fn in_line(fixture: &Fixture) -> Vec<tokio::task::JoinHandle<Result<Committed>>> {
    fixture.control.hold("x");
    let mut commits = Vec::new();
    for ids in [&["x", "y"][..], &["y"], &["y", "z"]] {
        let store = Arc::clone(&fixture.store);
        let mut committing = Box::pin(async move { store.commit(put(ids, "waits")).await });
        assert!(committing.as_mut().now_or_never().is_none());
        commits.push(tokio::spawn(committing));
    }
    fixture.control.until_waiting(1).await;
    commits
}

async fn outcomes(commits: Vec<tokio::task::JoinHandle<Result<Committed>>>) -> Vec<Error> {
    let mut outcomes = Vec::new();
    for commit in commits {
        outcomes.push(commit.await.unwrap().unwrap_err());
    }
    outcomes
}

/// Commits of `v` and `w`, which are accepted when this returns.
async fn accept(fixture: &Fixture) -> oneshot::Receiver<Result<Committed>> {
    fixture.store.commit(create(&["v"], "relaxed").relaxed()).await.unwrap();
    let (sender, receiver) = oneshot::channel();
    let on_durable: OnDurable = Box::new(move |outcome| drop(sender.send(outcome)));
    fixture.store.order(put(&["w"], "accepted"), on_durable).await.unwrap();
    receiver
}

#[tokio::test]
async fn closing_refuses_the_commits_that_wait_and_finishes_the_others() {
    let fixture = Fixture::new().await;
    fixture.control.hold_writes(true);
    let accepted = accept(&fixture).await;
    let commits = in_line(&fixture).await;
    let mut closing = fixture.store.close();
    assert!(closing.as_mut().now_or_never().is_none());
    let outcome = fixture.store.commit(put(&["x"], "late")).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    fixture.control.hold_writes(false);
    accepted.await.unwrap().unwrap();
    fixture.control.release("x");
    for error in outcomes(commits).await {
        assert!(
            matches!(&error, Error::Closed(why) if why.contains("it was closed")),
            "{error:?}"
        );
    }
    closing.await.unwrap();
    for id in ["v", "w"] {
        let outcome = fixture.store.get(&key(id)).await;
        assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    }
    let store = open(&fixture.disk, &fixture.control, Settings::default()).await;
    for (id, is_there) in [("v", true), ("w", true), ("x", false), ("y", false), ("z", false)] {
        assert_eq!(store.get(&key(id)).await.unwrap().is_some(), is_there, "{id}");
    }
}

#[tokio::test]
async fn a_write_that_fails_meanwhile_refuses_the_commits_that_wait() {
    let fixture = Fixture::new().await;
    let commits = in_line(&fixture).await;
    let on_durable: OnDurable = Box::new(|_| panic!("it was not ordered"));
    let mut ordering = fixture.store.order(put(&["z"], "waits"), on_durable);
    assert!(ordering.as_mut().now_or_never().is_none());
    fixture.disk.fail_writes("no space left on device");
    let outcome = fixture.store.commit(put(&["w"], "breaks")).await;
    assert!(matches!(outcome, Err(Error::UnknownOutcome(_))), "{outcome:?}");
    fixture.control.release("x");
    for error in outcomes(commits).await {
        assert!(
            matches!(&error, Error::Closed(why) if why.contains("no space")),
            "{error:?}"
        );
    }
    let Err(Refused { error, .. }) = ordering.await else {
        panic!("it was ordered on a broken store")
    };
    assert!(matches!(error, Error::Closed(_)), "{error:?}");
    fixture.store.close().await.unwrap();
}

#[tokio::test]
async fn a_read_that_finds_another_owner_ends_the_store() {
    let fixture = Fixture::new().await;
    let commits = in_line(&fixture).await;
    let fenced = EngineError::Fenced("another process".to_owned());
    fixture.control.fail_read(Failure::Error(fenced));
    fixture.control.release("x");
    for error in outcomes(commits).await {
        assert!(matches!(error, Error::Fenced(_)), "{error:?}");
    }
    assert!(matches!(fixture.store.health().now(), Health::Fenced(_)));
}

/// Nothing else runs on this thread: if the drop waited for the engine, the engine would never be released.
#[tokio::test]
async fn dropping_a_store_waits_neither_for_reads_nor_for_writes() {
    let fixture = Fixture::new().await;
    fixture.control.hold_writes(true);
    drop(accept(&fixture).await);
    fixture.control.hold("x");
    drop(fixture.store.commit(put(&["x"], "waits")).now_or_never());
    fixture.control.until_waiting(1).await;
    let Fixture { disk, control, store } = fixture;
    drop(store);
    control.hold_writes(false);
    control.release("x");
    control.until_ended().await;
    disk.crash();
    let store = open(&disk, &control, Settings::default()).await;
    assert!(store.get(&key("v")).await.unwrap().is_some());
    assert!(store.get(&key("w")).await.unwrap().is_some());
    assert!(store.get(&key("x")).await.unwrap().is_none(), "it was not accepted");
}

#[tokio::test]
async fn many_commits_in_line_are_refused_when_the_runtime_ends() {
    let disk = MemoryDisk::default();
    let control = Control::new(&disk);
    let settings = Settings {
        recent_records: 0,
        blocking_reads: 1,
        ..Settings::default()
    };
    let store = open(&disk, &control, settings).await;
    control.hold("x");
    let key = key("x");
    let mut reading = store.get(&key);
    assert!(reading.as_mut().now_or_never().is_none());
    control.until_waiting(1).await;
    // The first has no thread; the others stand behind it.
    let mut commits: Vec<_> = (0..20_000).map(|_| store.commit(put(&["y"], ""))).collect();
    for commit in &mut commits {
        assert!(commit.as_mut().now_or_never().is_none());
    }
    // The one thread ends its read, and goes on with what waits. A runtime that ends lets it.
    control.end_runtime();
    control.release("x");
    assert_eq!(reading.await, Ok(None));
    for commit in commits {
        let outcome = commit.await;
        assert!(matches!(outcome, Ok(_) | Err(Error::Closed(_))), "{outcome:?}");
    }
    let outcome = store.commit(put(&["z"], "")).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
}
