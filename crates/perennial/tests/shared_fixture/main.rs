//! A shared store as an earlier version left it, record by record: today's engine finishes everything in it.
//!
//! `fixtures/shared-v1.json` is such a store. `PERENNIAL_WRITE_FIXTURE=shared-v2 cargo test -p perennial --test shared_fixture`
//! writes another one; those that exist are never written again.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod dump;
mod finish;
#[path = "../support/mod.rs"]
mod support;
mod write;

use dump::Dump;
use std::path::{Path, PathBuf};

/// Every stored form that a release has written.
const RELEASED: [&str; 1] = ["shared-v1"];

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(format!("{name}.json"))
}

#[tokio::test(start_paused = true)]
async fn the_engine_finishes_what_earlier_versions_have_stored() {
    for name in RELEASED {
        let text = std::fs::read_to_string(path(name)).unwrap();
        finish::finish(&serde_json::from_str(&text).unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_engine_finishes_what_it_stores_today() {
    let dump: Dump = write::unfinished().await;
    if let Ok(name) = std::env::var("PERENNIAL_WRITE_FIXTURE") {
        let path = path(&name);
        assert!(!path.exists(), "{} is what a release has written", path.display());
        let text = serde_json::to_string_pretty(&dump).unwrap();
        std::fs::write(path, text + "\n").unwrap();
    }
    finish::finish(&dump).await;
}
