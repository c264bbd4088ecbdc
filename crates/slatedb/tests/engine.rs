//! What a store rests on: nothing is seen before it is durable, and one opening ends another.

#![allow(clippy::unwrap_used)]

mod support;

use object_store::memory::InMemory;
use object_store::path::Path;
use perennial_kv::{EngineError, OrderedKv, Span, Table, View};
use perennial_slatedb::{Bucket, Deadline, OpenError, Opening, Settings, Shard, SlateEngine};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::gate::{Gate, Mode};
use support::{batch, delete, get, open, put};

/// A bucket with a gate before the objects whose names hold a text.
fn gated(name: &str) -> (Bucket, Gate) {
    let gate = Gate::new(Arc::new(InMemory::new()), name);
    let bucket = Bucket::new(Arc::new(gate.clone()), Path::from("p"), "memory://gated");
    (bucket, gate)
}

fn scan(view: &dyn View) -> Vec<String> {
    let entries = view.scan(Table::Records, &Span::all(), usize::MAX).unwrap();
    entries
        .iter()
        .map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_seen_when_it_is_durable_and_as_a_whole() {
    let (bucket, gate) = gated("/wal/");
    let engine = Arc::new(open(&bucket).await);
    engine.write(batch([put("a", "1"), put("b", "1")]), true).unwrap();
    gate.set(Mode::Hold);
    let writer = std::thread::spawn({
        let engine = engine.clone();
        move || engine.write(batch([put("a", "2"), delete("b"), put("c", "2")]), true)
    });
    gate.arrival().await;
    let during = engine.view();
    assert_eq!(
        (get(&engine, "a").as_deref(), get(&engine, "b").as_deref()),
        (Some("1"), Some("1"))
    );
    assert_eq!(
        (get(&engine, "c"), scan(&*during)),
        (None, vec!["a".to_owned(), "b".to_owned()])
    );
    gate.set(Mode::Open);
    writer.join().unwrap().unwrap();
    assert_eq!((get(&engine, "a").as_deref(), get(&engine, "b")), (Some("2"), None));
    assert_eq!(scan(&*engine.view()), ["a", "c"]);
    // A view stays what it was.
    assert_eq!(scan(&*during), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsynced_batch_is_seen_when_its_write_has_returned() {
    let (bucket, gate) = gated("/wal/");
    let engine = open(&bucket).await;
    gate.set(Mode::Hold);
    engine.write(batch([put("a", "1")]), false).unwrap();
    assert_eq!(get(&engine, "a").as_deref(), Some("1"));
    gate.set(Mode::Open);
    engine.write(batch([]), true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_failed_is_never_seen() {
    let (bucket, gate) = gated("/wal/");
    let over = Arc::new(AtomicBool::new(false));
    let deadline = Deadline::new({
        let over = over.clone();
        move || match over.load(Ordering::SeqCst) {
            true => Duration::ZERO,
            false => Duration::from_secs(60),
        }
    });
    let opening = Opening::new(Settings::default()).deadline(deadline);
    let engine = Arc::new(opening.open(&bucket, Shard(0)).await.unwrap());
    engine.write(batch([put("a", "1")]), true).unwrap();
    gate.set(Mode::Hold);
    let writer = std::thread::spawn({
        let engine = engine.clone();
        move || engine.write(batch([put("a", "2")]), true)
    });
    gate.arrival().await;
    over.store(true, Ordering::SeqCst);
    gate.set(Mode::Fail);
    let error = writer.join().unwrap().unwrap_err();
    assert!(
        matches!(&error, EngineError::Io(_, why) if why.contains("the network is down")),
        "{error}"
    );
    let later = engine.write(batch([put("b", "1")]), true).unwrap_err();
    assert_eq!(later, error);
    let read = engine.get(Table::Records, b"a");
    assert!(!matches!(&read, Ok(Some(value)) if value != "1"), "{read:?}");
    let sent = gate.sent();
    drop(engine);
    assert_eq!(gate.sent(), sent, "nothing is sent when the time is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_durable_survives_a_crash_and_nothing_else() {
    let bucket = support::bucket();
    let engine = open(&bucket).await;
    engine.write(batch([put("a", "1"), put("b", "1")]), true).unwrap();
    engine.write(batch([delete("b")]), true).unwrap();
    engine.write(batch([put("c", "1")]), false).unwrap();
    // No drop: as if the process were killed.
    std::mem::forget(engine);
    let engine = open(&bucket).await;
    assert_eq!(scan(&*engine.view()), ["a"]);
    drop(engine);
    let engine = open(&bucket).await;
    assert_eq!(scan(&*engine.view()), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_opening_ends_the_first() {
    let bucket = support::bucket();
    let first = open(&bucket).await;
    first.write(batch([put("a", "first")]), true).unwrap();
    let second = open(&bucket).await;
    assert!(second.epoch() > first.epoch());
    let error = first
        .write(batch([put("a", "late"), put("b", "late")]), true)
        .unwrap_err();
    assert!(
        matches!(&error, EngineError::Fenced(why) if why.contains("another process")),
        "{error}"
    );
    assert!(matches!(first.watch().await, EngineError::Fenced(_)));
    assert!(matches!(first.get(Table::Records, b"a"), Err(EngineError::Fenced(_))));
    assert_eq!((get(&second, "a").as_deref(), get(&second, "b")), (Some("first"), None));
    drop(first);
    second.write(batch([put("a", "second")]), true).unwrap();
    drop(second);
    assert_eq!(get(&open(&bucket).await, "a").as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_reply_is_lost_is_no_fence() {
    let (bucket, gate) = gated("/wal/");
    let engine = Arc::new(open(&bucket).await);
    gate.set(Mode::LoseReply);
    let writer = std::thread::spawn({
        let engine = engine.clone();
        move || engine.write(batch([put("a", "1")]), true)
    });
    gate.arrival().await;
    gate.set(Mode::Open);
    writer.join().unwrap().unwrap();
    assert_eq!(get(&engine, "a").as_deref(), Some("1"));
}

/// Opens a database while another process opens it between the read of its epoch and the claim of the next one. Returns
/// both engines.
async fn race(still_ours: bool) -> (SlateEngine, Result<SlateEngine, OpenError>) {
    let objects = Arc::new(InMemory::new());
    // The log is looked at in between.
    let gate = Gate::new(objects.clone(), "/wal/");
    let slow = Bucket::new(Arc::new(gate.clone()), Path::from("p"), "memory://slow");
    let quick = Bucket::new(objects, Path::from("p"), "memory://quick");
    gate.set(Mode::Hold);
    let late = tokio::spawn(async move {
        let opening = Opening::new(Settings::default()).still_ours(move || still_ours);
        opening.open(&slow, Shard(0)).await
    });
    gate.arrival().await;
    let first = open(&quick).await;
    gate.set(Mode::Open);
    (first, late.await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_was_overtaken_tries_again_only_while_it_owns_the_database() {
    let (first, late) = race(false).await;
    let error = late.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Fenced { .. }), "{error}");
    first.write(batch([put("a", "1")]), true).unwrap();
    let (first, late) = race(true).await;
    late.unwrap().write(batch([put("a", "2")]), true).unwrap();
    assert!(matches!(
        first.write(batch([put("a", "1")]), true),
        Err(EngineError::Fenced(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_by_an_engine_whose_time_is_over_when_it_opens() {
    let (bucket, gate) = gated("never");
    let opening = Opening::new(Settings::default()).deadline(Deadline::new(|| Duration::ZERO));
    let error = opening.open(&bucket, Shard(0)).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("the time in which"), "{error}");
    assert_eq!(gate.sent(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_an_error_at_once() {
    let (bucket, gate) = gated("/db/");
    gate.set(Mode::Deny);
    let error = Opening::new(Settings::default())
        .open(&bucket, Shard(0))
        .await
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, OpenError::Denied { .. }), "{error}");
    assert!(
        error.to_string().contains("check that its credentials are right"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_hangs_ends_an_opening() {
    let (bucket, gate) = gated("/db/");
    gate.set(Mode::Hold);
    let settings = Settings {
        request_timeout: Duration::from_millis(50),
        open_timeout: Duration::from_millis(300),
        ..Settings::default()
    };
    let error = Opening::new(settings)
        .open(&bucket, Shard(0))
        .await
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, OpenError::Unavailable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_does_not_end_is_an_error() {
    let (bucket, gate) = gated("/wal/");
    let settings = Settings {
        write_timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let engine = Opening::new(settings).open(&bucket, Shard(0)).await.unwrap();
    gate.set(Mode::Hold);
    let error = engine.write(batch([put("a", "1")]), true).unwrap_err();
    assert!(
        matches!(error, EngineError::Io(std::io::ErrorKind::TimedOut, _)),
        "{error}"
    );
    assert_eq!(get(&engine, "a"), None);
    // Even if it is durable in the end, this engine does not say so.
    gate.set(Mode::Open);
    assert_eq!(engine.write(batch([put("b", "1")]), true).unwrap_err(), error);
    assert_eq!(get(&engine, "a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_hangs_does_not_hold_a_drop() {
    let (bucket, gate) = gated("/db/");
    let engine = open(&bucket).await;
    engine.write(batch([put("a", "1")]), true).unwrap();
    gate.set(Mode::Hold);
    let closing = engine.closing();
    drop(engine);
    assert!(futures::FutureExt::now_or_never(closing.clone().closed()).is_none());
    gate.set(Mode::Open);
    closing.closed().await;
    assert_eq!(get(&open(&bucket).await, "a").as_deref(), Some("1"));
}

#[test]
fn an_engine_outlives_the_runtime_that_opened_it() {
    let bucket = support::bucket();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let opener = runtime();
    let engine = opener.block_on(open(&bucket));
    drop(opener);
    engine.write(batch([put("a", "1")]), true).unwrap();
    assert_eq!(get(&engine, "a").as_deref(), Some("1"));
    // Dropped by a runtime, too.
    runtime().block_on(async move { drop(engine) });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_is_dropped_leaves_nothing_behind() {
    let (bucket, gate) = gated("/wal/");
    gate.set(Mode::Hold);
    let opening = Opening::new(Settings::default());
    {
        let mut opening = std::pin::pin!(opening.open(&bucket, Shard(0)));
        tokio::select! {
            _ = &mut opening => panic!("it cannot be opened"),
            () = gate.arrival() => {}
        }
    }
    gate.set(Mode::Open);
    let engine = open(&bucket).await;
    engine.write(batch([put("a", "1")]), true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_stay_in_their_table_and_their_limit() {
    let engine = open(&support::bucket()).await;
    let writes = (0..100).map(|number| put(&format!("{number:03}"), "x"));
    engine.write(writes.collect(), true).unwrap();
    let view = engine.view();
    let scan = |from: &str, to: Option<&str>, limit| {
        let span = Span {
            from: from.into(),
            to: to.map(Into::into),
        };
        let entries = view.scan(Table::Records, &span, limit).unwrap();
        entries.len()
    };
    assert_eq!(scan("", None, 7), 7);
    assert_eq!(scan("", None, 1000), 100);
    assert_eq!(scan("050", Some("060"), 1000), 10);
    assert_eq!((scan("060", Some("050"), 10), scan("", None, 0)), (0, 0));
    for table in [Table::Queue, Table::Listed, Table::Index, Table::Meta] {
        assert_eq!(view.scan(table, &Span::all(), 10).unwrap(), []);
    }
}
