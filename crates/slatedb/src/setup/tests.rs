use super::*;
use crate::metered::{Class, Operation};
use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutPayload,
    PutResult, Result,
};
use perennial_store::SystemClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn bucket(objects: Arc<dyn ObjectStore>) -> Bucket {
    Bucket::new(objects, Path::from("a/b"), "s3://test/a/b")
}

async fn prepared(bucket: &Bucket) -> std::result::Result<Description, OpenError> {
    Description::prepare(bucket, &Settings::default(), &SystemClock::shared()).await
}

async fn described(bucket: &Bucket) -> std::result::Result<Option<Description>, OpenError> {
    Description::read(bucket, &Settings::default(), &SystemClock::shared()).await
}

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    IgnoresCreate,
    IgnoresUpdate,
    NoTags,
    OneTag,
    ReadsOldTag,
    KeepsDeleted,
    /// Fails so many requests, before or after they took effect.
    Fails(u32),
    Denies,
    Hangs,
}

#[derive(Debug)]
struct Server {
    objects: InMemory,
    fault: Fault,
    failed: AtomicU32,
}

impl Server {
    fn bucket(fault: Fault) -> Bucket {
        bucket(Arc::new(Self {
            objects: InMemory::new(),
            fault,
            failed: AtomicU32::new(0),
        }))
    }

    fn check(&self) -> Result<()> {
        match self.fault {
            Fault::Fails(times) if self.failed.fetch_add(1, Ordering::SeqCst) < times => Err(Error::Generic {
                store: "test",
                source: "the network is down".into(),
            }),
            Fault::Denies => Err(Error::PermissionDenied {
                path: "o".to_owned(),
                source: "<Code>SignatureDoesNotMatch</Code>".into(),
            }),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.fault)
    }
}

#[async_trait]
impl ObjectStore for Server {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        let is_ignored = match opts.mode {
            PutMode::Create => self.fault == Fault::IgnoresCreate,
            PutMode::Update(_) => self.fault == Fault::IgnoresUpdate || self.fault == Fault::OneTag,
            PutMode::Overwrite => false,
        };
        if is_ignored {
            opts.mode = PutMode::Overwrite;
        }
        let outcome = self.objects.put_opts(location, payload, opts).await;
        // Fails after it took effect.
        self.check()?;
        let mut written = outcome?;
        match self.fault {
            Fault::NoTags => written.e_tag = None,
            Fault::OneTag => written.e_tag = Some("always".to_owned()),
            _ => {}
        }
        Ok(written)
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check()?;
        if self.fault == Fault::Hangs {
            futures::future::pending::<()>().await;
        }
        let mut found = self.objects.get_opts(location, options).await?;
        if self.fault == Fault::ReadsOldTag {
            found.meta.e_tag = Some("old".to_owned());
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.fault {
            Fault::KeepsDeleted => locations,
            _ => self.objects.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

async fn names(bucket: &Bucket) -> Vec<String> {
    use futures::TryStreamExt;
    let objects = bucket.objects().list(None).map_ok(|object| object.location.to_string());
    objects.try_collect().await.unwrap()
}

#[tokio::test]
async fn a_good_object_store_is_proven_once_and_then_read() {
    let (bucket, requests) = bucket(Arc::new(InMemory::new())).metered();
    assert_eq!(described(&bucket).await.unwrap(), None);
    let description = prepared(&bucket).await.unwrap();
    assert_eq!((description.format, description.slatedb.as_str()), (1, "0.18"));
    assert_eq!(description.proven.len(), 4, "{description:?}");
    assert_eq!(names(&bucket).await, ["a/b/perennial.json"]);
    let before = requests.counts();
    assert_eq!(prepared(&bucket).await.unwrap(), description);
    let counts = requests.counts().since(&before);
    assert_eq!((counts.total(), counts.of(Operation::Get, Class::Description)), (1, 1));
}

#[tokio::test]
async fn an_object_store_that_breaks_a_promise_is_refused_by_name() {
    for (fault, expected) in [
        (Fault::IgnoresCreate, "If-None-Match is ignored"),
        (Fault::IgnoresUpdate, "If-Match is ignored"),
        (Fault::NoTags, "gives no tags"),
        (Fault::OneTag, "the same tag"),
        (Fault::ReadsOldTag, "another tag"),
        (Fault::KeepsDeleted, "still there"),
    ] {
        let bucket = Server::bucket(fault);
        let error = prepared(&bucket).await.unwrap_err();
        assert!(matches!(error, OpenError::NoConditions { .. }), "{fault:?}: {error}");
        assert!(error.to_string().contains(expected), "{fault:?}: {error}");
        assert!(
            !names(&bucket).await.contains(&"a/b/perennial.json".to_owned()),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn an_object_store_that_fails_for_a_moment_is_no_error() {
    for times in 1..ATTEMPTS {
        let bucket = Server::bucket(Fault::Fails(times));
        prepared(&bucket).await.unwrap();
    }
}

#[tokio::test]
async fn an_object_store_that_stays_away_is_an_error() {
    let bucket = Server::bucket(Fault::Fails(u32::MAX));
    let error = prepared(&bucket).await.unwrap_err();
    assert!(error.to_string().contains("the network is down"), "{error}");
}

#[tokio::test]
async fn an_object_store_that_hangs_is_an_error() {
    let settings = Settings {
        request_timeout: Duration::from_millis(20),
        open_timeout: Duration::from_millis(100),
        ..Settings::default()
    };
    let prepared = Description::prepare(&Server::bucket(Fault::Hangs), &settings, &SystemClock::shared()).await;
    let error = prepared.unwrap_err();
    assert!(error.to_string().contains("no reply within"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_reported_at_once() {
    let error = prepared(&Server::bucket(Fault::Denies)).await.unwrap_err();
    assert!(matches!(error, OpenError::Denied { .. }), "{error}");
    assert!(
        error.to_string().contains("check that its credentials are right"),
        "{error}"
    );
}

async fn opened(text: &str) -> std::result::Result<Description, OpenError> {
    let bucket = bucket(Arc::new(InMemory::new()));
    let path = bucket.description();
    bucket.objects().put(&path, text.to_owned().into()).await.unwrap();
    let outcome = prepared(&bucket).await;
    if let Ok(description) = &outcome {
        assert_eq!(described(&bucket).await.unwrap().as_ref(), Some(description));
    }
    outcome
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name_whatever_else_it_says() {
    let error = opened(r#"{"format": 2, "engine": "another"}"#).await.unwrap_err();
    assert!(error.to_string().contains("has format 2"), "{error}");
    let error = opened("not json").await.unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn only_adjacent_releases_open_a_store_and_the_newest_is_written_down() {
    let with = |release: &str| format!(r#"{{"format": 1, "slatedb": "{release}", "proven": []}}"#);
    for (release, expected) in [("0.17.3", "0.18"), ("0.18", "0.18"), ("0.19.0", "0.19.0")] {
        assert_eq!(opened(&with(release)).await.unwrap().slatedb, expected);
    }
    for release in ["0.16", "0.20.1", "1.18", "?"] {
        let error = opened(&with(release)).await.unwrap_err();
        assert!(
            matches!(&error, OpenError::Release { found, .. } if found == release),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_prefix_that_is_used_otherwise_is_left_alone() {
    for (name, expected) in [
        ("a/b/photo.jpg", "photo.jpg"),
        ("a/b/0/db/manifest/1", "perennial.json is missing"),
    ] {
        let bucket = bucket(Arc::new(InMemory::new()));
        bucket.objects().put(&Path::from(name), "x".into()).await.unwrap();
        let error = prepared(&bucket).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(names(&bucket).await, [name]);
    }
    let bucket = bucket(Arc::new(InMemory::new()));
    bucket
        .objects()
        .put(&Path::from("a/bc/other"), "x".into())
        .await
        .unwrap();
    prepared(&bucket).await.unwrap();
}

#[tokio::test]
async fn files_are_not_asked_for_conditional_updates() {
    let directory = tempfile::tempdir().unwrap();
    let bucket = crate::Location::Directory(directory.path().into()).connect().unwrap();
    let description = prepared(&bucket).await.unwrap();
    assert_eq!(description.proven.len(), 2, "{description:?}");
    assert_eq!(names(&bucket).await, ["perennial.json"]);
}
