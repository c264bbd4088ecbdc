//! A wrong key or a wrong endpoint is an error that says what to do, not a hang.

#![cfg(any(feature = "s3", feature = "az", feature = "gs"))]
#![allow(clippy::unwrap_used)]

use perennial_slatedb::{Description, Location, OpenError, Opening, Settings, Shard};
use perennial_store::SystemClock;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

/// A server that answers every request with 403.
fn forbidding_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = BufReader::new(stream.try_clone().unwrap());
            let is_over = |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| !line.is_empty());
            request.lines().take_while(is_over).for_each(drop);
            let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>the key is wrong</Message></Error>";
            let length = body.len();
            let answer =
                format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    port
}

/// A port on which nothing listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn variables(port: u16) -> Vec<(&'static str, String)> {
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let account = r#"{"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": true}"#;
    vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ACCESS_KEY_ID", "id".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "hunter2".to_owned()),
        ("AZURE_STORAGE_ENDPOINT", format!("http://127.0.0.1:{port}/account")),
        ("AZURE_STORAGE_ACCOUNT_KEY", key.to_owned()),
        ("GOOGLE_BASE_URL", format!("http://127.0.0.1:{port}")),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", account.to_owned()),
    ]
}

fn urls() -> Vec<&'static str> {
    let mut urls = Vec::new();
    #[cfg(feature = "s3")]
    urls.push("s3://bucket/prefix");
    #[cfg(feature = "az")]
    urls.push("az://account/container/prefix");
    #[cfg(feature = "gs")]
    urls.push("gs://bucket/prefix");
    urls
}

/// Runs a test of this file in a process of its own, whose environment configures the clients.
fn in_process(test: &str, port: u16) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(variables(port))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

async fn errors(url: &str) -> [OpenError; 2] {
    let bucket = Location::parse(url).unwrap().connect().unwrap();
    let (settings, clock) = (Settings::default(), SystemClock::shared());
    let set_up = Description::prepare(&bucket, &settings, &clock).await.unwrap_err();
    let opening = Opening::new(Settings::default());
    let opened = opening.open(&bucket, Shard(0)).await.map(drop).unwrap_err();
    [set_up, opened]
}

#[test]
fn a_wrong_key_is_named() {
    in_process("child_with_a_wrong_key", forbidding_server());
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn child_with_a_wrong_key() {
    for url in urls() {
        for error in errors(url).await {
            println!("{error}");
            assert!(matches!(error, OpenError::Denied { .. }), "{error}");
            assert!(
                error.to_string().contains("check that its credentials are right"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_wrong_endpoint_is_named() {
    in_process("child_with_a_wrong_endpoint", closed_port());
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn child_with_a_wrong_endpoint() {
    for url in urls() {
        for error in errors(url).await {
            println!("{error}");
            assert!(matches!(error, OpenError::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("check the network, the endpoint"), "{error}");
        }
    }
}
