use super::*;
use futures::StreamExt;
use futures::future::pending;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use perennial_store::SystemClock;
use slatedb_common::retry::should_retry;
use std::sync::atomic::{AtomicBool, Ordering};

fn bounds(deadline: Deadline) -> Bounds {
    let bounds = Bounds::opening(
        SystemClock::shared(),
        Duration::from_millis(20),
        deadline,
        Duration::from_secs(60),
    );
    bounds.opened();
    bounds
}

fn denial() -> Error {
    Error::PermissionDenied {
        path: "o".to_owned(),
        source: "the key is wrong".into(),
    }
}

#[tokio::test]
async fn a_request_that_hangs_is_a_failure_that_may_be_tried_again() {
    let error = bounds(Deadline::none())
        .attempt(0, pending::<Result<()>>())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no reply within 20 ms"), "{error}");
    assert!(should_retry(&error));
}

#[tokio::test]
async fn nothing_is_tried_again_after_the_deadline_and_nothing_sent() {
    let over = Arc::new(AtomicBool::new(false));
    let bounds = bounds(Deadline::new({
        let over = over.clone();
        move || match over.load(Ordering::SeqCst) {
            true => Duration::ZERO,
            false => Duration::from_secs(1),
        }
    }));
    let failed = async {
        over.store(true, Ordering::SeqCst);
        Err::<(), _>(failure("the disk is on fire"))
    };
    let error = bounds.attempt(0, failed).await.unwrap_err();
    assert!(error.to_string().contains("on fire"), "{error}");
    assert!(!should_retry(&error));
    let not_sent = bounds.attempt(0, async { panic!("a request was sent") });
    let error: Error = Box::pin(not_sent).await.map(|(): ()| ()).unwrap_err();
    assert!(!should_retry(&error));
    // What led to it is said as well.
    assert!(error.to_string().contains("on fire"), "{error}");
}

#[tokio::test]
async fn a_wrong_key_ends_an_opening_and_is_tried_again_later() {
    let bounds = Bounds::opening(
        SystemClock::shared(),
        Duration::from_secs(1),
        Deadline::none(),
        Duration::from_secs(60),
    );
    let error = bounds.attempt(0, async { Err::<(), _>(denial()) }).await.unwrap_err();
    assert!(!should_retry(&error));
    assert!(matches!(bounds.take_denied(), Some(Error::PermissionDenied { .. })));
    bounds.opened();
    let error = bounds.attempt(0, async { Err::<(), _>(denial()) }).await.unwrap_err();
    assert!(should_retry(&error));
}

#[tokio::test]
async fn outcomes_that_mean_something_are_passed_on() {
    let store = BoundedStore::new(Arc::new(InMemory::new()), Arc::new(bounds(Deadline::none())));
    let path = Path::from("a/b");
    assert!(matches!(store.get(&path).await, Err(Error::NotFound { .. })));
    store.put(&path, "text".into()).await.unwrap();
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "text");
    assert_eq!(store.get_range(&path, 1..3).await.unwrap(), "ex");
    assert_eq!(store.list(None).count().await, 1);
    store.delete(&path).await.unwrap();
    assert_eq!(store.list(None).count().await, 0);
    let mut upload = store.put_multipart(&path).await.unwrap();
    upload.put_part("parts".into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(store.head(&path).await.unwrap().size, 5);
}
