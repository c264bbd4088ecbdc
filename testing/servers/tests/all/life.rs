//! A server ends when it should, in whatever way the process that started it ends.

use crate::child;
use crate::conditions::{az, s3};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use perennial_servers::{Azurite, Moto};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn is_open(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Returns when nothing listens on the port any more. No signal tells of the end of a process that is not a child.
fn await_closed(port: u16) {
    for _ in 0..600 {
        if !is_open(port) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("something still listens on port {port}");
}

#[test]
fn azurite_is_gone_after_drop() {
    let Some(azurite) = Azurite::start() else { return };
    let port = azurite.port();
    assert!(is_open(port));
    drop(azurite);
    assert!(!is_open(port));
}

#[test]
fn moto_is_gone_after_drop() {
    let Some(moto) = Moto::start() else { return };
    let port = moto.port();
    assert!(is_open(port));
    drop(moto);
    assert!(!is_open(port));
}

#[test]
fn a_server_is_gone_after_a_panic() {
    let Some(moto) = Moto::start() else { return };
    let port = moto.port();
    let result = catch_unwind(AssertUnwindSafe(move || {
        let _moto = moto;
        panic!("as a test that fails");
    }));
    assert!(result.is_err());
    assert!(!is_open(port));
}

#[test]
fn servers_of_a_process_that_is_killed_are_gone() {
    if Azurite::shared().is_none() || Moto::shared().is_none() {
        return;
    }
    let mut process = child::test("life::starts_both_and_waits").spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let ports = lines
        .find_map(|line| Some(line.split_once("ports ")?.1.to_owned()))
        .unwrap();
    let ports: Vec<u16> = ports.split(' ').map(|port| port.parse().unwrap()).collect();
    assert!(ports.len() == 2 && ports.iter().all(|&port| is_open(port)));
    process.kill().unwrap();
    process.wait().unwrap();
    ports.into_iter().for_each(await_closed);
}

#[test]
fn shared_servers_end_with_the_process() {
    if Azurite::shared().is_none() || Moto::shared().is_none() {
        return;
    }
    let (passed, output) = child::run(&mut child::test("life::starts_both_and_waits"));
    assert!(passed, "{output}");
    let (_, ports) = output.split_once("ports ").unwrap();
    let ports = ports.lines().next().unwrap().split(' ');
    ports.for_each(|port| await_closed(port.parse().unwrap()));
}

#[test]
#[ignore = "run by servers_of_a_process_that_is_killed_are_gone"]
fn starts_both_and_waits() {
    let (azurite, moto) = (Azurite::shared().unwrap(), Moto::shared().unwrap());
    println!("ports {} {}", azurite.port(), moto.port());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn azurite_on_a_directory_has_its_data_when_it_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut azurite) = Azurite::start_on(directory.path()) else {
        return;
    };
    let (port, path) = (azurite.port(), Path::from("object"));
    let store = az(&azurite, "data", Azurite::KEY);
    store.put(&path, "content".into()).await.unwrap();
    azurite.stop();
    assert!(!is_open(port));
    azurite.start_again();
    assert_eq!(azurite.port(), port);
    let found = store.get(&path).await.unwrap();
    assert_eq!(found.bytes().await.unwrap(), "content");
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_is_empty_when_it_starts_again() {
    let Some(mut moto) = Moto::start() else { return };
    let (port, path) = (moto.port(), Path::from("object"));
    s3(&moto, "bucket").put(&path, "content".into()).await.unwrap();
    moto.stop();
    assert!(!is_open(port));
    moto.start_again();
    assert_eq!(moto.port(), port);
    let error = s3(&moto, "bucket").get(&path).await.unwrap_err();
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error}");
}
