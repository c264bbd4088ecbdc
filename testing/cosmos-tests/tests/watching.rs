//! Two ways to find work that another process has queued: querying for due records, or reading the change feed. The figures
//! measured here are the reason why the store does the first.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use azure_data_cosmos::options::{ChangeFeedOptions, ChangeFeedStartFrom};
use azure_data_cosmos::{ContainerClient, FeedScope};
use futures::StreamExt;
use perennial_cosmos::CosmosStore;
use perennial_cosmos_server::{Kind, Options};
use perennial_cosmos_tests::{Process, Program, Room};
use perennial_store::{Clock, DueQuery, Lane, Store, SystemClock};
use serde_json::Value;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);
const WORKFLOWS: usize = 40;

/// What watching cost.
#[derive(Clone, Copy, Debug, Default)]
#[allow(dead_code, reason = "printed")]
struct Cost {
    looks: usize,
    requests: u64,
    units: f64,
    /// Documents that were sent.
    documents: usize,
}

enum Watcher {
    Due(CosmosStore),
    Changes(Box<(ContainerClient, ChangeFeedOptions)>),
}

impl Watcher {
    async fn look(&mut self) -> usize {
        match self {
            Self::Due(store) => {
                let query = DueQuery::new(&Lane::new("ready"), SystemClock.now_ms(), 64);
                store.due(&query).await.unwrap().records.len()
            }
            Self::Changes(feed) => {
                let (container, options) = &mut **feed;
                let scope = FeedScope::full_container();
                let start = ChangeFeedStartFrom::Beginning;
                let feed = container.query_change_feed::<Value>(scope, start, Some(options.clone()));
                let mut pages = feed.await.unwrap();
                let mut documents = 0;
                while let Some(page) = pages.next().await {
                    let here = page.unwrap().items().len();
                    documents += here;
                    if here == 0 {
                        break;
                    }
                }
                *options = ChangeFeedOptions::default().with_continuation_token(pages.to_continuation_token().unwrap());
                documents
            }
        }
    }

    /// Requests and units so far.
    fn spent(&self, room: &Room) -> (u64, f64) {
        match self {
            Self::Due(store) => {
                let due = store.usage().by_operation.get("due").copied().unwrap_or_default();
                (due.requests, due.units)
            }
            Self::Changes(..) => {
                let feeds = room.requests_since(0).into_iter();
                let feeds = feeds.filter(|entry| entry.kind == Kind::ChangeFeed);
                feeds.fold((0, 0.0), |(count, units), entry| (count + 1, units + entry.ru))
            }
        }
    }

    /// Looks every so often while something is done.
    async fn watch(&mut self, room: &Room, work: impl Future<Output = ()>) -> Cost {
        self.look().await;
        let (requests, units) = self.spent(room);
        let mut cost = Cost::default();
        tokio::pin!(work);
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                () = &mut work => is_over = true,
                () = tokio::time::sleep(EVERY) => {}
            }
            cost.looks += 1;
            cost.documents += self.look().await;
        }
        let (requests_now, units_now) = self.spent(room);
        Cost {
            requests: requests_now - requests,
            units: units_now - units,
            ..cost
        }
    }
}

/// The cost of watching a container where nothing happens for two seconds, and then one where workflows run.
async fn measure(due: bool) -> [Cost; 2] {
    let room = Room::with(Options {
        partitions: 1,
        ..Options::default()
    })
    .await;
    let process = Process::start(&room, &Program::new(2)).await;
    let mut watcher = if due {
        Watcher::Due(room.store().await)
    } else {
        Watcher::Changes(Box::new((room.raw().await, ChangeFeedOptions::default())))
    };
    let idle = watcher.watch(&room, tokio::time::sleep(Duration::from_secs(2))).await;
    let names: Vec<String> = (0..WORKFLOWS).map(|n| format!("w{n}")).collect();
    let work = async {
        for name in &names {
            process.begin(name, "Hello", "you").await;
            process.output(name).await;
        }
    };
    let busy = watcher.watch(&room, work).await;
    process.stop().await;
    [idle, busy]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_costs_little_to_ask_for_whatever_others_do() {
    let due = measure(true).await;
    let changes = measure(false).await;
    println!("due: {due:?}\nchanges: {changes:?}");
    // What each workflow adds to the cost of looking.
    let added = |[idle, busy]: &[Cost; 2]| {
        let idle = idle.units / idle.looks as f64;
        (busy.units - idle * busy.looks as f64) / WORKFLOWS as f64
    };
    let sent = |[_, busy]: &[Cost; 2]| busy.documents as f64 / WORKFLOWS as f64;
    for (name, cost) in [("due", &due), ("changes", &changes)] {
        println!(
            "{name}: each workflow {:.2} RU, {:.2} documents",
            added(cost),
            sent(cost)
        );
    }
    assert!(sent(&due) < 2.0, "in its own process work is claimed as it is made");
    assert!(sent(&changes) > 3.0, "everything that is written is sent");
    assert!(added(&due) < added(&changes));
}
