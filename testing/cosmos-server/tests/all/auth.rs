//! Authorisation: which requests the server accepts.

use crate::support::{Raw, sign};
use perennial_cosmos_server::{EMULATOR_KEY, Options, Server};
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn a_signed_request_is_served() {
    let raw = Raw::start(Options::default()).await;
    assert_eq!(raw.get("/").send().await.status, 200);
    assert_eq!(raw.create("a").send().await.status, 201);
    assert_eq!(raw.read("a").send().await.status, 200);
    assert_eq!(raw.get("/dbs/db/colls/c/pkranges").send().await.status, 200);
}

#[tokio::test]
async fn ids_are_signed_unescaped() {
    let raw = Raw::start(Options::default()).await;
    assert_eq!(raw.create("a b+é%").send().await.status, 201);
    let answer = raw.read("a%20b%2B%C3%A9%25").send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["id"], "a b+é%");
}

#[tokio::test]
async fn an_unsigned_request_is_refused() {
    let raw = Raw::start(Options::default()).await;
    let address = format!("{}dbs", raw.server.endpoint());
    let response = raw.http.get(address).send().await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn a_wrong_signature_is_refused() {
    let raw = Raw::start(Options::default()).await;
    for token in [
        "",
        "garbage",
        "type%3Dmaster%26ver%3D1.0%26sig%3Dabc",
        "type%3Daad%26ver%3D1.0%26sig%3Dabc",
    ] {
        let answer = raw.read("a").header("authorization", token).send().await;
        assert_eq!(answer.status, 401, "{token}");
    }
    let date = httpdate::fmt_http_date(SystemTime::now());
    let other_verb = sign(raw.server.key(), "PUT", "/dbs/db/colls/c/docs/a", &date);
    let ask = raw.read("a").header("x-ms-date", &date);
    assert_eq!(ask.header("authorization", &other_verb).send().await.status, 401);
}

#[tokio::test]
async fn each_server_has_the_key_that_it_was_given() {
    let key = "bm90IGEgc2VjcmV0";
    let options = Options {
        key: key.to_owned(),
        ..Options::default()
    };
    let raw = Raw::start(options).await;
    assert_eq!(raw.server.key(), key);
    let date = httpdate::fmt_http_date(SystemTime::now());
    let default_key = sign(EMULATOR_KEY, "GET", "/dbs", &date);
    let ask = raw.get("/dbs").header("x-ms-date", &date);
    assert_eq!(ask.header("authorization", &default_key).send().await.status, 401);
    let options = Options {
        key: "not base64!".to_owned(),
        ..Options::default()
    };
    assert!(Server::start(options).await.is_err());
}

#[tokio::test]
async fn a_request_of_another_time_is_refused() {
    let raw = Raw::start(Options::default()).await;
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let now = SystemTime::now();
    for (date, status) in [
        (now - minutes(16), 403),
        (now + minutes(16), 403),
        (now - minutes(14), 200),
        (now + minutes(14), 200),
    ] {
        let ask = raw.get("/dbs").header("x-ms-date", &httpdate::fmt_http_date(date));
        assert_eq!(ask.send().await.status, status, "{date:?}");
    }
    assert_eq!(
        raw.get("/dbs").header("x-ms-date", "yesterday").send().await.status,
        401
    );
}

#[tokio::test]
async fn a_server_that_is_not_strict_checks_no_token() {
    let options = Options {
        strict: false,
        ..Options::default()
    };
    let raw = Raw::start(options).await;
    assert_eq!(
        raw.get("/dbs").header("authorization", "garbage").send().await.status,
        200
    );
}
