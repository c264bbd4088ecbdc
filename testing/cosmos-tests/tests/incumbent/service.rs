//! How the service is set up and reached.

use azure_data_cosmos::models::ContainerProperties;
use perennial_cosmos::{Account, OpenError, Settings, Throughput};
use perennial_cosmos_tests::Room;
use perennial_store::{Partition, Slot};

/// There, any certificate will do. Here nothing but a server on this machine is even talked to without one.
#[test]
fn b17_no_server_is_trusted_without_a_certificate() {
    assert!(!Settings::default().trust_local_emulator);
    for url in [
        "cosmos+http://example.com/db/c",
        "cosmos://account/db/c?endpoint=http://example.com",
    ] {
        let refused = Account::parse(url).unwrap_err();
        assert!(matches!(refused, OpenError::BadUrl { .. }), "{refused}");
    }
    assert!(
        Account::parse("cosmos://account/db/c")
            .unwrap()
            .endpoint()
            .starts_with("https:")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b18_a_container_of_something_else_is_refused() {
    let room = Room::new().await;
    let database = room.client().await.database_client("tests");
    let other = ContainerProperties::new("other", "/id".into());
    database.create_container(other, None).await.unwrap();
    let endpoint = room.server.endpoint();
    let url = format!("cosmos://account/tests/other?endpoint={endpoint}");
    let account = Account::parse(&url).unwrap().with_key(room.server.key());
    let refused = perennial_cosmos::open(account.clone(), room.settings.clone())
        .await
        .unwrap_err();
    assert!(matches!(refused, OpenError::WrongPartitionKey { .. }), "{refused}");
    let made = perennial_cosmos::init(&account, Throughput::Manual(400), &room.settings).await;
    assert!(matches!(made.unwrap_err(), OpenError::WrongPartitionKey { .. }));
}

/// Slots are stored, so their hash must not change with a release of Rust.
#[test]
fn b20_slots_are_the_same_for_ever() {
    let slots = ["", "order-1", "é/日本"].map(|name| Slot::of(&Partition::new(name)).0);
    assert_eq!(slots, [194, 118, 85]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_what_is_asked_for_is_indexed_and_nothing_else() {
    let room = Room::new().await;
    let found: ContainerProperties = room.raw().await.read(None).await.unwrap().into_model().unwrap();
    let policy = found.indexing_policy.unwrap();
    let included: Vec<&str> = policy.included_paths.iter().map(|path| path.path.as_str()).collect();
    for path in ["/lane/?", "/topic/?", "/due/?", "/kind/?", "/status/?", "/parent/?"] {
        assert!(included.contains(&path), "{path} of {included:?}");
    }
    // No query is about slots.
    let is_needless = |path: &&str| path.contains("body") || path.contains("slot") || *path == "/*";
    assert!(!included.iter().any(is_needless));
    assert!(policy.excluded_paths.iter().any(|path| path.path == "/*"));
}
