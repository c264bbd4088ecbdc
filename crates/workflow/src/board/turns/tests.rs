use super::*;
use crate::board::{Board, Body, Covered, Subject, Window};
use crate::instance::Snapshot;
use crate::meters::Meters;
use perennial_store::{RecordId, SystemClock, Topics};
use std::time::Duration;

const LOCK: Duration = Duration::from_secs(5);
const ORDER: Order = Order(7);

fn queued() -> QueuedMessage {
    QueuedMessage {
        id: RecordId::of("msg").text("one"),
        version: Version::number(1),
        due_ms: 0,
        attempts: 0,
        noted: 0,
        old: false,
        certain: false,
        since: None,
        inline: false,
        sort: MessageKind::Event,
        body: Body::Stored,
        from: None,
    }
}

/// A board of a shared store with one message, and a claim on its instance that was handed out or is kept back.
fn claimed(handed_out: bool) -> (Arc<Board>, Arc<str>, ClaimId) {
    let board = Arc::new(Board::new(SystemClock::shared(), 1, true, Arc::new(Meters::new())));
    let instance: Arc<str> = Arc::from("one");
    let mut inner = board.inner.lock();
    inner.post(&instance, ORDER, queued(), Pin::Open, 0);
    let subject = Subject::Turn {
        instance: Arc::clone(&instance),
        handed: Vec::new(),
        snapshot: handed_out.then(|| Arc::new(Snapshot::default())),
        window: Window::of(None),
    };
    let claim = inner.make_claim(subject, 0, LOCK);
    assert_eq!(inner.hold(&instance, claim, 10).len(), 1);
    drop(inner);
    (board, instance, claim)
}

type Removal = fn(&mut Inner, &Arc<str>);

/// The ways in which a board learns that the messages of an instance are not there any more.
const REMOVALS: [Removal; 5] = [
    |inner, _| {
        let covered = Covered {
            topics: &Topics::All,
            after: None,
            until_ms: 0,
        };
        let hints = inner.hints(&covered);
        inner.forget_hints(hints);
    },
    |inner, instance| inner.leave_alone(instance, 1_000, 0),
    |inner, instance| {
        inner.consume(instance, &[ORDER]);
        inner.refresh(instance);
        inner.drop_if_idle(instance);
    },
    |inner, instance| inner.evict(instance, &[ORDER]),
    |inner, instance| {
        inner.forget_messages(instance, &[ORDER]);
        inner.refresh(instance);
    },
];

#[test]
fn a_mailbox_that_is_removed_takes_its_lapsed_claim_along() {
    for handed_out in [true, false] {
        for (number, remove) in REMOVALS.into_iter().enumerate() {
            for lapses_first in [true, false] {
                let (board, instance, _) = claimed(handed_out);
                let mut inner = board.inner.lock();
                if lapses_first {
                    inner.advance(10_000);
                }
                remove(&mut inner, &instance);
                inner.advance(10_000);
                let mailbox = inner.turns.mailboxes.get(&instance);
                if mailbox.is_some_and(|mailbox| !mailbox.visible.is_empty()) {
                    // A hint that a lapsed claim is on stays until somebody takes it.
                    assert!(lapses_first && number == 0);
                    continue;
                }
                let case = format!("removal {number}, handed out: {handed_out}, lapses first: {lapses_first}");
                assert_eq!(inner.claims.len(), 0, "{case}");
                assert!(inner.turns.mailboxes.is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn a_claim_that_lapsed_stays_while_there_are_messages() {
    let (board, instance, claim) = claimed(true);
    let mut inner = board.inner.lock();
    inner.advance(10_000);
    assert!(inner.claim(claim).is_some() && inner.turns.mailboxes.contains_key(&instance));
}
