//! Claims on work, and when they expire.

use super::alarms::{Alarm, AlarmKey};
use super::{ClaimId, Inner, MessageKind, Window};
use crate::engine::later;
use crate::instance::Snapshot;
use crate::mutation::mutant;
use crate::outbox::Origin;
use perennial_store::{Order, RecordId, Version};
use std::sync::Arc;
use std::time::Duration;

/// A message that was handed out.
#[derive(Clone, Debug)]
pub struct Handed {
    /// Its order of arrival.
    pub order: Order,
    /// The id of its record.
    pub id: RecordId,
    /// The version of its record.
    pub version: Version,
    /// Whether it is in the head of its instance and has no record.
    pub inline: bool,
    /// What it is.
    pub sort: MessageKind,
    /// The intent that it came from, if it came through an outbox.
    pub origin: Option<Arc<Origin>>,
}

/// What a claim is on.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A turn of an instance: these messages, on top of this snapshot.
    Turn {
        /// The instance.
        instance: Arc<str>,
        /// The messages that were handed out.
        handed: Vec<Handed>,
        /// The instance when they were handed out; `None` while it is being read.
        snapshot: Option<Arc<Snapshot>>,
        /// The versions that the dispatcher runs.
        window: Window,
    },
    /// An activity.
    Work {
        /// Which one.
        order: Order,
    },
}

/// A claim.
#[derive(Debug)]
pub struct Claim {
    /// What it is on.
    pub subject: Subject,
    /// When it was made.
    pub since_ms: u64,
    /// When it expires; it is worthless from then on.
    pub until_ms: u64,
    /// Whether a commit under way relies on it: then it does not expire.
    pub committing: bool,
    /// Whether that commit is ordered and its ack was given: the token is dead, and what it was for is held until the commit
    /// is durable.
    pub acked: bool,
    alarm: Option<AlarmKey>,
    /// The session that a worker took for it and that worker's hold, where other processes see it.
    pub took: Option<(Arc<str>, Arc<str>)>,
    /// Held while the claim is written for other processes to see.
    pub gate: Arc<tokio::sync::Mutex<()>>,
}

impl Inner {
    /// Makes a claim that lasts for `lock`.
    pub fn make_claim(&mut self, subject: Subject, now_ms: u64, lock: Duration) -> ClaimId {
        let until_ms = later(now_ms, lock);
        self.claims_made += 1;
        let id = ClaimId(self.claims_made);
        let alarm = Some(self.set_alarm(until_ms, Alarm::Claim(id)));
        self.claims.insert(
            id,
            Claim {
                subject,
                since_ms: now_ms,
                until_ms,
                committing: false,
                acked: false,
                alarm,
                took: None,
                gate: Arc::default(),
            },
        );
        id
    }

    /// Forgets a claim.
    pub fn drop_claim(&mut self, id: ClaimId) {
        if let Some(alarm) = self.claims.remove(&id).and_then(|claim| claim.alarm) {
            self.alarms.cancel(alarm);
        }
    }

    /// The claim, if it has not expired and no commit relies on it yet.
    pub fn live_claim(&mut self, id: ClaimId, now_ms: u64) -> Option<&mut Claim> {
        self.claims
            .get_mut(&id)
            .filter(|claim| claim.until_ms > now_ms && !claim.committing)
    }

    /// Changes when a claim expires.
    pub fn extend(&mut self, id: ClaimId, until_ms: u64) {
        let old = self.claims.get_mut(&id).and_then(|claim| claim.alarm.take());
        if let Some(old) = old {
            self.alarms.cancel(old);
        }
        let alarm = self.set_alarm(until_ms, Alarm::Claim(id));
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.until_ms = until_ms;
            claim.alarm = Some(alarm);
        }
    }

    /// The commit that relies on a claim is ordered: nothing more can be done with its token.
    pub fn acked(&mut self, id: ClaimId) {
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.acked = true;
        }
    }

    /// No commit relies on a claim any more: it may expire again.
    pub fn end_commit(&mut self, id: ClaimId, now_ms: u64) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.committing = false;
        claim.acked = false;
        let until_ms = claim.until_ms.max(now_ms);
        self.extend(id, until_ms);
    }

    /// A lease has expired: its work is ready again.
    pub fn claim_alarm(&mut self, id: ClaimId, now_ms: u64) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.alarm = None;
        if claim.committing {
            return;
        }
        self.meters.lapses.increment(1);
        // It stays lapsed even if the clock is put back: its holder may know already that the lease is lost.
        mutant!(ReviveLapsed, {}, claim.until_ms = 0);
        match claim.subject.clone() {
            Subject::Turn { instance, .. } => self.lapse_turn(&instance, id),
            Subject::Work { order } => self.lapse_activity(order, id, now_ms),
        }
    }
}
