//! These tests can fail: every mutation of the engine is found.

use crate::store::{FAULTS, Fault};
use crate::{deletion, large, messages};
use perennial_workflow::testing::{Mutation, mutate};

async fn is_found(mutation: Mutation) -> bool {
    for fault in FAULTS {
        for at in 0..24 {
            mutate(Some(mutation));
            let found = match mutation {
                Mutation::SplitCommit | Mutation::LoseStaged => large::try_with(Some((at, fault))).await.1,
                _ => messages::try_with(Some((at, fault))).await.1,
            };
            mutate(None);
            if let Err(why) = found {
                println!("{mutation:?} is found by {fault:?} at commit {at}: {why:.200}");
                return true;
            }
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn every_mutation_is_found() {
    for mutation in [
        Mutation::DeleteIntentFirst,
        Mutation::DeliverTwice,
        Mutation::NoTombstone,
        Mutation::SplitCommit,
        Mutation::LoseStaged,
    ] {
        assert!(is_found(mutation).await, "{mutation:?} is not found");
    }
}

/// The unchanged engine passes where the mutations fail.
#[tokio::test(start_paused = true)]
async fn the_unchanged_engine_passes() {
    assert_eq!(deletion::try_with(Some((0, Fault::LostReply))).await.1, Ok(()));
    assert_eq!(messages::try_with(Some((3, Fault::LostReply))).await.1, Ok(()));
    assert_eq!(large::try_with(Some((3, Fault::LostReply))).await.1, Ok(()));
}
