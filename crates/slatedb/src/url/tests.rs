use super::*;

fn why(url: &str) -> String {
    Location::parse(url).unwrap_err().to_string()
}

#[test]
fn every_kind_of_url_is_read_and_shown_again() {
    for url in [
        "s3://my-bucket",
        "s3://my-bucket/a/b",
        "gs://my_bucket.example.com/orders",
        "az://myaccount/my-container",
        "az://myaccount/my-container/a",
        "slatedb+memory:test-1",
        "slatedb+file:///var/lib/app",
        "slatedb+file://./data",
    ] {
        assert_eq!(Location::parse(url).unwrap().to_string(), url);
    }
    let location = Location::parse("S3://bucket/a%20b/").unwrap();
    assert_eq!(location.to_string(), "s3://bucket/a b");
    assert_eq!(
        Location::parse("slatedb+file:///var/lib/my%20app").unwrap(),
        Location::Directory("/var/lib/my app".into())
    );
}

#[test]
fn what_is_wrong_with_a_url_is_said() {
    for (url, expected) in [
        ("nonsense", "begins with none of"),
        ("file:///data", "begins with none of"),
        ("s3:", "write \"s3://BUCKET/PREFIX\""),
        ("s3://", "write \"s3://BUCKET/PREFIX\""),
        ("s3:///prefix", "the name of the bucket"),
        ("s3://bu cket/prefix", "the name of the bucket"),
        ("s3://bucket/a//b", "an empty part"),
        ("az://account", "the name of the container"),
        ("slatedb+file:", "names no directory"),
        ("slatedb+file://host/data", "names no directory"),
        ("slatedb+file:///data?x", "no parameters"),
        ("slatedb+file:///data%zz", "two hexadecimal digits"),
        ("slatedb+memory:", "needs a name"),
        ("slatedb+memory:a/b", "needs a name"),
    ] {
        assert!(why(url).contains(expected), "{url}: {}", why(url));
    }
}

#[test]
fn a_url_with_a_secret_is_refused_and_not_repeated() {
    for url in [
        "s3://key:hunter2@bucket/prefix",
        "s3://hunter2@bucket",
        "s3://bucket/prefix?secret_access_key=hunter2",
        "gs://bucket#hunter2",
        "az://account/container?sv=1&sig=hunter2",
        "az://account/container/sig=hunter2",
        "az://AccountName=a;AccountKey=hunter2/container",
        "hunter2",
        "hunter2@s3://bucket",
    ] {
        assert!(!why(url).contains("hunter2"), "{}", why(url));
    }
    assert!(why("s3://key:hunter2@bucket").contains("environment"));
}

#[test]
fn a_client_that_is_not_built_in_is_named() {
    let built = [
        ("s3://b", cfg!(feature = "s3")),
        ("az://a/c", cfg!(feature = "az")),
        ("gs://b", cfg!(feature = "gs")),
    ];
    for (url, _) in built.into_iter().filter(|(_, is_built)| !is_built) {
        let error = Location::parse(url).unwrap().connect().unwrap_err().to_string();
        let feature = url.split(':').next().unwrap();
        assert!(error.contains(&format!("the feature {feature:?}")), "{error}");
    }
}

#[tokio::test]
async fn a_name_in_memory_is_one_bucket() {
    use object_store::ObjectStoreExt;
    let connect = |name: &str| {
        Location::parse(&format!("slatedb+memory:{name}"))
            .unwrap()
            .connect()
            .unwrap()
    };
    let path = Path::from("o");
    connect("url-1").objects().put(&path, "text".into()).await.unwrap();
    assert!(connect("url-1").objects().head(&path).await.is_ok());
    assert!(connect("url-2").objects().head(&path).await.is_err());
}
