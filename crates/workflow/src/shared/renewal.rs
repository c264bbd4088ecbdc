//! Renewing leases in the store.

use crate::board::ClaimId;
use crate::engine::Engine;
use crate::error::{dead_token, from_store};
use crate::tuning::FAILURE_PAUSE;
use duroxide::providers::ProviderError;
use perennial_store::Result as Stored;
use std::future::Future;
use std::sync::Arc;

/// Extends the lease that a token names by `extend`, which returns whether it is still held. Returns the time from which other
/// processes count it. Retries while the store fails: the runtime does not, and gives up an activity whose lease is not
/// renewed.
pub async fn renew<Extend, Extended>(
    engine: &Arc<Engine>,
    operation: &'static str,
    token: &str,
    extend: Extend,
) -> Result<u64, ProviderError>
where
    Extend: Fn(Arc<Engine>, ClaimId, u64) -> Extended + Send + Sync + 'static,
    Extended: Future<Output = Stored<bool>> + Send,
{
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(operation))?;
    let engine = Arc::clone(engine);
    // A caller that goes away must not leave the claim in the state that it has while it is written.
    engine
        .spawner
        .shield(async move {
            loop {
                let now_ms = engine.clock.now_ms();
                match extend(Arc::clone(&engine), id, now_ms).await {
                    Ok(true) => return Ok(now_ms),
                    Ok(false) => return Err(dead_token(operation)),
                    Err(error) if error.is_transient() => engine.clock.sleep(FAILURE_PAUSE).await,
                    Err(error) => return Err(from_store(operation, &error)),
                }
            }
        })
        .await
}
