use super::*;
use perennial_store::{Clock, SystemClock};
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

fn spawner() -> Spawner {
    Spawner::new(&SystemClock)
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn threads() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// How long something may take that must happen.
const LONG: Duration = Duration::from_secs(60);

/// Something that is begun, waits, sleeps and tells that it has ended.
struct Work {
    begun: mpsc::Receiver<()>,
    go: oneshot::Sender<()>,
    ended: mpsc::Receiver<()>,
}

fn work() -> (Work, impl Future<Output = u8> + Send + 'static) {
    let (begin, begun) = mpsc::channel();
    let (go, wait) = oneshot::channel();
    let (end, ended) = mpsc::channel();
    let future = async move {
        begin.send(()).unwrap();
        wait.await.unwrap();
        SystemClock.sleep(Duration::from_millis(5)).await;
        end.send(()).unwrap();
        7
    };
    (Work { begun, go, ended }, future)
}

impl Work {
    fn ends(self) {
        self.go.send(()).unwrap();
        self.ended.recv_timeout(LONG).expect("it comes to its end");
    }
}

#[tokio::test]
async fn a_shield_that_is_not_dropped_answers() {
    let (work, future) = work();
    work.go.send(()).unwrap();
    assert_eq!(spawner().shield(future).await, 7);
}

#[tokio::test]
async fn a_dropped_shield_finishes_what_it_began() {
    let (work, future) = work();
    let mut shield = spawner().shield(future);
    assert!((&mut shield).now_or_never().is_none());
    drop(shield);
    work.ends();
}

#[test]
fn a_shield_that_is_dropped_outside_of_any_runtime_finishes() {
    let (work, future) = work();
    let mut shield = spawner().shield(future);
    one_thread().block_on(async { assert!((&mut shield).now_or_never().is_none()) });
    drop(shield);
    work.ends();
}

#[test]
fn a_shield_finishes_when_its_runtime_is_dropped() {
    for runtime in [one_thread(), threads()] {
        let (work, future) = work();
        let shielded = runtime.spawn(spawner().shield(future));
        if runtime.handle().runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread {
            runtime.block_on(tokio::task::yield_now());
        }
        work.begun.recv_timeout(LONG).unwrap();
        drop(runtime);
        drop(shielded);
        work.ends();
    }
}

/// The caller is gone first, and then the runtime on which the rest went on.
#[test]
fn a_rest_that_lost_its_runtime_too_finishes() {
    let runtime = threads();
    let (work, future) = work();
    let shielded = runtime.spawn(spawner().shield(future));
    work.begun.recv_timeout(LONG).unwrap();
    shielded.abort();
    runtime.block_on(shielded).unwrap_err();
    drop(runtime);
    work.ends();
}

#[test]
fn a_rest_finishes_although_its_runtime_stands_still() {
    let runtime = one_thread();
    let (work, future) = work();
    runtime.block_on(async {
        let mut shield = spawner().shield(future);
        assert!((&mut shield).now_or_never().is_none());
    });
    work.ends();
    drop(runtime);
}

#[test]
fn a_sleep_that_began_on_a_runtime_that_is_dropped_ends_in_time() {
    for runtime in [one_thread(), threads()] {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let sleeping = async move {
            let mut sleep = SystemClock.sleep(Duration::from_millis(300));
            assert!((&mut sleep).now_or_never().is_none());
            begin.send(()).unwrap();
            sleep.await;
            end.send(()).unwrap();
        };
        runtime.spawn(spawner().shield(sleeping));
        if runtime.handle().runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread {
            runtime.block_on(tokio::task::yield_now());
        }
        begun.recv_timeout(LONG).unwrap();
        drop(runtime);
        ended.recv_timeout(LONG).expect("it wakes up");
    }
}

#[test]
fn a_task_that_nobody_waits_for_finishes_when_its_runtime_is_dropped() {
    let runtime = threads();
    let (work, future) = work();
    let entered = runtime.enter();
    spawner().spawn(future.map(drop));
    drop(entered);
    work.begun.recv_timeout(LONG).unwrap();
    drop(runtime);
    work.ends();
}

#[test]
fn a_task_that_is_spawned_where_there_is_no_runtime_finishes() {
    let (work, future) = work();
    spawner().spawn(future.map(drop));
    work.begun.recv_timeout(LONG).unwrap();
    work.ends();
}

/// What has panicked is over, and its runtime goes on.
#[tokio::test]
async fn a_shield_that_panicked_is_not_run_again() {
    let (told, tells) = mpsc::channel();
    let panicking = spawner().shield(async move {
        told.send(()).unwrap();
        panic!("on purpose");
    });
    assert!(tokio::spawn(panicking).await.unwrap_err().is_panic());
    let all: Vec<()> = tells.iter().collect();
    assert_eq!(all.len(), 1);
}

/// The time of a simulation ends with its runtime, and so does all that goes on in it.
#[test]
fn what_cannot_outlive_its_runtime_ends_with_it() {
    struct Bound;
    #[async_trait::async_trait]
    impl Clock for Bound {
        fn now_ms(&self) -> u64 {
            0
        }
        async fn sleep(&self, _: Duration) {}
    }
    let runtime = one_thread();
    let (work, future) = work();
    runtime.spawn(Spawner::new(&Bound).shield(future));
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    assert!(work.go.is_closed());
    assert!(work.ended.recv().is_err());
}
