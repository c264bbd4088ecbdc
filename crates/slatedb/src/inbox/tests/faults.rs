//! Three clients and an owner, with every fault at every request.

use super::super::mutation::Mutation;
use super::faulty::Fault;
use super::world::World;
use std::future::Future;
use std::time::Duration;

pub(super) const CLIENTS: [&str; 3] = ["a", "b", "c"];
/// How long after the clients have sent everything it must be applied: a listing comes every minute, and a fault may cost
/// the time of a request or two.
const COMPLETE_WITHIN: u64 = 100;

/// Runs a future in virtual time.
pub(super) fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(run)
}

/// What a client sends: some messages at once, some one after the other.
async fn send_all(world: World, process: u32) {
    let name = CLIENTS[process as usize];
    let client = world.client(process);
    let all = async {
        let at_once = (1..=4).map(|number| format!("{name} {number:03}"));
        let at_once: Vec<String> = at_once.take(if process == 0 { 4 } else { 1 }).collect();
        let sent = at_once.iter().map(|message| world.send(&client, message));
        futures::future::join_all(sent).await;
        for number in 5..=6 {
            world.sleep(u64::from(process)).await;
            world.send(&client, &format!("{name} {number:03}")).await.ok();
        }
    };
    tokio::select! {
        () = all => {}
        () = world.faulty.killed(process) => {}
    }
}

/// How a run ended.
pub(super) struct Ended {
    /// How many requests were made until everything was applied.
    pub(super) requests: usize,
    /// How long after the last message was sent that was.
    pub(super) took: Duration,
}

/// Lets three clients send to an owner; tells what went wrong, if anything did.
pub(super) async fn run(world: &World) -> Result<Ended, String> {
    let owners = world.supervise();
    let clients: Vec<_> = (0..3)
        .map(|process| tokio::spawn(send_all(world.clone(), process)))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let took = world.until(COMPLETE_WITHIN, || world.is_complete(&CLIENTS)).await;
    // Until everything is deleted, too.
    world.sleep(2).await;
    let requests = world.faulty.log().len();
    // Requests that take effect late, and listings that come once a minute.
    world.sleep(150).await;
    owners.abort();
    for client in CLIENTS {
        if let Some(violation) = world.violation(client) {
            return Err(violation);
        }
    }
    let left = world.inbox().await;
    let is_left = (!left.is_empty()).then(|| format!("left behind: {left:?}"));
    let took = took.ok_or("it took too long")?;
    is_left.map_or(Ok(Ended { requests, took }), Err)
}

#[test]
fn without_faults_messages_are_applied_within_a_look_of_their_bell() {
    let ended = in_virtual_time(async { run(&World::new(Mutation::None, &[])).await }).unwrap();
    assert!(ended.took <= Duration::from_secs(2), "{:?}", ended.took);
}

/// Runs every fault at every request; tells the first that broke something.
pub(super) fn sweep(mutation: Mutation) -> Result<usize, String> {
    let whole = in_virtual_time(async { run(&World::new(Mutation::None, &[])).await })?;
    let mut runs = 0;
    for fault in Fault::ALL {
        for index in 0..whole.requests {
            let world = || World::new(mutation, &[(index, fault)]);
            let ended = in_virtual_time(async { run(&world()).await });
            ended.map_err(|why| format!("{fault:?} at request {index}: {why}"))?;
            runs += 1;
        }
    }
    Ok(runs)
}

#[test]
fn every_message_is_applied_once_and_in_order_whatever_request_fails() {
    let runs = sweep(Mutation::None).unwrap();
    assert!(runs > 400, "only {runs} runs");
}

#[test]
fn every_message_is_applied_once_and_in_order_when_two_requests_fail() {
    let whole = in_virtual_time(async { run(&World::new(Mutation::None, &[])).await }).unwrap();
    // A fixed series, so that every run of the test is the same.
    let mut series = 7_u64;
    let mut draw = |below: usize| {
        series = series
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (series >> 33) as usize % below
    };
    for _ in 0..1_000 {
        let first = draw(whole.requests);
        let second = first + 1 + draw(20);
        let plan = [first, second].map(|index| (index, Fault::ALL[draw(Fault::ALL.len())]));
        let ended = in_virtual_time(async { run(&World::new(Mutation::None, &plan)).await });
        assert!(ended.is_ok(), "{plan:?}: {:?}", ended.err());
    }
}
