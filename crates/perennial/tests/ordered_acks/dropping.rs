//! Dropping the last handle waits for the acknowledgements that have returned.

use crate::calls::{all_work, at_work};
use crate::closing::{ack_both, check_both};
use crate::gated::GatedDisk;
use duroxide::providers::Provider;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use perennial_scenarios::calls::completed;
use perennial_workflow::{Settings, Workflows};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a drop is waited for that must not return yet.
const WAIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn dropping_the_last_handle_waits_until_what_was_acknowledged_is_durable() {
    let disk = GatedDisk::default();
    let store = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    let mut held = None;
    ack_both(&store, || held = Some(disk.hold())).await;
    let held = held.unwrap();
    held.reached(1).await;
    let (tell, dropped) = channel();
    let dropping = std::thread::spawn(move || {
        drop(store);
        tell.send(()).ok();
    });
    assert!(dropped.recv_timeout(WAIT).is_err(), "the drop returned before the sync");
    drop(held);
    dropping.join().unwrap();
    // A power cut takes what was not synced.
    disk.memory.crash();
    let again = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    check_both(&again).await;
}

#[tokio::test]
async fn dropping_the_last_handle_of_a_directory_keeps_what_was_acknowledged() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}", directory.path().join("store").display());
        let store = perennial::open(&url).await.unwrap();
        ack_both(&store, || {}).await;
        drop(store);
        check_both(&perennial::open(&url).await.unwrap()).await;
    }
}

/// Stops the first count of an activity that has ended, which is made when its ack is durable.
struct StopsAtCount(Arc<Stop>);

struct Stop {
    came: Sender<()>,
    /// Tells that the drop has returned.
    dropped: Mutex<Option<Receiver<()>>>,
    is_overtaken: AtomicBool,
}

impl CounterFn for Stop {
    fn increment(&self, _: u64) {
        let Some(dropped) = self.dropped.lock().unwrap().take() else {
            return;
        };
        self.came.send(()).unwrap();
        let is_overtaken = dropped.recv_timeout(WAIT).is_ok();
        self.is_overtaken.store(is_overtaken, Ordering::SeqCst);
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for StopsAtCount {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "perennial_workflow_activities_total" => Counter::from_arc(Arc::clone(&self.0)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What follows a durable ack runs on the store's own thread, on the engine. It must not be the last to use the engine: the
/// directory would still be in use when the drop has returned, and other acks not be durable.
#[tokio::test]
async fn dropping_the_last_handle_waits_for_what_follows_an_ack() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let ((came, comes), (tell, dropped)) = (channel(), channel());
    let stop = Arc::new(Stop {
        came,
        dropped: Mutex::new(Some(dropped)),
        is_overtaken: AtomicBool::new(false),
    });
    let recorder = StopsAtCount(Arc::clone(&stop));
    let below = perennial_fjall::open(&path, perennial_fjall::Settings::default()).unwrap();
    let store = {
        let _recorder = metrics::set_default_local_recorder(&recorder);
        Workflows::open(Arc::new(below), Settings::default()).await.unwrap()
    };
    let work = at_work(&store, "i", 2).await;
    for (id, token, _) in &work {
        store.ack_work_item(token, Some(completed("i", *id))).await.unwrap();
    }
    comes.recv().unwrap();
    drop(store);
    tell.send(()).ok();
    let below = perennial_fjall::open(&path, perennial_fjall::Settings::default()).unwrap();
    let store = Workflows::open(Arc::new(below), Settings::default()).await.unwrap();
    assert!(!stop.is_overtaken.load(Ordering::SeqCst), "the drop returned first");
    assert!(all_work(&store).await.is_empty(), "both acks are durable");
}
