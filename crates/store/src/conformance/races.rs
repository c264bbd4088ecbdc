//! Concurrent callers.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Error, Op, Partition, ScanQuery, Store};
use futures::future::join_all;
use std::sync::Arc;

const RACERS: usize = 16;

/// Runs one task for each racer and returns their results.
async fn race<T, F>(store: &Arc<dyn Store>, run: impl Fn(Arc<dyn Store>, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks = (0..RACERS).map(|n| tokio::spawn(run(store.clone(), n)));
    let tasks: Vec<_> = tasks.collect();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

/// A fenced turn: all but one fail with a conflict.
pub async fn of_many_that_replace_one_version_exactly_one_wins(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for _ in 0..10 {
        let version = put(&*store, draft("p", "head", "start")).await;
        let outcomes = race(&store, |store, n| {
            let op = Op::Replace(draft("p", "head", &n.to_string()), version.clone());
            async move { one(&*store, op).await.map(|_| n) }
        })
        .await;
        let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        assert!(
            outcomes
                .iter()
                .flat_map(|outcome| outcome.as_ref().err())
                .all(|error| matches!(error, Error::Conflict { .. }))
        );
        assert_eq!(body(&*store, &key("p", "head")).await, Some(winners[0].to_string()));
    }
}

/// The same where the record did not exist.
pub async fn of_many_that_create_one_record_exactly_one_wins(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for round in 0..10 {
        let id = round.to_string();
        let outcomes = race(&store, |store, n| {
            let op = Op::Create(queued("p", &id, n as u64, 0));
            async move { one(&*store, op).await.is_ok() }
        })
        .await;
        assert_eq!(outcomes.into_iter().filter(|won| *won).count(), 1);
        assert_eq!(due_at(&*store, 0).await.0.len(), round + 1);
    }
}

/// Read, change, replace, and repeat on a conflict: no increment is lost.
pub async fn every_increment_counts(factory: &dyn StoreFactory) {
    const EACH: usize = 10;
    let store = factory.create().await;
    put(&*store, draft("p", "n", "0")).await;
    race(&store, |store, _| async move {
        for _ in 0..EACH {
            loop {
                let record = get(&*store, &key("p", "n")).await.unwrap();
                let n: usize = std::str::from_utf8(&record.body).unwrap().parse().unwrap();
                let op = Op::Replace(draft("p", "n", &(n + 1).to_string()), record.version);
                match one(&*store, op).await {
                    Ok(_) => break,
                    Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    })
    .await;
    assert_eq!(body(&*store, &key("p", "n")).await, Some((RACERS * EACH).to_string()));
}

/// A scan shows all or nothing of each commit, also while records move between tables.
pub async fn readers_never_see_half_a_commit(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [draft("p", "a", "0"), draft("p", "b", "0")]).await;
    race(&store, |store, n| async move {
        for round in 0..40 {
            if n == 0 {
                let text = round.to_string();
                let mut drafts = [draft("p", "a", &text), draft("p", "b", &text)];
                if round % 2 == 0 {
                    drafts = drafts.map(|draft| draft.placed(place(None, 1, 0)));
                }
                let commit = Commit::new(drafts.map(Op::Put).into());
                let commit = if round % 3 == 0 { commit.relaxed() } else { commit };
                store.commit(commit).await.unwrap();
            } else {
                let page = scan(&*store, &ScanQuery::all(Partition::new("p"), 10)).await;
                assert_eq!(ids(&page.records), ["a", "b"]);
                assert_eq!(page.records[0].body, page.records[1].body);
                assert!(get(&*store, &key("p", "a")).await.is_some());
            }
        }
    })
    .await;
}
