//! An acquisition that is dropped leaves nothing behind that others must wait for.

use super::world::*;
use super::*;
use futures::FutureExt;
use perennial_bucket::Fault;

/// Drops an acquisition when its n-th request is under way, with a fault in it. Returns how long another process then takes,
/// and whether there were so many requests.
async fn drop_at(request: usize, fault: Option<Fault>) -> Option<std::time::Duration> {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    if let Some(fault) = fault {
        one.bucket.fail_at(request, fault);
    }
    let mut acquire = Box::pin(one.acquire(Wait::Forever));
    let is_under_way = async {
        tokio::select! {
            held = &mut acquire => { drop(held); false }
            () = one.bucket.wait_for(request + 1) => true,
        }
    };
    if !is_under_way.await {
        return None;
    }
    drop(acquire);
    let before = world.now();
    other.acquire(Wait::For(secs(20))).await.unwrap();
    let taken = world.now() - before;
    world.check();
    Some(taken)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_gives_up_what_it_has_written() {
    for request in 0..2 {
        let taken = drop_at(request, None).await.unwrap();
        assert!(taken <= ms(1_100), "request {request}: {taken:?}");
    }
    assert_eq!(drop_at(2, None).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_whose_reply_is_lost_gives_up_what_it_has_written() {
    for fault in [
        Fault::LoseReply,
        Fault::HangAfter,
        Fault::Twice,
        Fault::DelayReply(ms(700)),
    ] {
        let taken = drop_at(1, Some(fault.clone())).await.unwrap();
        assert!(taken <= ms(1_500), "{fault:?}: {taken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_that_took_effect_late_runs_out() {
    let taken = drop_at(1, Some(Fault::Late(ms(100)))).await.unwrap();
    assert!(taken <= LENGTH + secs(5), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_won_but_not_delivered_is_released() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let mut acquire = Box::pin(one.acquire(Wait::Forever));
    assert!((&mut acquire).now_or_never().is_none());
    // It wins, and the result waits for a caller that does not look.
    pass(secs(3)).await;
    assert!(one.candidate.look().await.unwrap().unwrap().document.state == State::Held);
    drop(acquire);
    pass(ms(100)).await;
    let before = world.now();
    other.acquire_now().await;
    assert!(world.now() - before < ms(50));
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_dropped_stops_looking() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let _held = one.acquire_now().await;
    let mut acquire = Box::pin(other.acquire(Wait::Forever));
    assert!((&mut acquire).now_or_never().is_none());
    pass(secs(3)).await;
    drop(acquire);
    pass(ms(10)).await;
    let before = other.bucket.counts();
    pass(secs(10)).await;
    assert_eq!(other.bucket.counts(), before);
}
