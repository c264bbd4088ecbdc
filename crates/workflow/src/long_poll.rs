//! The loop of every fetch: take what is there, or wait for it.

use crate::board::{Waiting, Want};
use crate::engine::{Engine, deadline};
use duroxide::providers::ProviderError;
use perennial_store::Result;
use std::sync::Arc;
use std::time::Duration;

/// What a fetch is for: turns or activities.
pub trait Fetch {
    /// A claim on the board, to be made good.
    type Guard;
    /// What the caller gets.
    type Fetched;

    /// What the fetch is called in errors.
    const OPERATION: &'static str;

    /// What wakes it while it waits.
    fn want(&self) -> Want;

    /// Makes sure that the board is right about what the fetch would take.
    async fn refresh(&self, _engine: &Arc<Engine>) {}

    /// Claims the oldest that is ready on the board.
    fn take(&self, engine: &Arc<Engine>, waiting: Option<&Waiting>) -> Option<Self::Guard>;

    /// Makes a claim good and reads what it is on; `None` if that turns out to be nothing.
    async fn acquire(&self, engine: &Arc<Engine>, guard: Self::Guard) -> Result<Option<Self::Fetched>>;

    /// The board has nothing: waits for what is on its way even if the caller does not; returns whether to look again.
    async fn linger(&mut self, _engine: &Arc<Engine>) -> bool {
        false
    }

    /// The fetch was woken.
    async fn woken(&self) {}
}

/// Hands out the oldest work that `fetch` may take, waiting for it until `deadline_ms`, at most `poll` from now. A fetch that
/// does not wait sees all that was acknowledged before.
pub async fn long_poll<F: Fetch>(
    engine: &Arc<Engine>,
    fetch: &mut F,
    poll: Duration,
    mut deadline_ms: u64,
) -> Result<Option<F::Fetched>, ProviderError> {
    let want = fetch.want();
    if poll.is_zero() {
        engine.outstanding.all().await;
    }
    let mut waiting: Option<Waiting> = None;
    // A caller that does not wait cannot be woken by the poller.
    let mut polls_itself = poll.is_zero();
    loop {
        // If the clock is put back, the wait does not become longer by that.
        deadline_ms = deadline_ms.min(deadline(engine.clock.now_ms(), poll));
        fetch.refresh(engine).await;
        if let Some(guard) = fetch.take(engine, waiting.as_ref()) {
            drop(waiting.take());
            match fetch.acquire(engine, guard).await {
                Ok(None) => {}
                Ok(fetched) => return Ok(fetched),
                Err(error) => engine.wait_out(F::OPERATION, &error, deadline_ms).await?,
            }
        } else if fetch.linger(engine).await {
            // What was on its way may be here.
        } else if engine.clock.now_ms() >= deadline_ms {
            if !std::mem::take(&mut polls_itself) || !engine.mode.poll_now(engine, &want).await {
                return Ok(None);
            }
        } else if let Some(waiting) = &waiting {
            engine.mode.watch(engine);
            waiting.sleep(deadline_ms).await;
            fetch.woken().await;
        } else {
            // A fetch that begins to wait must look once more before it sleeps.
            waiting = Some(engine.board.wait(want.clone()));
        }
    }
}
