//! Opening stores by URL, as a program does.
#![allow(clippy::unwrap_used)]

use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use perennial::{Health, OpenError, Workflows};

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Hello".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn url_of(directory: &tempfile::TempDir) -> String {
    format!("file://{}", directory.path().join("store").display())
}

#[tokio::test]
async fn a_directory_that_this_process_has_open_is_shared_and_closed_by_its_last_holder() {
    let directory = tempfile::tempdir().unwrap();
    let first = perennial::open(&url_of(&directory)).await.unwrap();
    let second = perennial::connect(&url_of(&directory)).await.unwrap();
    let dropped = perennial::connect(&url_of(&directory)).await.unwrap();
    first.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    let depth = async |workflows: &Workflows| {
        workflows
            .get_queue_depths()
            .await
            .map(|depths| depths.orchestrator_queue)
    };
    assert_eq!(depth(&second.workflows()).await.unwrap(), 1);

    drop(dropped);
    first.close().await.unwrap();
    assert!(first.is_closed() && first.health() == Health::Closed && first.closed().await == Health::Closed);
    let error = depth(&first).await.unwrap_err();
    assert!(error.message.contains("open the store again"), "{error}");
    // Its other holder goes on.
    assert!(second.health().is_working() && !second.is_closed());
    second
        .workflows()
        .enqueue_for_orchestrator(start("b"), None)
        .await
        .unwrap();
    let third = perennial::connect(&url_of(&directory)).await.unwrap();
    assert_eq!(depth(&third.workflows()).await.unwrap(), 2);

    let clone = second.clone();
    second.close().await.unwrap();
    assert!(clone.is_closed(), "a clone is the same holder");
    third.close().await.unwrap();
    third.close().await.unwrap();
    // Nobody holds it: what comes now opens the directory.
    let again = perennial_fjall::open(directory.path().join("store"), perennial_fjall::Settings::default());
    assert!(again.is_ok());
}

#[tokio::test]
async fn a_store_that_was_closed_or_dropped_opens_again_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = perennial::open(&url_of(&directory)).await.unwrap();
    store.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    store.close().await.unwrap();
    // The closed handle still exists, and does not interfere.
    let again = perennial::open(&url_of(&directory)).await.unwrap();
    assert_eq!(again.get_queue_depths().await.unwrap().orchestrator_queue, 1);
    drop(again);
    let once_more = perennial::open(&url_of(&directory)).await.unwrap();
    assert_eq!(once_more.get_queue_depths().await.unwrap().orchestrator_queue, 1);
    let error = store.enqueue_for_orchestrator(start("b"), None).await.unwrap_err();
    assert!(error.message.contains("open the store again"), "{error}");
}

#[tokio::test]
async fn every_memory_store_is_its_own() {
    let first = perennial::open("memory:").await.unwrap();
    let second = perennial::open("memory:").await.unwrap();
    first.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    assert_eq!(second.get_queue_depths().await.unwrap().orchestrator_queue, 0);
}

#[tokio::test]
async fn an_open_that_fails_says_why_and_what_to_do() {
    let unknown = perennial::open("postgres://user:hunter2@host/db").await.err().unwrap();
    assert!(matches!(unknown, OpenError::UnknownScheme { .. }));
    assert!(!unknown.to_string().contains("hunter2"), "{unknown}");

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("store"), "a file").unwrap();
    let file = perennial::open(&url_of(&directory)).await.err().unwrap();
    assert!(file.to_string().contains("is not a directory"), "{file}");

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    let taken = perennial::open(&format!("file://{}", directory.path().display()))
        .await
        .err()
        .unwrap();
    assert!(taken.to_string().contains("not empty"), "{taken}");
    assert_eq!(std::fs::read(directory.path().join("notes.txt")).unwrap(), b"mine");
}

#[cfg(not(feature = "cosmos"))]
#[tokio::test]
async fn a_program_without_cosmos_db_says_how_to_get_it() {
    for url in ["cosmos://account/db/c", "cosmos+http://127.0.0.1:8081/db/c"] {
        let error = perennial::open(url).await.map(|_| ()).unwrap_err();
        assert!(
            matches!(error, OpenError::NotBuilt { feature: "cosmos", .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("cargo add perennial --features cosmos"),
            "{error}"
        );
    }
}
