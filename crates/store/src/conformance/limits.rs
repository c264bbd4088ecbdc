//! How much one commit may hold.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Error, Op, Store};

/// A test cannot try more operations than this.
const TRIABLE_OPS: usize = 10_000;
const TRIABLE_BYTES: usize = 8 * 1024 * 1024;

async fn expect(store: &dyn Store, ops: Vec<Op>, fits: bool, what: &str) {
    match store.commit(Commit::new(ops)).await {
        Ok(_) => assert!(fits, "{what}: more than the limit was accepted"),
        Err(Error::TooLarge { actual, limit, .. }) => {
            assert!(!fits, "{what}: a commit within the limit was refused");
            assert!(actual > limit);
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A commit at the limits succeeds, one beyond them is refused and changes nothing.
pub async fn the_limits_are_kept(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let limits = store.limits();
    let records = |count: usize, size: usize| -> Vec<Op> {
        let body = "x".repeat(size);
        (0..count).map(|n| Op::Put(draft("p", &n.to_string(), &body))).collect()
    };
    if limits.ops_per_commit < TRIABLE_OPS {
        expect(&*store, records(limits.ops_per_commit + 1, 1), false, "operations").await;
        assert!(all_ids(&*store, "p").await.is_empty());
        expect(&*store, records(limits.ops_per_commit, 1), true, "operations").await;
    }
    if limits.bytes_per_record < TRIABLE_BYTES {
        expect(
            &*store,
            records(1, limits.bytes_per_record + 1),
            false,
            "bytes of a record",
        )
        .await;
        expect(&*store, records(1, limits.bytes_per_record), true, "bytes of a record").await;
    }
    if limits.bytes_per_commit < TRIABLE_BYTES {
        let size = (limits.bytes_per_commit / 4 + 1).min(limits.bytes_per_record);
        let count = limits.bytes_per_commit / size + 1;
        expect(&*store, records(count, size), false, "bytes of a commit").await;
    }
    let partitions = |count: usize| (0..count).map(|n| Op::Put(draft(&format!("p{n}"), "a", ""))).collect();
    match limits.partitions_per_commit {
        limit if limit < limits.ops_per_commit.min(TRIABLE_OPS) => {
            expect(&*store, partitions(limit + 1), false, "partitions").await;
            expect(&*store, partitions(limit), true, "partitions").await;
        }
        _ => expect(&*store, partitions(20), true, "partitions").await,
    }
}
