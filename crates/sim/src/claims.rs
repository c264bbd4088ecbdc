//! Who holds what: nothing is held by two, and what is handed out again counts higher.

use crate::facts::{Activity, Delivered, Facts, Held};
use crate::scene::Scene;
use perennial_store::Clock;
use std::time::Duration;

fn until_ms(scene: &Scene, lease: Duration) -> u64 {
    scene.clock.now_ms() + lease.as_millis() as u64
}

/// Whether a claim is still good when somebody else gets one.
fn is_good(held: &Held, high_ms: u64) -> bool {
    held.acking || held.until_ms > high_ms
}

/// Somebody got a turn.
pub fn turn_handed_out(scene: &Scene, instance: &str, token: &str, attempt: u32, lease: Duration) {
    let (high_ms, until_ms) = (scene.clock.high_ms(), until_ms(scene, lease));
    let mut blames = Vec::new();
    {
        let facts = &mut *scene.facts.lock();
        let held = Held {
            token: token.to_owned(),
            until_ms,
            acking: false,
        };
        if let Some(other) = facts.turn_claims.insert(instance.to_owned(), held)
            && is_good(&other, high_ms)
        {
            blames.push(format!("{instance} is held by {} and {token}", other.token));
        }
        let process = facts.process;
        let before = facts.turn_deliveries.entry(instance.to_owned()).or_default();
        let least = before.attempt + 1;
        if attempt < least {
            blames.push(format!(
                "{instance} was handed out as attempt {attempt}, and it is the {least}th"
            ));
        }
        *before = Delivered {
            attempt: least,
            process,
            processes: 1,
            forgiven: false,
        };
    }
    blames.into_iter().for_each(|blame| scene.blame(blame));
}

/// Somebody got an activity.
pub fn work_handed_out(scene: &Scene, activity: Activity, token: &str, attempt: u32, lease: Duration) {
    let (high_ms, until_ms) = (scene.clock.high_ms(), until_ms(scene, lease));
    let mut blames = Vec::new();
    {
        let facts = &mut *scene.facts.lock();
        let held = Held {
            token: token.to_owned(),
            until_ms,
            acking: false,
        };
        if let Some(other) = facts.work_claims.insert(activity.clone(), held)
            && is_good(&other, high_ms)
        {
            blames.push(format!("activity {activity:?} is held by {} and {token}", other.token));
        }
        let process = facts.process;
        let before = facts.work_deliveries.entry(activity.clone()).or_default();
        let least = least_attempt(before, process);
        if attempt < least {
            blames.push(format!(
                "activity {activity:?} was handed out as attempt {attempt}, which must be {least} at least"
            ));
        }
        let is_new = before.process != process;
        *before = Delivered {
            attempt: least,
            process,
            processes: before.processes + u32::from(is_new),
            forgiven: false,
        };
    }
    blames.into_iter().for_each(|blame| scene.blame(blame));
}

/// How high a delivery must count: as often as it was handed out. A crash may take that back to once, unless the
/// activity had been through a crash already: then every delivery was written down for good.
fn least_attempt(before: &Delivered, process: u32) -> u32 {
    let same_process = before.process == process;
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
pub fn acking_turn(scene: &Scene, token: &str, acking: bool) -> Option<String> {
    let high_ms = scene.clock.high_ms();
    let facts = &mut *scene.facts.lock();
    let (instance, held) = turn_of(facts, token)?;
    // One whose lease has run out may be held by somebody else before the ack is refused.
    held.acking = acking && held.until_ms > high_ms;
    Some(instance.clone())
}

/// An ack of an activity begins or ends.
pub fn acking_work(scene: &Scene, token: &str, acking: bool) {
    let high_ms = scene.clock.high_ms();
    let facts = &mut *scene.facts.lock();
    if let Some((_, held)) = work_of(facts, token) {
        held.acking = acking && held.until_ms > high_ms;
    }
}

/// A turn was acknowledged.
pub fn turn_done(scene: &Scene, instance: &str, token: &str) {
    let facts = &mut *scene.facts.lock();
    if facts.turn_claims.get(instance).is_some_and(|held| held.token == token) {
        facts.turn_claims.remove(instance);
    }
    facts.turn_deliveries.remove(instance);
}

/// An activity was acknowledged.
pub fn work_done(scene: &Scene, token: &str) {
    scene.facts.lock().work_claims.retain(|_, held| held.token != token);
}

/// A caller that was dropped in the middle of an ack: what becomes of its claim is not seen.
pub struct Unseen<'a> {
    scene: &'a Scene,
    token: &'a str,
    seen: bool,
}

impl<'a> Unseen<'a> {
    /// An ack begins.
    pub fn new(scene: &'a Scene, token: &'a str) -> Self {
        Self {
            scene,
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
        if self.seen {
            return;
        }
        let facts = &mut *self.scene.facts.lock();
        if let Some(instance) = turn_of(facts, self.token).map(|(instance, _)| instance.clone()) {
            facts.turn_claims.remove(&instance);
            facts.turn_deliveries.remove(&instance);
        }
        facts.work_claims.retain(|_, held| held.token != self.token);
    }
}

/// A turn was given back. It may come back without messages that were hidden for a while, and count lower.
pub fn turn_given_back(scene: &Scene, token: &str) {
    let facts = &mut *scene.facts.lock();
    let Some(instance) = turn_of(facts, token).map(|(instance, _)| instance.clone()) else {
        return;
    };
    facts.turn_claims.remove(&instance);
    facts.turn_deliveries.remove(&instance);
}

/// An activity was given back.
pub fn work_given_back(scene: &Scene, token: &str, forgiven: bool) {
    let facts = &mut *scene.facts.lock();
    let Some(activity) = work_of(facts, token).map(|(activity, _)| activity.clone()) else {
        return;
    };
    facts.work_claims.remove(&activity);
    if let Some(delivered) = facts.work_deliveries.get_mut(&activity) {
        delivered.forgiven |= forgiven;
    }
}

/// A lease on a turn was renewed, or not.
pub fn turn_renewed(scene: &Scene, token: &str, lease: Duration, renewed: bool) {
    let until_ms = until_ms(scene, lease);
    let facts = &mut *scene.facts.lock();
    if let Some((_, held)) = turn_of(facts, token)
        && renewed
    {
        held.until_ms = until_ms;
    }
}

/// A lease on an activity was renewed; or it was not, because it was cancelled or has run out.
pub fn work_renewed(scene: &Scene, token: &str, lease: Duration, renewed: bool) {
    let until_ms = until_ms(scene, lease);
    let facts = &mut *scene.facts.lock();
    let Some((activity, held)) = work_of(facts, token) else {
        return;
    };
    if renewed {
        held.until_ms = until_ms;
    } else {
        let activity = activity.clone();
        facts.work_claims.remove(&activity);
    }
}
