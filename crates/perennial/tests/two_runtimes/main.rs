//! A store lives on one tokio runtime, and another one on which it is used is dropped in the middle of a call.
//!
//! Every position at which a call to the store can wait is tried, one after the other: whatever was under way there comes to
//! its end, and what is left to do is handed out on the other runtime. By default each position is tried with one kind of
//! runtime, and every second call is refused for a while, too; `PERENNIAL_EXHAUSTIVE=1` tries everything with all kinds.
//!
//! The same is tried at the moment at which each acknowledgement has returned.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod acks;
mod clock;
#[path = "../support/gated.rs"]
mod gated;
mod stopping_store;
mod story;
mod sweep;

use acks::sweep_acks;
use gated::GatedDisk;
use perennial_kv::{MemoryDisk, MemoryStore, Settings as Kv, SharedMemory};
use perennial_store::Limits;
use perennial_workflow::Settings;
use std::sync::Arc;
use sweep::{Case, Flavor, Medium, sweep};

fn alone(limits: Limits) -> Medium {
    let store = MemoryStore::open_disk(&MemoryDisk::default(), Kv::with_limits(limits)).unwrap();
    Medium::of(Arc::new(store))
}

fn directory() -> Medium {
    let directory = tempfile::tempdir().unwrap();
    let settings = perennial_fjall::Settings::default();
    let store = perennial_fjall::open(directory.path().join("store"), settings).unwrap();
    Medium {
        directory: Some(directory),
        ..Medium::of(Arc::new(store))
    }
}

fn no_cache() -> Settings {
    Settings {
        cache_bytes: 1,
        held_body_bytes: 0,
        ..Settings::default()
    }
}

#[test]
fn on_a_store_of_our_own() {
    sweep(&Case {
        name: "memory",
        open: || alone(Limits::NONE),
        settings: Settings::default,
        flavors: &[Flavor::OneThread, Flavor::Threads, Flavor::StandsStill],
        values: 3,
    });
}

#[test]
fn on_a_store_of_our_own_with_nothing_in_memory() {
    sweep(&Case {
        name: "memory, no cache",
        open: || alone(Limits::NONE),
        settings: no_cache,
        flavors: &[Flavor::OneThread, Flavor::Threads, Flavor::StandsStill],
        values: 3,
    });
}

/// A commit is completed by the store's own thread.
#[test]
fn on_a_directory() {
    sweep(&Case {
        name: "file",
        open: directory,
        settings: Settings::default,
        flavors: &[Flavor::OneThread, Flavor::Threads, Flavor::StandsStill],
        values: 3,
    });
}

/// Messages go through the outbox, and a turn with this many values takes several commits.
#[test]
fn on_a_store_with_small_commits() {
    sweep(&Case {
        name: "small commits",
        open: || alone(Kv::CLOUD_LIMITS),
        settings: Settings::default,
        flavors: &[Flavor::OneThread, Flavor::Threads],
        values: 130,
    });
}

#[test]
fn on_a_store_that_others_share() {
    sweep(&Case {
        name: "shared",
        open: || Medium::of(SharedMemory::new(Kv::CLOUD_LIMITS).unwrap().open()),
        settings: Settings::default,
        flavors: &[Flavor::OneThread, Flavor::Threads],
        values: 130,
    });
}

/// Syncs are held back from before the ack until its runtime is gone: it is surely not durable then.
#[test]
fn after_each_ack_that_is_not_durable() {
    sweep_acks(&Case {
        name: "acks that are not durable",
        open: || {
            let disk = GatedDisk::default();
            Medium {
                disk: Some(disk.clone()),
                ..Medium::of(disk.open().unwrap())
            }
        },
        settings: Settings::default,
        flavors: &[Flavor::OneThread, Flavor::Threads, Flavor::StandsStill],
        values: 3,
    });
}

#[test]
fn after_each_ack_on_a_directory() {
    sweep_acks(&Case {
        name: "acks on a directory",
        open: directory,
        settings: no_cache,
        flavors: &[Flavor::OneThread, Flavor::Threads, Flavor::StandsStill],
        values: 3,
    });
}
