//! Claims: no work is held twice, and every further delivery has a higher count.

use crate::clock::WallClock;
use crate::facts::{Activity, Delivered, Facts, Held, Leased, TurnNumber};
use crate::life::Life;
use std::sync::Arc;
use std::time::Duration;

impl Held {
    /// Its lease begins again.
    fn renew(&mut self, from_ms: u64, lease: Duration) {
        self.from_ms = from_ms;
        self.until_ms = from_ms + lease.as_millis() as u64;
    }
}

/// Clocks that are further apart than this let one process take over what another one still holds by its own clock.
const AGREED_MS: u64 = 1_000;

/// A lease: its start, by its holder's clock, and its length.
pub type Lease = (u64, Duration);

/// A claim.
fn held(life: &Arc<Life>, token: &str, (from_ms, lease): Lease) -> Held {
    Held {
        token: token.to_owned(),
        holder: Arc::clone(life),
        from_ms,
        until_ms: from_ms + lease.as_millis() as u64,
        acking: false,
    }
}

/// Whether a claim is still valid when another one is handed out.
///
/// Within one process a claim is valid until its lease expires, and longer while it is being acknowledged. Between processes
/// clocks differ, and a lease begins when it is written, some time before its work is handed out: there it is valid while
/// neither clock has seen half of it pass, and if the clocks agree. If two processes hold a claim nevertheless, the checks of
/// acknowledgements see the consequences.
fn is_good(held: &Held, taker: &Life) -> bool {
    if held.holder.number == taker.number {
        return held.acking || held.until_ms > taker.high_ms();
    }
    if !agree(&held.holder.wall, taker) {
        return false;
    }
    let half_ms = held.from_ms.midpoint(held.until_ms).min(held.until_ms);
    half_ms > taker.high_ms() && half_ms > held.holder.high_ms()
}

/// A turn as it was handed out.
pub struct Handed<'a> {
    /// The instance.
    pub instance: &'a str,
    /// The number of the turn.
    pub number: TurnNumber,
    /// The token that names the claim.
    pub token: &'a str,
    /// Its delivery count.
    pub attempt: u32,
}

/// A turn was handed out.
pub fn turn_handed_out(life: &Arc<Life>, turn: &Handed<'_>, lease: Lease) {
    let Handed { instance, token, .. } = *turn;
    let held = held(life, token, lease);
    let mut blames = Vec::new();
    {
        let facts = &mut *life.scene.facts.lock();
        let reached = facts.reached.entry(instance.to_owned()).or_default();
        if turn.number < *reached && life.scene.config.is_shared() {
            // Other processes are past this turn, by clocks that are ahead. It can have no effect.
            return;
        }
        if facts.overtaken.contains(&(instance.to_owned(), life.number)) {
            // It rests on a lease that was ended by a clock that disagrees, and its ack will be refused: it holds nothing.
            return;
        }
        *reached = turn.number;
        let (number, before) = facts.turn_deliveries.entry(instance.to_owned()).or_default();
        let is_next = turn.number == *number && follows(before, life);
        let least = if is_next { before.attempt + 1 } else { 1 };
        if turn.attempt < least {
            let attempt = turn.attempt;
            blames.push(format!(
                "{instance} was handed out as attempt {attempt}, and it is the {least}th"
            ));
        }
        *number = turn.number;
        *before = Delivered {
            attempt: least,
            process: life.number,
            wall: Some(Arc::clone(&life.wall)),
            processes: 1,
            forgiven: false,
        };
        if let Some(other) = facts.turn_claims.insert(instance.to_owned(), held)
            && is_good(&other, life)
        {
            blames.push(format!("{instance} is held by {} and {token}", other.token));
        }
    }
    blames.into_iter().for_each(|blame| life.scene.blame(blame));
}

/// Checks that a turn is handed out on a claim in the store: whatever other processes did to the head since, this process
/// has written its lease there, and not released it.
pub fn check_lease(life: &Life, instance: &str, from_ms: u64) {
    if !life.scene.config.is_shared() {
        return;
    }
    let facts = life.scene.facts.lock();
    let written = facts.leases.get(&(instance.to_owned(), life.number)).cloned();
    drop(facts);
    let is_good = |lease: &Leased| lease.0 == life.owner() && lease.1 > from_ms;
    if !written.clone().flatten().is_some_and(|lease| is_good(&lease)) {
        life.scene.blame(format!(
            "{instance} was handed out at {from_ms} without a claim in the store: the last that the process wrote is {written:?}"
        ));
    }
}

/// Whether a delivery certainly comes after the one before: it does within a process, and between processes whose clocks
/// agree. Otherwise one may have taken over, by its clock, what the other one is handing out.
fn follows(before: &Delivered, life: &Life) -> bool {
    before.process == life.number || before.wall.as_ref().is_none_or(|wall| agree(wall, life))
}

/// Whether two processes agree on which leases have expired: by their clocks, or because they do not run at once.
pub fn agree(wall: &Arc<WallClock>, life: &Life) -> bool {
    !life.scene.config.is_shared() || wall.agrees(&life.wall, AGREED_MS)
}

/// An activity was handed out.
pub fn work_handed_out(life: &Arc<Life>, activity: Activity, token: &str, attempt: u32, lease: Lease) {
    let held = held(life, token, lease);
    let mut blames = Vec::new();
    {
        let facts = &mut *life.scene.facts.lock();
        if let Some(other) = facts.work_claims.insert(activity.clone(), held)
            && is_good(&other, life)
        {
            blames.push(format!("activity {activity:?} is held by {} and {token}", other.token));
        }
        let before = facts.work_deliveries.entry(activity.clone()).or_default();
        let is_next = follows(before, life) || !life.scene.config.is_shared();
        let least = if is_next { least_attempt(before, life) } else { 1 };
        if attempt < least {
            blames.push(format!(
                "activity {activity:?} was handed out as attempt {attempt}, which must be {least} at least"
            ));
        }
        let is_new = before.process != life.number;
        *before = Delivered {
            attempt: least,
            process: life.number,
            wall: Some(Arc::clone(&life.wall)),
            processes: before.processes + u32::from(is_new),
            forgiven: false,
        };
    }
    blames.into_iter().for_each(|blame| life.scene.blame(blame));
}

/// The least delivery count: as often as the work was handed out. On a store of one process a crash may reset that to
/// one, unless the activity had been through a crash already: then every delivery was written durably.
fn least_attempt(before: &Delivered, life: &Life) -> u32 {
    let same_process = before.process == life.number || life.scene.config.is_shared();
    match before {
        Delivered { attempt: 0, .. } => 1,
        Delivered { forgiven: true, .. } if !same_process => 1,
        Delivered {
            attempt,
            forgiven: true,
            ..
        } => *attempt,
        Delivered { attempt, processes, .. } if same_process || *processes > 1 => attempt + 1,
        _ => 2,
    }
}

fn turn_of<'a>(facts: &'a mut Facts, token: &str) -> Option<(&'a String, &'a mut Held)> {
    facts.turn_claims.iter_mut().find(|(_, held)| held.token == token)
}

fn work_of<'a>(facts: &'a mut Facts, token: &str) -> Option<(&'a Activity, &'a mut Held)> {
    facts.work_claims.iter_mut().find(|(_, held)| held.token == token)
}

/// An ack of a turn begins or ends; returns the instance.
pub fn acking_turn(life: &Life, token: &str, acking: bool) -> Option<String> {
    let high_ms = life.high_ms();
    let facts = &mut *life.scene.facts.lock();
    let (instance, held) = turn_of(facts, token)?;
    // If its lease has expired, another holder may have it before the ack is refused.
    held.acking = acking && held.until_ms > high_ms;
    Some(instance.clone())
}

/// An ack of an activity begins or ends.
pub fn acking_work(life: &Life, token: &str, acking: bool) {
    let high_ms = life.high_ms();
    let facts = &mut *life.scene.facts.lock();
    if let Some((_, held)) = work_of(facts, token) {
        held.acking = acking && held.until_ms > high_ms;
    }
}

/// A turn was acknowledged.
pub fn turn_done(life: &Life, instance: &str, token: &str) {
    let facts = &mut *life.scene.facts.lock();
    let is_held = facts.turn_claims.get(instance).is_some_and(|held| held.token == token);
    if is_held {
        facts.turn_claims.remove(instance);
    }
    // A process that has its store for itself may have handed out the next turn by now.
    if is_held || life.scene.config.is_shared() {
        facts.turn_deliveries.remove(instance);
    }
}

/// An ack was refused for good: another holder has taken over, and the claim has ended.
pub fn refused(life: &Life, token: &str) {
    if !life.scene.config.is_shared() {
        return;
    }
    let facts = &mut *life.scene.facts.lock();
    if let Some(instance) = turn_of(facts, token).map(|(instance, _)| instance.clone()) {
        facts.turn_claims.remove(&instance);
        // Perhaps it was overtaken before it was handed out: then the delivery does not count.
        facts.turn_deliveries.remove(&instance);
    }
    facts.work_claims.retain(|_, held| held.token != token);
}

/// An activity was acknowledged.
pub fn work_done(life: &Life, token: &str) {
    life.scene
        .facts
        .lock()
        .work_claims
        .retain(|_, held| held.token != token);
}

/// A caller that was dropped in the middle of an ack: the fate of its claim is not observed.
pub struct Unseen<'a> {
    life: &'a Life,
    token: &'a str,
    seen: bool,
}

impl<'a> Unseen<'a> {
    /// An ack begins.
    pub fn new(life: &'a Life, token: &'a str) -> Self {
        Self {
            life,
            token,
            seen: false,
        }
    }

    /// The end of the ack was observed.
    pub fn seen(mut self) {
        self.seen = true;
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // Whether the ack of a process that died took effect is observed by its commit.
        if self.seen || self.life.is_over() {
            return;
        }
        let facts = &mut *self.life.scene.facts.lock();
        if let Some(instance) = turn_of(facts, self.token).map(|(instance, _)| instance.clone()) {
            facts.turn_claims.remove(&instance);
            facts.turn_deliveries.remove(&instance);
        }
        facts.work_claims.retain(|_, held| held.token != self.token);
    }
}

/// A holder begins to release a claim: from now on any process may have the work, whether or not the holder learns so.
pub fn giving_back(life: &Life, token: &str) {
    let facts = &mut *life.scene.facts.lock();
    let turn = turn_of(facts, token).map(|(_, held)| held.until_ms = 0);
    if turn.is_none()
        && let Some((_, held)) = work_of(facts, token)
    {
        held.until_ms = 0;
    }
}

/// A turn was released. It may return without messages that were hidden for a while, and with a lower count.
pub fn turn_given_back(life: &Life, token: &str) {
    let facts = &mut *life.scene.facts.lock();
    let Some(instance) = turn_of(facts, token).map(|(instance, _)| instance.clone()) else {
        return;
    };
    facts.turn_claims.remove(&instance);
    facts.turn_deliveries.remove(&instance);
}

/// An activity was released.
pub fn work_given_back(life: &Life, token: &str, forgiven: bool) {
    let facts = &mut *life.scene.facts.lock();
    let Some(activity) = work_of(facts, token).map(|(activity, _)| activity.clone()) else {
        return;
    };
    facts.work_claims.remove(&activity);
    if let Some(delivered) = facts.work_deliveries.get_mut(&activity) {
        delivered.forgiven |= forgiven;
    }
}

/// A lease on a turn was renewed, by a call that began at `from_ms`; or it was not, because another holder has taken over.
pub fn turn_renewed(life: &Life, token: &str, from_ms: u64, lease: Duration, renewed: bool) {
    let facts = &mut *life.scene.facts.lock();
    let Some((instance, held)) = turn_of(facts, token) else {
        return;
    };
    if renewed {
        held.renew(from_ms, lease);
    } else if life.scene.config.is_shared() {
        let instance = instance.clone();
        facts.turn_claims.remove(&instance);
    }
}

/// A lease on an activity was renewed; or it was not, because the activity was cancelled or the lease has expired.
pub fn work_renewed(life: &Life, token: &str, from_ms: u64, lease: Duration, renewed: bool) {
    let facts = &mut *life.scene.facts.lock();
    let Some((activity, held)) = work_of(facts, token) else {
        return;
    };
    if renewed {
        held.renew(from_ms, lease);
    } else {
        let activity = activity.clone();
        facts.work_claims.remove(&activity);
    }
}
