//! Makes the fixture of the current on-disk format, which a test opens from then on:
//!
//! `cargo run -p perennial-fjall --example make_fixture -- crates/fjall/tests/fixtures`
//!
//! A released format's fixture is never made again.

// Stops at the first surprise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use perennial_fjall::{FORMAT, Settings, open};
use perennial_store::{Commit, Counter, Draft, Key, Lane, Listing, Op, Order, Partition, Place, RecordId, Store};
use std::path::PathBuf;
use std::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let target = PathBuf::from(std::env::args().nth(1).expect("where to put the fixture"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("format-{FORMAT}"));
    let store = open(&path, Settings::default()).unwrap();
    for n in 0..20_u64 {
        let key = |id: RecordId| Key::new(Partition::new(format!("order \"{n}\"\n😀")), id);
        let head = Draft::new(key(RecordId::of("head")), format!(r#"{{"n":{n}}}"#)).listed(Listing {
            kind: "instance".into(),
            status: if n % 2 == 0 { "Running" } else { "Completed" }.into(),
            name: "ship".into(),
            parent: (n > 0).then(|| "order \"0\"\n😀".to_owned()),
            created_ms: 1_000 + n,
            completed_ms: (n % 2 == 1).then_some(2_000 + n),
        });
        let job = Draft::new(key(RecordId::of("job").number(n)), format!(r#"{{"job":{n}}}"#)).placed(Place {
            lane: Lane::topic("work", (n % 3 == 0).then(|| "gpu".into())),
            order: Order(100 + n),
            due_ms: if n % 4 == 0 { 5_000 } else { 0 },
        });
        let page = Draft::new(key(RecordId::of("page").number(1)), "x".repeat(n as usize * 10));
        let ops = vec![Op::Create(head), Op::Create(job), Op::Create(page)];
        store
            .commit(Commit::new(ops).count(Counter::new("started"), 1))
            .await
            .unwrap();
    }
    let gone = Key::new(Partition::new("order \"19\"\n😀"), RecordId::of("job").number(19));
    store.commit(Commit::new(vec![Op::Remove(gone)])).await.unwrap();
    drop(store);
    // Journals are 64 MiB of nearly nothing.
    let archive = target.join(format!("format-{FORMAT}.tar.gz"));
    let name = path.file_name().unwrap();
    let status = Command::new("tar")
        .arg("--sparse")
        .args(["--owner=0", "--group=0", "--mtime=@0", "--sort=name", "-czf"])
        .arg(&archive)
        .arg("-C")
        .arg(directory.path())
        .arg(name)
        .status()
        .unwrap();
    assert!(status.success());
    println!(
        "{} holds {} bytes",
        archive.display(),
        archive.metadata().unwrap().len()
    );
}
