use super::*;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

#[test]
fn the_name_of_an_object_says_what_a_request_is_for() {
    for (prefix, location, class) in [
        ("a/b", "a/b/perennial.json", Class::Description),
        ("a/b", "a/b", Class::Description),
        ("a/b", "a/b/0/lease", Class::Lease),
        ("a/b", "a/b/0/bell", Class::Bell),
        ("a/b", "a/b/0/inbox/c/7", Class::Inbox),
        ("a/b", "a/b/0/db/wal/00000000000000000001.sst", Class::Log),
        ("a/b", "a/b/0/db/manifest", Class::Manifest),
        ("a/b", "a/b/3/db/compacted/01K.sst", Class::Tables),
        (
            "",
            "0/db/compactions/00000000000000000001.compactions",
            Class::Compactions,
        ),
        ("", "0/db/gc/manifest.boundary", Class::Garbage),
        ("a/b", "a/bc/0/lease", Class::Other),
        ("a/b", "a/b/0/lost/found", Class::Other),
    ] {
        assert_eq!(
            Class::of(&Path::from(prefix), &Path::from(location)),
            class,
            "{location}"
        );
    }
}

#[test]
fn every_kind_has_a_place_and_a_name_of_its_own() {
    let all = |operation| Class::ALL.map(move |class| (operation, class));
    let kinds: Vec<_> = Operation::ALL.into_iter().flat_map(all).collect();
    let places: std::collections::BTreeSet<_> = kinds
        .iter()
        .map(|(operation, class)| index(*operation, *class))
        .collect();
    assert_eq!((places.len(), places.last()), (KINDS, Some(&(KINDS - 1))));
    let names: std::collections::BTreeSet<_> = kinds.iter().map(|(o, c)| (o.name(), c.name())).collect();
    assert_eq!(names.len(), KINDS);
}

#[tokio::test]
async fn every_request_is_counted_once() {
    let requests = Requests::default();
    let store = MeteredStore::new(Arc::new(InMemory::new()), Path::from("p"), requests.clone());
    let path = Path::from("p/0/db/wal/1.sst");
    store.put(&path, "text".into()).await.unwrap();
    let before = requests.counts();
    store.get(&path).await.unwrap();
    store.get_range(&path, 0..2).await.unwrap();
    store.head(&path).await.unwrap();
    assert_eq!(store.list(Some(&Path::from("p/0/inbox"))).count().await, 0);
    store.delete(&path).await.unwrap();
    let counts = requests.counts().since(&before);
    assert_eq!(counts.of(Operation::Put, Class::Log), 0);
    assert_eq!(counts.of(Operation::Get, Class::Log), 2);
    assert_eq!(counts.of(Operation::Head, Class::Log), 1);
    assert_eq!(counts.of(Operation::List, Class::Inbox), 1);
    assert_eq!(counts.of(Operation::Delete, Class::Log), 1);
    assert_eq!((counts.total(), requests.counts().operation(Operation::Put)), (5, 1));
}

#[tokio::test]
async fn a_listing_of_many_objects_is_several_requests() {
    let objects = InMemory::new();
    for number in 0..2001 {
        objects
            .put(&Path::from(format!("0/inbox/{number}")), "".into())
            .await
            .unwrap();
    }
    let requests = Requests::default();
    let store = MeteredStore::new(Arc::new(objects), Path::default(), requests.clone());
    assert_eq!(store.list(None).count().await, 2001);
    assert_eq!(requests.counts().operation(Operation::List), 3);
}

#[tokio::test]
async fn every_part_of_an_upload_is_a_request() {
    let requests = Requests::default();
    let store = MeteredStore::new(Arc::new(InMemory::new()), Path::default(), requests.clone());
    let mut upload = store.put_multipart(&Path::from("0/db/compacted/1.sst")).await.unwrap();
    upload.put_part("one".into()).await.unwrap();
    upload.put_part("two".into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(requests.counts().of(Operation::Put, Class::Tables), 4);
}
