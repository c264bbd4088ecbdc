//! A clock that is set back by an hour.

use crate::calls::*;
use crate::gate::Gate;
use async_trait::async_trait;
use duroxide::providers::{Provider, TagFilter};
use perennial_kv::MemoryDisk;
use perennial_store::{Clock, SystemClock};
use perennial_workflow::Workflows;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub struct Wrong {
    by_ms: AtomicU64,
}

impl Wrong {
    pub fn put_back_an_hour(&self) {
        self.by_ms.fetch_add(3_600_000, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Wrong {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() - self.by_ms.load(Ordering::SeqCst)
    }

    async fn sleep(&self, duration: Duration) {
        pause(duration).await;
    }
}

async fn fresh_on_wrong_clock() -> (Workflows, Arc<Wrong>) {
    let clock = Arc::new(Wrong::default());
    let store = Gate::open(&MemoryDisk::default());
    let store = Workflows::open_with_clock(store, Default::default(), clock.clone()).await;
    (store.unwrap(), clock)
}

#[tokio::test]
async fn waiting_ends_nevertheless() {
    let (store, clock) = fresh_on_wrong_clock().await;
    let owner = owner_of("a", LEASE);
    let turn = store.fetch_orchestration_item(LEASE, ms(50), None);
    let work = store.fetch_work_item(LEASE, ms(50), Some(&owner), &TagFilter::DefaultOnly);
    let step = async {
        pause(ms(10)).await;
        clock.put_back_an_hour();
    };
    let (turn, work, ()) = soon(async { tokio::join!(turn, work, step) }).await;
    assert!(turn.unwrap().is_none() && work.unwrap().is_none());
}

#[tokio::test]
async fn coalesced_results_are_handed_out_nevertheless() {
    let (store, clock) = fresh_on_wrong_clock().await;
    execute(&store, "i", 1, None).await;
    for id in 1..=20 {
        store.enqueue_for_worker(activity("i", id)).await.unwrap();
    }
    let (_, token, _) = work_as(&store, "a").await.unwrap();
    store.ack_work_item(&token, Some(completed("i", 1))).await.unwrap();
    clock.put_back_an_hour();
    let fetched = soon(store.fetch_orchestration_item(LEASE, LEASE, None)).await;
    assert!(fetched.unwrap().is_some());
}
