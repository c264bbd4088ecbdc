//! Who holds what: nothing is held by two, and what is handed out again counts higher.

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

/// Clocks that are further apart than this let one process take over what another one holds by its own clock.
const AGREED_MS: u64 = 1_000;

/// A lease: since when it runs, by the clock of who has it, and for how long.
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

/// Whether a claim is still good when somebody else gets one.
///
/// Within one process that is so until its lease runs out, and longer while it is being acknowledged. Between processes
/// clocks differ, and a lease begins when it is written, some time before its work is handed out: there it is good while
/// neither clock has seen half of it pass, and if they agree. What comes of it if two hold a claim nevertheless is
/// checked by what is acknowledged.
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
    /// Which of its turns.
    pub number: TurnNumber,
    /// The token that names the claim.
    pub token: &'a str,
    /// How often it was handed out.
    pub attempt: u32,
}

/// Somebody got a turn.
pub fn turn_handed_out(life: &Arc<Life>, turn: &Handed<'_>, lease: Lease) {
    let Handed { instance, token, .. } = *turn;
    let held = held(life, token, lease);
    let mut blames = Vec::new();
    {
        let facts = &mut *life.scene.facts.lock();
        let reached = facts.reached.entry(instance.to_owned()).or_default();
        if turn.number < *reached && life.scene.config.is_shared() {
            // One that others have gone beyond, by clocks that are ahead. Nothing can come of it.
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

/// A turn is handed out on a claim that stands in the store: whatever others did to the head since, the process itself has
/// written its lease there, and not given it back.
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

/// Whether a delivery comes after the one before for sure: it does within a process, and between those whose clocks
/// agree. Else one may have taken over, by its clock, what the other hands out now.
fn follows(before: &Delivered, life: &Life) -> bool {
    before.process == life.number || before.wall.as_ref().is_none_or(|wall| agree(wall, life))
}

/// Whether two processes agree on which leases have run out: by their clocks, or because they do not run at once.
pub fn agree(wall: &Arc<WallClock>, life: &Life) -> bool {
    !life.scene.config.is_shared() || wall.agrees(&life.wall, AGREED_MS)
}

/// Somebody got an activity.
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

/// How high a delivery must count: as often as it was handed out. On a store of its own a crash may take that back to
/// once, unless the activity had been through a crash already: then every delivery was written down for good.
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

/// An ack of a turn begins or ends; tells the instance.
pub fn acking_turn(life: &Life, token: &str, acking: bool) -> Option<String> {
    let high_ms = life.high_ms();
    let facts = &mut *life.scene.facts.lock();
    let (instance, held) = turn_of(facts, token)?;
    // One whose lease has run out may be held by somebody else before the ack is refused.
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
    if facts.turn_claims.get(instance).is_some_and(|held| held.token == token) {
        facts.turn_claims.remove(instance);
    }
    facts.turn_deliveries.remove(instance);
}

/// An ack was refused for good: somebody else has taken over, and what was held is not held any more.
pub fn refused(life: &Life, token: &str) {
    if !life.scene.config.is_shared() {
        return;
    }
    let facts = &mut *life.scene.facts.lock();
    if let Some(instance) = turn_of(facts, token).map(|(instance, _)| instance.clone()) {
        facts.turn_claims.remove(&instance);
        // It had been overtaken when it was handed out, perhaps: then it does not count.
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

/// A caller that was dropped in the middle of an ack: what becomes of its claim is not seen.
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

    /// Its end is seen.
    pub fn seen(mut self) {
        self.seen = true;
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // Whether the ack of a process that died took effect is seen by its commit.
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

/// A holder begins to give something back: from now on it may be anybody's, whether or not the holder learns of that.
pub fn giving_back(life: &Life, token: &str) {
    let facts = &mut *life.scene.facts.lock();
    let turn = turn_of(facts, token).map(|(_, held)| held.until_ms = 0);
    if turn.is_none()
        && let Some((_, held)) = work_of(facts, token)
    {
        held.until_ms = 0;
    }
}

/// A turn was given back. It may come back without messages that were hidden for a while, and count lower.
pub fn turn_given_back(life: &Life, token: &str) {
    let facts = &mut *life.scene.facts.lock();
    let Some(instance) = turn_of(facts, token).map(|(instance, _)| instance.clone()) else {
        return;
    };
    facts.turn_claims.remove(&instance);
    facts.turn_deliveries.remove(&instance);
}

/// An activity was given back.
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

/// A lease on a turn was renewed, by a call that began at `from_ms`; or it was not, because somebody has taken over.
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

/// A lease on an activity was renewed; or it was not, because it was cancelled or has run out.
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
