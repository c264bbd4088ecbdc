//! Leases that last longer, for all to see.

use crate::board::ClaimId;
use crate::engine::{BREATHER, Engine};
use crate::error::{dead_token, from_store};
use duroxide::providers::ProviderError;
use perennial_store::Result as Stored;
use std::future::Future;
use std::sync::Arc;

/// Lets others see that what a token names is held for longer, by `prolong`, which tells whether it is still held. Returns since
/// when they count. It goes on while the store fails: the runtime does not try again, and gives up
/// an activity whose lease is not renewed.
pub async fn renew<Prolong, Prolonged>(
    engine: &Arc<Engine>,
    operation: &'static str,
    token: &str,
    prolong: Prolong,
) -> Result<u64, ProviderError>
where
    Prolong: Fn(Arc<Engine>, ClaimId, u64) -> Prolonged + Send + Sync + 'static,
    Prolonged: Future<Output = Stored<bool>> + Send,
{
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(operation))?;
    let engine = Arc::clone(engine);
    // Who does not wait for the answer any more must not leave the claim behind as it is while it is written.
    engine
        .spawner
        .shield(async move {
            loop {
                let now_ms = engine.clock.now_ms();
                match prolong(Arc::clone(&engine), id, now_ms).await {
                    Ok(true) => return Ok(now_ms),
                    Ok(false) => return Err(dead_token(operation)),
                    Err(error) if error.is_transient() => engine.clock.sleep(BREATHER).await,
                    Err(error) => return Err(from_store(operation, &error)),
                }
            }
        })
        .await
}
