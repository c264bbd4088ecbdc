//! Every fault at every request: never two owners, and somebody owns the shard in the end.

use super::world::*;
use super::*;
use perennial_bucket::Fault;
use std::time::Duration;

/// A part of a lease's life in which a process meets faults.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    /// It acquires a lease that was never held.
    First,
    /// It acquires one that was released.
    Released,
    /// It takes over from a process that is stopped.
    TakeOver,
    /// It begins long after the owner died.
    Restart,
    /// It renews, while another stands by.
    Renew,
    /// It releases, while another stands by.
    Release,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario::First,
    Scenario::Released,
    Scenario::TakeOver,
    Scenario::Restart,
    Scenario::Renew,
    Scenario::Release,
];

/// What happened, for the checks that only some scenarios make.
struct Outcome {
    /// How many requests the process made.
    requests: usize,
    is_kept: bool,
    longest_gap: Duration,
}

/// Longer than a request may take.
const DELAY: Duration = Duration::from_millis(700);

/// Runs a scenario with faults at the given requests of one process.
async fn run(scenario: Scenario, faults: &[(usize, Fault)]) -> Outcome {
    let world = World::new();
    let (before, tested, standby) = (
        world.process("before"),
        world.process("tested"),
        world.process("standby"),
    );
    let plan = || {
        tested.bucket.restart();
        for (index, fault) in faults {
            tested.bucket.fail_at(*index, fault.clone());
        }
    };
    let mut is_kept = true;
    match scenario {
        Scenario::First => {
            plan();
            is_kept = acquire(&tested).await;
        }
        Scenario::Released => {
            before.acquire_now().await.release().await.unwrap();
            plan();
            is_kept = acquire(&tested).await;
        }
        Scenario::TakeOver => {
            std::mem::forget(before.acquire_now().await);
            before.freeze();
            plan();
            is_kept = acquire(&tested).await;
        }
        Scenario::Restart => {
            std::mem::forget(before.acquire_now().await);
            before.freeze();
            pass(secs(60)).await;
            plan();
            is_kept = acquire(&tested).await;
        }
        Scenario::Renew => {
            let held = tested.acquire_now().await;
            standby.stand_by();
            plan();
            pass(secs(6)).await;
            is_kept = held.is_valid();
            *tested.held.lock() = Some(held);
        }
        Scenario::Release => {
            let held = tested.acquire_now().await;
            standby.stand_by();
            pass(ms(1_500)).await;
            plan();
            held.release().await.ok();
        }
    }
    let requests = tested.bucket.requested();
    standby.stand_by();
    // Whoever has it, it is had.
    let owner = world.owned(LENGTH * 2 + secs(5)).await;
    assert!(owner.is_some(), "{scenario:?} {faults:?}: nobody owns the shard");
    pass(LENGTH * 2).await;
    assert!(
        world.owner().is_some(),
        "{scenario:?} {faults:?}: nobody owns the shard any more"
    );
    let violations = world.violations();
    assert!(violations.is_empty(), "{scenario:?} {faults:?}: {violations:?}");
    Outcome {
        requests,
        is_kept,
        longest_gap: world.longest_gap(),
    }
}

/// Acquires, and keeps the lease for a while.
async fn acquire(process: &Process) -> bool {
    match process.acquire(Wait::For(LENGTH)).await {
        Ok(held) => {
            pass(secs(1)).await;
            *process.held.lock() = Some(held);
            true
        }
        Err(_) => false,
    }
}

fn tries(scenario: Scenario, faults: &[(usize, Fault)]) -> Outcome {
    in_virtual_time(run(scenario, faults))
}

#[test]
fn one_fault_at_any_request_does_no_harm() {
    let mut runs = 0;
    for scenario in SCENARIOS {
        let requests = tries(scenario, &[]).requests;
        assert!(requests > 0);
        for index in 0..requests {
            for fault in Fault::all(DELAY) {
                let is_refused = fault == Fault::Deny && !matches!(scenario, Scenario::Renew | Scenario::Release);
                let outcome = tries(scenario, &[(index, fault.clone())]);
                runs += 1;
                assert!(outcome.is_kept || is_refused, "{scenario:?} {fault:?} at {index}: lost");
                let most = match scenario {
                    // One fault does not end a lease that is renewed in time.
                    Scenario::Renew => Duration::ZERO,
                    Scenario::Restart => secs(60) + LENGTH,
                    _ => LENGTH + secs(5),
                };
                let gap = outcome.longest_gap;
                assert!(gap <= most, "{scenario:?} {fault:?} at {index}: no owner for {gap:?}");
            }
        }
    }
    assert!(runs > 200, "only {runs} runs");
}

#[test]
fn two_faults_in_a_row_do_no_harm() {
    for scenario in SCENARIOS {
        let requests = tries(scenario, &[]).requests;
        for index in 0..requests {
            for first in Fault::all(DELAY) {
                for second in Fault::all(DELAY) {
                    tries(scenario, &[(index, first.clone()), (index + 1, second)]);
                }
            }
        }
    }
}

/// The bucket is away for one process for a while, from any request on: it loses the lease or keeps it, and never shares it.
#[test]
fn an_outage_of_any_length_from_any_request_does_no_harm() {
    for scenario in SCENARIOS {
        let requests = tries(scenario, &[]).requests;
        for index in 0..requests {
            for fault in [
                Fault::Fail,
                Fault::LoseReply,
                Fault::Hang,
                Fault::HangAfter,
                Fault::Late(ms(2_500)),
            ] {
                for length in [3, 8, 30] {
                    let faults: Vec<_> = (index..index + length).map(|at| (at, fault.clone())).collect();
                    tries(scenario, &faults);
                }
            }
        }
    }
}
