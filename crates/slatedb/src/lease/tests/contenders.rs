//! Several processes want the shard: one has it at a time.

use super::world::*;
use super::*;
use perennial_bucket::Method;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn the_first_to_come_owns_the_shard_for_as_long_as_it_lives() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    other.stand_by();
    pass(secs(60)).await;
    assert!(held.is_valid() && held.remaining() > Duration::ZERO);
    assert_eq!(world.owner().as_deref(), Some("one"));
    assert_eq!(world.longest_gap(), Duration::ZERO);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_clean_release_hands_over_within_three_seconds() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    other.stand_by();
    pass(secs(10)).await;
    let handle = held.handle();
    held.release().await.unwrap();
    assert_eq!(handle.check(), Err(Ended::Released));
    assert_eq!(world.owned(secs(3)).await.as_deref(), Some("other"));
    assert!(world.longest_gap() <= secs(3));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn three_take_turns_and_none_is_served_twice_at_once() {
    let world = World::new();
    let mut turns = Vec::new();
    for name in ["one", "two", "three"] {
        let process = world.process(name);
        turns.push(tokio::spawn(async move {
            let mut generations = Vec::new();
            for _ in 0..5 {
                let held = process.acquire(Wait::Forever).await.unwrap();
                generations.push(held.generation());
                pass(ms(2_700)).await;
                assert!(held.is_valid());
                held.release().await.unwrap();
            }
            generations
        }));
    }
    let mut generations = Vec::new();
    for turn in turns {
        generations.extend(turn.await.unwrap());
    }
    generations.sort_unstable();
    assert_eq!(generations, (1..=15).collect::<Vec<_>>());
    assert!(world.longest_gap() <= secs(3), "{:?}", world.longest_gap());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn three_begin_at_once_and_one_wins() {
    let world = World::new();
    let processes = ["one", "two", "three"].map(|name| world.process(name));
    for process in &processes {
        process.stand_by();
    }
    pass(secs(1)).await;
    let held = processes.iter().filter(|process| process.held.lock().is_some());
    assert_eq!(held.count(), 1);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_that_jump_change_nothing() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let _held = one.acquire_now().await;
    other.stand_by();
    for error_ms in [i64::from(i32::MAX), -86_400_000, 3_600_000, -1] {
        one.clocks.set_wall_error_ms(error_ms);
        other.clocks.set_wall_error_ms(-error_ms);
        pass(secs(5)).await;
        // One that begins now compares clocks; those of the bucket alone.
        let late = world.process("late");
        late.clocks.set_wall_error_ms(error_ms.saturating_mul(3));
        assert!(matches!(
            late.acquire(Wait::For(ms(100))).await,
            Err(Error::Owned { .. })
        ));
    }
    assert_eq!(world.owner().as_deref(), Some("one"));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn clocks_whose_rates_differ_by_less_than_the_margin_do_no_harm() {
    for (slow, fast) in [(950, 1_000), (1_000, 1_050), (960, 1_020)] {
        let world = World::new();
        let (owner, standby) = (
            world.process_at_rate("owner", slow),
            world.process_at_rate("standby", fast),
        );
        let _held = owner.acquire_now().await;
        standby.stand_by();
        pass(secs(5)).await;
        owner.freeze();
        assert_eq!(world.owned(secs(20)).await.as_deref(), Some("owner"));
        pass(secs(10)).await;
        assert_eq!(world.owner().as_deref(), Some("standby"));
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_costs_one_get_a_second_and_no_write() {
    let world = World::new();
    let (one, standby) = (world.process("one"), world.process("standby"));
    let held = one.acquire_now().await;
    standby.stand_by();
    pass(secs(5)).await;
    let (before, owner_before) = (standby.bucket.counts(), one.bucket.counts());
    pass(secs(600)).await;
    let after = standby.bucket.counts().since(&before);
    assert_eq!(after.writes(), 0);
    assert!((500..=600).contains(&after.reads()), "{after:?}");
    let owner = one.bucket.counts().since(&owner_before);
    // A renewal is one PUT.
    assert_eq!(owner.reads(), 0);
    assert!((850..=900).contains(&owner.of(Method::Put)), "{owner:?}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn an_idle_owner_with_default_settings_makes_six_requests_a_minute() {
    let world = World::with(perennial_bucket::Tags::Content, Settings::default());
    let one = world.process("one");
    let _held = one.acquire_now().await;
    assert_eq!(one.bucket.counts().total(), 2);
    pass(secs(600)).await;
    let counts = one.bucket.counts();
    assert_eq!((counts.of(Method::Put), counts.reads()), (61, 1));
}
