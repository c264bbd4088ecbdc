//! What a commit means for the observers.

use crate::claims::agree;
use crate::facts::{Activity, Facts, Held, Leased};
use crate::life::Life;
use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId};
use std::sync::Arc;

/// What a commit does, by the names of its records.
pub struct Effect {
    /// The records that it changes.
    pub keys: Vec<Key>,
    /// The activities that it stores.
    scheduled: Vec<Activity>,
    /// The activities that it removes.
    taken: Vec<Activity>,
    /// The instances whose heads it writes.
    turned: Vec<String>,
    /// The leases that it writes into heads, or removes with them.
    leased: Vec<(String, Option<Leased>)>,
    /// The instances whose heads it removes.
    removed: Vec<String>,
    /// The instances whose histories it extends.
    continued: Vec<String>,
    /// The instances whose messages it consumes.
    consumed: Vec<String>,
    /// The intents whose messages it delivers.
    delivered: Vec<Key>,
}

/// The instance that a record belongs to.
pub fn instance_of(key: &Key) -> Option<&str> {
    key.partition.as_str().strip_prefix("wf:")
}

/// The activity of a record.
fn activity_of(key: &Key) -> Option<Activity> {
    let mut parts = key.id.as_str().strip_prefix("work/")?.split('/');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    Some((instance_of(key)?.to_owned(), number()?, number()?))
}

/// The intent that a message comes from.
fn intent_of(message: &Draft) -> Option<Key> {
    let may_have_one =
        message.key.id.as_str().starts_with("msg/") && message.body.windows(8).any(|part| part == b"\"from\":{");
    let body: serde_json::Value = serde_json::from_slice(may_have_one.then_some(&message.body)?).ok()?;
    let text = |name| body.get("from")?.get(name)?.as_str();
    Some(Key::new(
        Partition::new(text("partition")?),
        RecordId::from_raw(text("id")?),
    ))
}

/// The lease in a head.
pub fn lease_of(head: &Draft) -> Option<Leased> {
    let body: serde_json::Value = serde_json::from_slice(&head.body).ok()?;
    let lease = body.get("lease")?;
    Some((
        lease.get("owner")?.as_str()?.to_owned(),
        lease.get("until_ms")?.as_u64()?,
    ))
}

/// What a commit does to the lease on an instance, if anything.
fn leased(op: &Op) -> Option<(String, Option<Leased>)> {
    let instance = instance_of(op.key()).filter(|_| op.key().id.as_str() == "head")?;
    Some((instance.to_owned(), op.draft().and_then(lease_of)))
}

impl Effect {
    /// What a commit will do if it takes effect.
    pub fn of(commit: &Commit) -> Self {
        let changes = || commit.ops.iter().filter(|op| !matches!(op, Op::Absent(_)));
        let writes = || changes().filter_map(Op::draft).map(|draft| &draft.key);
        let takes = || changes().filter(|op| op.draft().is_none()).map(Op::key);
        let pages = writes().filter(|key| key.id.as_str().starts_with("page/"));
        let consumed = takes().filter(|key| key.id.as_str().starts_with("msg/"));
        let created = changes().filter_map(|op| match op {
            Op::Create(draft) => Some(draft),
            _ => None,
        });
        let heads = writes().filter(|key| key.id.as_str() == "head");
        let removed = takes().filter(|key| key.id.as_str() == "head");
        fn instances<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<String> {
            keys.filter_map(instance_of).map(str::to_owned).collect()
        }
        Self {
            keys: changes().map(|op| op.key().clone()).collect(),
            scheduled: writes().filter_map(activity_of).collect(),
            taken: takes().filter_map(activity_of).collect(),
            turned: instances(heads),
            leased: changes().filter_map(leased).collect(),
            removed: instances(removed),
            continued: instances(pages),
            consumed: instances(consumed),
            delivered: created.filter_map(intent_of).collect(),
        }
    }

    /// The commit took effect.
    pub fn happened(&self, life: &Life) {
        let facts = &mut *life.scene.facts.lock();
        facts.scheduled.extend(self.scheduled.iter().cloned());
        for (instance, lease) in &self.leased {
            // A head that goes with its instance was not released: a deletion takes no notice of claims.
            if lease.is_some() || !self.removed.contains(instance) || !facts.deleted.contains(instance) {
                facts.leases.insert((instance.clone(), life.number), lease.clone());
            }
        }
        let told = self.continued.iter().chain(&self.consumed);
        let told = told.map(|instance| (instance.clone(), life.number));
        facts.turned_by.extend(told);
        let continued = self.continued.iter().cloned();
        facts
            .turned_at
            .extend(continued.map(|instance| (instance, Arc::clone(&life.wall))));
        for intent in &self.delivered {
            if !facts.delivered.insert(intent.clone()) {
                facts
                    .violations
                    .push(format!("the message of {intent} was delivered again"));
            }
        }
        if life.scene.config.is_shared() {
            self.release_acknowledged(life, facts);
            self.take_over(life, facts);
            self.end_leases(life, facts);
        }
    }

    /// Notes whose lease is in a head from now on. A process whose clock disagrees may end the lease of another one that is
    /// about to hand out a turn on it, and does not know that it is lost. If the clocks agree, that must not happen.
    fn end_leases(&self, life: &Life, facts: &mut Facts) {
        for (instance, lease) in &self.leased {
            let is_ours = lease.as_ref().map(|(owner, _)| *owner == life.owner());
            if is_ours == Some(false) {
                continue;
            }
            if let Some((number, wall)) = facts.leaseholders.remove(instance)
                && number != life.number
                && !agree(&wall, life)
            {
                facts.overtaken.insert((instance.clone(), number));
            }
            if is_ours == Some(true) {
                let holder = (life.number, Arc::clone(&life.wall));
                facts.leaseholders.insert(instance.clone(), holder);
                facts.overtaken.remove(&(instance.clone(), life.number));
            }
        }
    }

    /// A process whose clock disagrees with that of a holder may take over what the holder holds, and give it back without
    /// ever handing it out: then a third process gets it, whose clock may agree with the holder's.
    fn take_over(&self, life: &Life, facts: &mut Facts) {
        let is_taken = |held: &Held| held.holder.number != life.number && !agree(&held.holder.wall, life);
        for activity in &self.scheduled {
            if facts.work_claims.get(activity).is_some_and(is_taken) {
                facts.work_claims.remove(activity);
            }
        }
        let claims = |lease: &Option<Leased>| lease.as_ref().is_some_and(|lease| lease.0 == life.owner());
        for (instance, _) in self.leased.iter().filter(|(_, lease)| claims(lease)) {
            if facts.turn_claims.get(instance).is_some_and(is_taken) {
                facts.turn_claims.remove(instance);
            }
        }
    }

    /// The commit of an ack of this process, which has its store for itself, is durable: from now on its instances and
    /// activities may be handed out again, even before the ack returns.
    pub fn acknowledged(&self, life: &Life) {
        let facts = &mut *life.scene.facts.lock();
        for instance in &self.turned {
            facts.turn_claims.remove(instance);
            facts.turn_deliveries.remove(instance);
        }
        for activity in &self.taken {
            facts.work_claims.remove(activity);
        }
    }

    /// From now on other processes may get what this commit acknowledges, even before its reply arrives.
    fn release_acknowledged(&self, life: &Life, facts: &mut Facts) {
        for instance in &self.turned {
            let held = facts.turn_claims.get(instance);
            if held.is_some_and(|held| held.acking && held.holder.number == life.number) {
                facts.turn_claims.remove(instance);
                facts.turn_deliveries.remove(instance);
                if self.continued.contains(instance) {
                    facts.go_beyond(instance);
                }
            }
        }
        for activity in &self.taken {
            let held = facts.work_claims.get(activity);
            if held.is_some_and(|held| held.acking && held.holder.number == life.number) {
                facts.work_claims.remove(activity);
            }
        }
    }
}
