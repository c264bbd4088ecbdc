//! Documents written in a released format stay readable.

use crate::support::{Fixture, draft, key};
use perennial_store::{Commit, Counter, DueQuery, Lane, ListFilter, Listing, Op, Order, Place, Store};
use serde_json::Value;

#[tokio::test]
async fn a_store_of_format_1_is_read_and_written() {
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    let documents: Vec<Value> = serde_json::from_str(include_str!("fixtures/format-1.json")).unwrap();
    for document in documents {
        let text = |name: &str| document[name].as_str().unwrap().to_owned();
        let (partition, id) = (text("partition"), text("id"));
        container.create_item(partition, &id, document, None).await.unwrap();
    }
    let store = fixture.open().await;
    let get = async |partition: &str, id: &str| store.get(&key(partition, id)).await.unwrap().unwrap();

    let head = get("order 1/é", "head").await;
    let value: Value = serde_json::from_slice(&head.body).unwrap();
    assert_eq!(
        value,
        serde_json::json!({ "state": "Running", "turn": 3, "ratio": 0.25 })
    );
    let place = Place {
        lane: Lane::topic("turns", Some("gpu".into())),
        order: Order(255),
        due_ms: 1_700_000_000_000,
    };
    let listing = Listing {
        kind: "instance".into(),
        status: "Running".into(),
        name: "ship".into(),
        parent: Some("order 0".into()),
        created_ms: 1_700_000_000_001,
        completed_ms: Some(1_700_000_000_002),
    };
    assert_eq!((head.place, head.listing), (Some(place), Some(listing)));
    assert_eq!(get("order 1/é", "kv/a b?c\\d😀").await.body, "not json");
    assert_eq!(get("", "").await.body, &[0xff, 0][..]);
    let timer = get("p", "timer").await;
    assert_eq!(
        (&timer.body[..], timer.place.unwrap().due_ms),
        (&b"18446744073709551615"[..], u64::MAX)
    );
    assert_eq!(get("p", &"x".repeat(300)).await.body, "[]");

    let due = store
        .due(&DueQuery::new(&Lane::new("turns"), u64::MAX, 10))
        .await
        .unwrap();
    let ids: Vec<_> = due.records.iter().map(|record| record.key.id.as_str()).collect();
    assert_eq!(ids, ["head", "timer"]);
    let listed = store.list(&ListFilter::kind("instance"), None, 10).await.unwrap();
    assert_eq!(listed.entries[0].key, key("order 1/é", "head"));
    let totals = store.counters().await.unwrap();
    assert_eq!(totals, [(Counter::new("open"), -1), (Counter::new("started"), 23)]);
    let op = Op::Replace(draft("order 1/é", "head", "{}"), head.version);
    store.commit(Commit::new(vec![op])).await.unwrap();
}
