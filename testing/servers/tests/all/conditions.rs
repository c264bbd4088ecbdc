//! What a store in a bucket rests on, asked of both servers through the client that it uses.

use futures::TryStreamExt;
use futures::future::join_all;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion};
use perennial_servers::{Azurite, Moto};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

pub fn az(azurite: &Azurite, container: &str, key: &str) -> MicrosoftAzure {
    azurite.create_container(container);
    let builder = MicrosoftAzureBuilder::new()
        .with_endpoint(azurite.endpoint())
        .with_account(Azurite::ACCOUNT)
        .with_access_key(key)
        .with_container_name(container)
        .with_allow_http(true);
    builder.build().unwrap()
}

pub fn s3(moto: &Moto, bucket: &str) -> AmazonS3 {
    moto.create_bucket(bucket);
    let builder = AmazonS3Builder::new()
        .with_endpoint(moto.endpoint())
        .with_access_key_id(Moto::KEY_ID)
        .with_secret_access_key(Moto::SECRET)
        .with_region(Moto::REGION)
        .with_bucket_name(bucket)
        .with_allow_http(true);
    builder.build().unwrap()
}

type Result<T> = object_store::Result<T>;

async fn create(store: &dyn ObjectStore, path: &Path, content: &str) -> Result<PutResult> {
    put(store, path, content, PutMode::Create).await
}

async fn replace(store: &dyn ObjectStore, path: &Path, content: &str, found: UpdateVersion) -> Result<PutResult> {
    put(store, path, content, PutMode::Update(found)).await
}

async fn put(store: &dyn ObjectStore, path: &Path, content: &str, mode: PutMode) -> Result<PutResult> {
    let payload = PutPayload::from(content.to_owned());
    store.put_opts(path, payload, PutOptions::from(mode)).await
}

async fn read(store: &dyn ObjectStore, path: &Path) -> Result<(String, UpdateVersion)> {
    let found = store.get(path).await?;
    let version = UpdateVersion {
        e_tag: found.meta.e_tag.clone(),
        version: found.meta.version.clone(),
    };
    let content = String::from_utf8(found.bytes().await?.to_vec()).unwrap();
    Ok((content, version))
}

async fn a_second_create_is_refused(store: &dyn ObjectStore) {
    let path = Path::from("lease");
    create(store, &path, "first").await.unwrap();
    let error = create(store, &path, "second").await.unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
    assert_eq!(read(store, &path).await.unwrap().0, "first");
}

async fn a_stale_tag_is_refused(store: &dyn ObjectStore) {
    let path = Path::from("lease");
    let first = create(store, &path, "first").await.unwrap();
    let second = replace(store, &path, "second", first.clone().into()).await.unwrap();
    let error = replace(store, &path, "third", first.into()).await.unwrap_err();
    assert!(matches!(error, Error::Precondition { .. }), "{error}");
    assert_eq!(read(store, &path).await.unwrap(), ("second".to_owned(), second.into()));
}

async fn new_content_gives_a_new_tag(store: &dyn ObjectStore) {
    let path = Path::from("lease");
    let first = create(store, &path, "first").await.unwrap();
    let second = put(store, &path, "second", PutMode::Overwrite).await.unwrap();
    assert!(first.e_tag.is_some());
    assert_ne!(first.e_tag, second.e_tag);
}

async fn what_was_written_is_listed_until_it_is_deleted(store: &dyn ObjectStore) {
    let names = async |prefix: &str| {
        let found: Vec<_> = store.list(Some(&Path::from(prefix))).try_collect().await.unwrap();
        let mut names: Vec<_> = found.into_iter().map(|found| found.location.to_string()).collect();
        names.sort();
        names
    };
    for name in ["inbox/a/1", "inbox/a/2", "inbox/b/1", "bell"] {
        create(store, &Path::from(name), name).await.unwrap();
    }
    assert_eq!(names("inbox").await, ["inbox/a/1", "inbox/a/2", "inbox/b/1"]);
    store.delete(&Path::from("inbox/a/1")).await.unwrap();
    assert_eq!(names("inbox/a").await, ["inbox/a/2"]);
    let error = read(store, &Path::from("inbox/a/1")).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

async fn of_concurrent_creates_one_wins(store: &dyn ObjectStore) {
    for round in 0..20 {
        let path = Path::from(format!("object-{round}"));
        let content: Vec<_> = (0..8).map(|number| number.to_string()).collect();
        let tries = content.iter().map(|content| create(store, &path, content));
        let results = join_all(tries).await;
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        for error in refused {
            assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
        }
        let won: Vec<_> = (0..8).filter(|&number| results[number].is_ok()).collect();
        assert_eq!(won.len(), 1, "round {round}: {won:?}");
        assert_eq!(read(store, &path).await.unwrap().0, won[0].to_string());
    }
}

async fn no_increment_is_lost_by_compare_and_swap(store: &dyn ObjectStore) {
    let path = Path::from("counter");
    create(store, &path, "0").await.unwrap();
    let increment = async || loop {
        let (content, found) = read(store, &path).await.unwrap();
        let next = content.parse::<u32>().unwrap() + 1;
        match replace(store, &path, &next.to_string(), found).await {
            Ok(_) => return,
            Err(Error::Precondition { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    join_all((0..8).map(async |_| {
        for _ in 0..5 {
            increment().await;
        }
    }))
    .await;
    assert_eq!(read(store, &path).await.unwrap().0, "40");
}

async fn a_large_object_is_written_in_parts(store: &dyn ObjectStore) {
    let path = Path::from("table");
    let part = vec![7_u8; 6 << 20];
    let mut upload = store.put_multipart(&path).await.unwrap();
    upload.put_part(part.clone().into()).await.unwrap();
    upload.put_part(part.into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(store.head(&path).await.unwrap().size, 12 << 20);
    let middle = store.get_range(&path, (6 << 20) - 1..(6 << 20) + 1).await.unwrap();
    assert_eq!(middle, &[7, 7][..]);
}

/// Makes of each check a test on each server, in a container or bucket of its own.
macro_rules! on_both {
    ($($check:ident),* $(,)?) => {
        mod azurite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                let Some(azurite) = super::Azurite::shared() else { return };
                let container = stringify!($check).replace('_', "-");
                super::$check(&super::az(azurite, &container, super::Azurite::KEY)).await;
            })*
        }

        mod moto {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                let Some(moto) = super::Moto::shared() else { return };
                let bucket = stringify!($check).replace('_', "-");
                super::$check(&super::s3(moto, &bucket)).await;
            })*
        }
    };
}

on_both!(
    a_second_create_is_refused,
    a_stale_tag_is_refused,
    new_content_gives_a_new_tag,
    what_was_written_is_listed_until_it_is_deleted,
    of_concurrent_creates_one_wins,
    no_increment_is_lost_by_compare_and_swap,
    a_large_object_is_written_in_parts,
);

#[tokio::test]
async fn equal_content_has_an_equal_tag_on_s3_alone() {
    let path = Path::from("lease");
    let twice = async |store: &dyn ObjectStore| {
        let first = put(store, &path, "same", PutMode::Overwrite).await.unwrap();
        let second = put(store, &path, "same", PutMode::Overwrite).await.unwrap();
        first.e_tag == second.e_tag
    };
    if let Some(moto) = Moto::shared() {
        assert!(twice(&s3(moto, "equal-content")).await);
    }
    if let Some(azurite) = Azurite::shared() {
        assert!(!twice(&az(azurite, "equal-content", Azurite::KEY)).await);
    }
}

#[tokio::test]
async fn azurite_refuses_a_wrong_key() {
    let Some(azurite) = Azurite::shared() else { return };
    let wrong = Azurite::KEY.replace("Eby8", "Eby9");
    let store = az(azurite, "wrong-key", &wrong);
    let error = create(&store, &Path::from("lease"), "first").await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
}

/// Sends the start of an upload that says it has 10 bytes.
fn upload(moto: &Moto, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", moto.port())).unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

#[tokio::test]
async fn an_upload_that_is_cut_short_leaves_nothing_on_moto() {
    let Some(moto) = Moto::shared() else { return };
    let store = s3(moto, "cut-short");
    for (path, body) in [("/cut-short/whole", "0123456789"), ("/cut-short/half", "01234")] {
        let mut stream = upload(moto, path, body);
        stream.shutdown(Shutdown::Write).unwrap();
        // The server has handled the request when it closes the connection.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    assert_eq!(read(&store, &Path::from("whole")).await.unwrap().0, "0123456789");
    let error = read(&store, &Path::from("half")).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_client_that_hangs_while_it_sends_holds_up_no_other_on_moto() {
    let Some(moto) = Moto::shared() else { return };
    let store = s3(moto, "hangs");
    let mut stream = upload(moto, "/hangs/slow", "01234");
    create(&store, &Path::from("quick"), "quick").await.unwrap();
    stream.write_all(b"56789").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(read(&store, &Path::from("slow")).await.unwrap().0, "0123456789");
}
