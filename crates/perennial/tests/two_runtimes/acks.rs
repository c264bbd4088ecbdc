//! Drops a runtime at the moment an acknowledgement has returned on it.
//!
//! The ack is ordered then and not durable: what follows it must happen without the runtime that made it.

use crate::sweep::{Case, Flavor, Setup, live_until, try_all};
use duroxide::providers::ProviderError;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, mpsc};

type Outcome = Result<(), ProviderError>;

/// The acks of turns and activities of one workflow.
#[derive(Default)]
pub struct Acks(Mutex<State>);

#[derive(Default)]
struct State {
    count: usize,
    stop: Option<Stop>,
    /// Why the last ack on the runtime that ended failed, if it did.
    failed: Option<ProviderError>,
    /// The activities that have ended, by their acks.
    ended: BTreeSet<u64>,
    /// Those that were handed out afterwards.
    repeated: Vec<u64>,
}

/// Where the runtime ends.
struct Stop {
    /// How many acks come before.
    at: usize,
    /// Is called before the ack is made.
    before: Box<dyn FnOnce() + Send>,
    /// Tells that it has returned.
    returned: mpsc::Sender<()>,
}

impl Acks {
    /// Makes an ack, and does not return from the one at which the runtime ends.
    pub async fn make(&self, ack: impl Future<Output = Outcome>) -> Outcome {
        let stop = {
            let mut state = self.0.lock().unwrap();
            let number = state.count;
            state.count += 1;
            state.stop.take_if(|stop| stop.at == number)
        };
        let Some(stop) = stop else {
            return ack.await;
        };
        (stop.before)();
        let outcome = ack.await;
        self.0.lock().unwrap().failed = outcome.err();
        stop.returned.send(()).ok();
        std::future::pending().await
    }

    /// An activity has ended.
    pub fn ended(&self, id: u64) {
        self.0.lock().unwrap().ended.insert(id);
    }

    /// An activity was handed out.
    pub fn handed_out(&self, id: u64) {
        let mut state = self.0.lock().unwrap();
        if state.ended.contains(&id) {
            state.repeated.push(id);
        }
    }

    /// Another life begins, with the same activities.
    pub fn forget(&self) {
        self.0.lock().unwrap().ended.clear();
    }

    /// The activities that were handed out after they had ended.
    pub fn repeated(&self) -> Vec<u64> {
        self.0.lock().unwrap().repeated.clone()
    }
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
struct Try {
    at: usize,
    flavor: Flavor,
}

/// Lives until an ack has returned; then its runtime is dropped, and only then the ack can become durable.
fn try_once(case: &Case, one: Try) -> Result<bool, String> {
    let setup = Setup::new(case);
    let (returned, comes) = mpsc::channel();
    let held = Arc::new(Mutex::new(None));
    let before = {
        let (held, disk) = (Arc::clone(&held), setup.disk.clone());
        Box::new(move || *held.lock().unwrap() = disk.map(|disk| disk.hold()))
    };
    setup.acks.0.lock().unwrap().stop = Some(Stop {
        at: one.at,
        before,
        returned: returned.clone(),
    });
    let _still = live_until(&setup, one.flavor, (returned, comes));
    let reached = {
        let state = setup.acks.0.lock().unwrap();
        if let Some(error) = &state.failed {
            return Err(format!("the ack failed: {error}"));
        }
        state.stop.is_none()
    };
    drop(held.lock().unwrap().take());
    setup.go_on()?;
    Ok(reached)
}

/// Tries every ack of a life with every kind of runtime.
pub fn sweep_acks(case: &Case) {
    let setup = Setup::new(case);
    setup.live();
    let acks = setup.acks.0.lock().unwrap().count;
    let flavors = || case.flavors.iter().copied();
    let tries: Vec<Try> = (0..acks)
        .flat_map(|at| flavors().map(move |flavor| Try { at, flavor }))
        .collect();
    let reached = try_all(case, &tries, |one| try_once(case, one));
    let tried = tries.len();
    println!("{}: {acks} acks, {tried} tries, {reached} of them reached", case.name);
    assert!(acks >= 10, "only {acks} acks in a life");
    // How messages come together in turns differs from life to life.
    assert!(reached * 10 > tried * 8, "only {reached} of {tried} acks were reached");
}
