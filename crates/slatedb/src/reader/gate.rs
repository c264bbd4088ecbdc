//! A clock whose ticks are given out one by one.

use chrono::{DateTime, Utc};
use perennial_store::Clock;
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

type Slept<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The clock of a reader. Its tickers tick when they are told to; everything else takes its time as usual.
pub(super) struct Gate {
    clock: Arc<dyn Clock>,
    ticks: Ticks,
}

/// Ticks that were asked for, and those that were done with.
struct Ticks(watch::Sender<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    asked: u64,
    /// How many ticks the ticker has waited for: what follows a tick is done when it waits for the next.
    waited: u64,
}

impl Gate {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let ticks = Ticks(watch::Sender::default());
        Self { clock, ticks }
    }

    /// Lets the ticker tick once, and waits until what follows that is done. If the ticker was dropped, that is never.
    pub(super) async fn tick(&self) {
        let mut state = self.ticks.0.subscribe();
        let mut asked = 0;
        self.ticks.0.send_modify(|state| {
            state.asked += 1;
            asked = state.asked;
        });
        // The sender lives as long as this.
        state.wait_for(|state| state.waited > asked).await.ok();
    }
}

fn at(ms: u64) -> DateTime<Utc> {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

impl SystemClock for Gate {
    fn now(&self) -> DateTime<Utc> {
        at(self.clock.now_ms())
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Slept<'a> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(&self.ticks, duration)
    }
}

impl SystemClock for Ticks {
    /// Always the same: how long a ticker sleeps does not matter here.
    fn now(&self) -> DateTime<Utc> {
        at(0)
    }

    /// Sleeps until the next tick is asked for.
    fn sleep<'a>(&'a self, _duration: Duration) -> Slept<'a> {
        Box::pin(async move {
            let mut state = self.0.subscribe();
            let mut wanted = 0;
            self.0.send_modify(|state| {
                state.waited += 1;
                wanted = state.waited;
            });
            state.wait_for(|state| state.asked >= wanted).await.ok();
        })
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate({:?})", self.ticks)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", *self.0.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use perennial_store::SystemClock as MachineClock;

    #[tokio::test]
    async fn a_tick_ends_when_what_follows_it_is_done() {
        let gate = Gate::new(MachineClock::shared());
        let mut ticker = gate.ticker(Duration::from_secs(1));
        let mut tick = Box::pin(gate.tick());
        assert!((&mut tick).now_or_never().is_none(), "nothing ticks yet");
        ticker.tick().await;
        assert!((&mut tick).now_or_never().is_none(), "the work of the tick is not done");
        let mut next = ticker.tick();
        assert!((&mut next).now_or_never().is_none(), "nobody asked for another one");
        tick.await;
        let mut again = Box::pin(gate.tick());
        assert!((&mut again).now_or_never().is_none());
        next.await;
    }
}
