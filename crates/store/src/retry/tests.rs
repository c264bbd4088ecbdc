use super::*;
use crate::{ConflictReason, Draft, Partition, RecordId, Stamps, Version};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// What the next commit does.
enum Next {
    Apply,
    FailBefore(Error),
    LoseReply,
}

/// A store of one map that fails as scripted.
#[derive(Default)]
struct Scripted {
    records: Mutex<BTreeMap<Key, Record>>,
    script: Mutex<VecDeque<Next>>,
    commits: Mutex<u64>,
    /// Whether other processes write too.
    is_shared: bool,
    /// Runs before the next record is read.
    before_get: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Scripted {
    fn apply(&self, commit: &Commit) -> Result<Committed> {
        let mut records = self.records.lock().unwrap();
        for (op, one) in commit.ops.iter().enumerate() {
            if matches!(one, Op::Create(_)) && records.contains_key(one.key()) {
                return Err(Error::Conflict {
                    op,
                    reason: ConflictReason::Exists,
                });
            }
        }
        let mut versions = Vec::new();
        for op in &commit.ops {
            *self.commits.lock().unwrap() += 1;
            versions.push(op.draft().map(|_| Version::number(*self.commits.lock().unwrap())));
            match op.draft() {
                None => drop(records.remove(op.key())),
                Some(draft) => {
                    let version = Version::number(*self.commits.lock().unwrap());
                    let (key, body) = (draft.key.clone(), draft.body.clone());
                    let record = Record {
                        key: key.clone(),
                        version,
                        body,
                        place: None,
                        listing: None,
                    };
                    records.insert(key, record);
                }
            }
        }
        Ok(Committed::of(versions))
    }
}

#[async_trait]
impl Store for Scripted {
    fn limits(&self) -> Limits {
        Limits::NONE
    }
    fn sharing(&self) -> Sharing {
        match self.is_shared {
            true => Sharing::Shared,
            false => Sharing::Exclusive,
        }
    }
    fn epoch(&self) -> u64 {
        1
    }
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        let next = self.script.lock().unwrap().pop_front().unwrap_or(Next::Apply);
        match next {
            Next::Apply => self.apply(&commit),
            Next::FailBefore(error) => Err(error),
            Next::LoseReply => {
                self.apply(&commit)?;
                Err(Error::UnknownOutcome("the reply was lost".to_string()))
            }
        }
    }
    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        if let Some(act) = self.before_get.lock().unwrap().take() {
            act();
        }
        Ok(self.records.lock().unwrap().get(key).cloned())
    }
    async fn scan(&self, _: &ScanQuery) -> Result<ScanPage> {
        Ok(ScanPage::default())
    }
    async fn due(&self, _: &DueQuery) -> Result<DuePage> {
        Ok(DuePage::default())
    }
    async fn list(&self, _: &ListFilter, _: Option<&Cursor>, _: usize) -> Result<ListPage> {
        Ok(ListPage::default())
    }
    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        Ok(Vec::new())
    }
    fn signals(&self) -> Signals {
        Signals::none()
    }
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A clock on which sleeping takes no time but counts.
#[derive(Default)]
struct Skipping(Mutex<u64>);

#[async_trait]
impl Clock for Skipping {
    fn now_ms(&self) -> u64 {
        *self.0.lock().unwrap()
    }
    async fn sleep(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration.as_millis() as u64;
    }
}

fn setup(script: impl IntoIterator<Item = Next>) -> (Arc<Scripted>, Arc<Skipping>, RetryStore) {
    setup_of(false, script)
}

fn setup_of(is_shared: bool, script: impl IntoIterator<Item = Next>) -> (Arc<Scripted>, Arc<Skipping>, RetryStore) {
    let store = Arc::new(Scripted {
        script: Mutex::new(script.into_iter().collect()),
        is_shared,
        ..Scripted::default()
    });
    let clock = Arc::new(Skipping::default());
    let retrying = RetryStore::new(store.clone(), clock.clone(), Duration::from_secs(4));
    (store, clock, retrying)
}

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

fn create(id: &str) -> Commit {
    Commit::new(vec![Op::Create(Draft::new(key(id), Bytes::from("{}")))])
}

#[tokio::test]
async fn transient_failures_are_waited_out_and_the_servers_wait_is_honoured() {
    let throttled = Next::FailBefore(Error::Throttled {
        retry_after: Duration::from_millis(700),
    });
    let down = Next::FailBefore(Error::Unavailable("for a moment".to_string()));
    let (_, clock, retrying) = setup([throttled, down]);
    retrying.commit(create("a")).await.unwrap();
    assert!(clock.now_ms() >= 700, "waited {} ms", clock.now_ms());
}

#[tokio::test]
async fn retries_end_when_the_time_is_up() {
    let down = (0..1_000).map(|_| Next::FailBefore(Error::Unavailable("for good".to_string())));
    let (_, clock, retrying) = setup(down);
    assert!(matches!(retrying.commit(create("a")).await, Err(Error::Unavailable(_))));
    assert!((4_000..6_000).contains(&clock.now_ms()), "waited {} ms", clock.now_ms());
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_recognised_and_not_made_twice() {
    let (store, _, retrying) = setup([Next::LoseReply]);
    let committed = retrying.commit(create("a")).await.unwrap();
    assert_eq!(committed.version(0), Some(&Version::number(1)));
    assert_eq!(*store.commits.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_commit_that_was_lost_before_it_happened_is_made_again() {
    let (store, _, retrying) = setup([Next::FailBefore(Error::UnknownOutcome("cut off".to_string()))]);
    retrying.commit(create("a")).await.unwrap();
    assert_eq!(*store.commits.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_deletion_whose_reply_was_lost_is_recognised() {
    let (_, _, retrying) = setup([Next::Apply, Next::LoseReply]);
    retrying.commit(create("a")).await.unwrap();
    retrying.commit(Commit::new(vec![Op::Remove(key("a"))])).await.unwrap();
    assert_eq!(retrying.get(&key("a")).await.unwrap(), None);
}

#[tokio::test]
async fn lasting_failures_are_not_retried() {
    let (store, clock, retrying) = setup([Next::Apply, Next::FailBefore(Error::Closed("broken".to_string()))]);
    retrying.commit(create("a")).await.unwrap();
    assert!(matches!(retrying.commit(create("b")).await, Err(Error::Closed(_))));
    assert!(matches!(
        retrying.commit(create("a")).await,
        Err(Error::Conflict { op: 0, .. })
    ));
    assert_eq!((*store.commits.lock().unwrap(), clock.now_ms()), (1, 0));
}

#[tokio::test]
async fn a_version_that_another_process_wrote_since_does_not_pass_for_the_commits_own() {
    let (store, _, retrying) = setup([Next::LoseReply]);
    let two = Commit::new(vec![
        Op::Create(Draft::new(key("a"), Bytes::from("1"))),
        Op::Create(Draft::new(key("b"), Bytes::from("2"))),
    ]);
    let overwritten = Arc::clone(&store);
    let commit = async { retrying.commit(two).await.unwrap() };
    let overwrite = Commit::new(vec![Op::Put(Draft::new(key("b"), Bytes::from("3")))]);
    // The reply is lost when the commit is first polled; the other write comes before the record is read back.
    *store.before_get.lock().unwrap() = Some(Box::new(move || drop(overwritten.apply(&overwrite))));
    let committed = commit.await;
    assert!(committed.version(0).is_some());
    assert_eq!(committed.version(1), None);
}

#[tokio::test]
async fn an_overwritten_record_is_no_evidence_where_the_commit_also_creates_one() {
    // Another process makes the same turn: its head says the same, its page names another process.
    let (_, _, retrying) = setup([
        Next::Apply,
        Next::Apply,
        Next::FailBefore(Error::UnknownOutcome("cut off".to_string())),
    ]);
    retrying.commit(create("head")).await.unwrap();
    let turn = |by: &'static str| {
        Commit::new(vec![
            Op::Replace(
                Draft::new(key("head"), Bytes::from(r#"{"turns":1}"#)),
                Version::number(1),
            ),
            Op::Create(Draft::new(key("page"), Bytes::from(by))),
        ])
    };
    retrying.commit(turn("theirs")).await.unwrap();
    assert!(matches!(
        retrying.commit(turn("ours")).await,
        Err(Error::Conflict { .. })
    ));
    assert_eq!(
        retrying.get(&key("page")).await.unwrap().unwrap().body,
        Bytes::from("theirs")
    );
}

fn cut_off() -> Next {
    Next::FailBefore(Error::UnknownOutcome("cut off".to_string()))
}

#[tokio::test]
async fn an_equal_record_of_another_process_is_no_evidence_for_a_commit() {
    // Both have reason to write the very same records: a message that was in a head, and the head without it.
    let (store, _, retrying) = setup_of(true, [Next::Apply, cut_off()]);
    retrying.commit(create("head")).await.unwrap();
    let set_free = |stamps: &Stamps| {
        let mut commit = Commit::new(vec![
            Op::Put(Draft::new(key("head"), Bytes::from(r#"{"lease":null}"#))),
            Op::Create(Draft::new(key("msg"), Bytes::from(r#"{"item":"hello"}"#))),
        ]);
        stamps.mark(&mut commit);
        commit
    };
    let (theirs, ours) = (Stamps::new(Arc::from("theirs")), Stamps::new(Arc::from("ours")));
    let others = Arc::clone(&store);
    let their_commit = set_free(&theirs);
    *store.before_get.lock().unwrap() = Some(Box::new(move || drop(others.apply(&their_commit))));
    let outcome = retrying.commit(set_free(&ours)).await;
    assert!(matches!(outcome, Err(Error::Conflict { op: 1, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_commit_that_only_deletes_is_made_again_as_long_as_any_record_is_left() {
    // Any of the three may be gone already, whichever process deleted it.
    for gone in 0..3 {
        let (store, _, retrying) = setup_of(true, [Next::Apply, Next::Apply, Next::Apply, cut_off()]);
        for id in ["a", "b", "c"] {
            retrying.commit(create(id)).await.unwrap();
        }
        store.records.lock().unwrap().remove(&key(["a", "b", "c"][gone]));
        let remove = |id: &str| Op::Remove(key(id));
        let committed = retrying.commit(Commit::new(["a", "b", "c"].map(remove).to_vec())).await;
        assert!(!committed.unwrap().inferred, "it was made again, and its reply arrived");
        assert!(store.records.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_deletion_that_finds_every_record_gone_is_inferred_on_a_shared_store() {
    for is_shared in [true, false] {
        let (_, _, retrying) = setup_of(is_shared, [Next::Apply, Next::LoseReply]);
        retrying.commit(create("a")).await.unwrap();
        let delete = Op::Delete(key("a"), Version::number(1));
        let committed = retrying.commit(Commit::new(vec![delete])).await.unwrap();
        assert_eq!(committed.inferred, is_shared);
    }
}
