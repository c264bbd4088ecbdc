//! An owner that was stopped or suspended beyond its lease serves nothing when it goes on.

use super::world::*;
use super::*;
use parking_lot::Mutex;
use std::sync::Arc;

/// Serves reads every few milliseconds: checks the lease after each, and notes those that it would reply to.
fn serve(process: &Process, handle: Handle, served: Arc<Mutex<Vec<String>>>) {
    let (process, name) = (process.clone(), process.name.clone());
    tokio::spawn(async move {
        loop {
            use perennial_store::Clock;
            // The read. The process may be stopped here.
            process.clocks.sleep(ms(7)).await;
            if !handle.is_valid() {
                return;
            }
            served.lock().push(name.clone());
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_frozen_owner_serves_nothing_after_its_lease() {
    for frozen_ms in [1_000, 1_900, 2_500, 60_000] {
        let world = World::new();
        let (owner, standby) = (world.process("owner"), world.process("standby"));
        let held = owner.acquire_now().await;
        standby.stand_by();
        let served = Arc::<Mutex<Vec<String>>>::default();
        serve(&owner, held.handle(), Arc::clone(&served));
        pass(secs(5)).await;
        assert!(served.lock().len() > 500);
        owner.freeze();
        // While it is frozen, the lease runs out.
        pass(ms(frozen_ms)).await;
        served.lock().clear();
        let is_over = !held.would_be_valid();
        owner.thaw();
        pass(secs(5)).await;
        assert_eq!(is_over, served.lock().is_empty(), "after {frozen_ms} ms");
        if is_over {
            assert!(matches!(
                held.check(),
                Err(Ended::Expired { .. } | Ended::TakenOver { .. })
            ));
        }
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_freeze_does_not_cost_the_lease() {
    let world = World::new();
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    for _ in 0..20 {
        pass(ms(650)).await;
        owner.freeze();
        pass(ms(1_000)).await;
        owner.thaw();
        pass(ms(50)).await;
    }
    assert!(held.is_valid());
    assert_eq!(world.longest_gap(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_does_not_come_back() {
    let world = World::new();
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    owner.freeze();
    pass(secs(10)).await;
    assert!(!held.is_valid());
    owner.thaw();
    pass(secs(10)).await;
    let lost = held.lost().await;
    assert!(
        matches!(&lost, Ended::Expired { why } if why.contains("stopped for too long")),
        "{lost:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_wakes_up_in_time_renews_at_once() {
    let world = World::with(perennial_bucket::Tags::Counter, Settings::default());
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    pass(secs(1)).await;
    owner.freeze();
    pass(secs(20)).await;
    let before = held.remaining();
    owner.thaw();
    pass(ms(1_100)).await;
    assert!(held.remaining() > before + secs(10));
}

/// The control of this check: a clock that does not count suspension makes two owners.
#[tokio::test(start_paused = true)]
async fn a_clock_that_does_not_count_suspension_would_be_found() {
    let world = World::new();
    let (owner, standby) = (world.process("owner"), world.process("standby"));
    let _held = owner.acquire_now().await;
    standby.stand_by();
    pass(secs(5)).await;
    owner.freeze();
    pass(secs(60)).await;
    owner.clocks.lose(secs(60));
    world.observe();
    assert!(!world.violations().is_empty());
}
