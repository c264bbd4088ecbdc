//! Nothing that this crate or its dependencies log holds the account's key.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use perennial_cosmos_server::{Fault, Rule, When};
use perennial_store::{DueQuery, Lane, Op, Store};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use support::{Fixture, draft, key, one, put};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Records everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_never_logged() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    put(&store, draft("p", "a", "1")).await;
    store.get(&key("p", "a")).await.unwrap();
    store.due(&DueQuery::new(&Lane::new("work"), 0, 1)).await.unwrap();
    for fault in [
        Fault::answer(401, 0),
        Fault::answer(403, 0),
        Fault::internal(),
        Fault::LostRequest,
    ] {
        fixture.server.faults().add(Rule::new(fault, When::Always));
        let error = one(&store, Op::Put(draft("p", "a", "2"))).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains(fixture.server.key()));
        fixture.server.faults().reset();
    }
    store.close().await.unwrap();
    let log = log.0.lock().unwrap();
    assert!(log.lines().count() > 100, "everything is logged");
    assert!(!log.contains(fixture.server.key()));
}
