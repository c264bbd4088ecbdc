//! Work that was claimed in the store, on its way to the caller that asked for it: if the caller has gone, it is given back.

use super::Shared;
use crate::engine::Engine;
use duroxide::providers::ProviderError;
use futures::future::BoxFuture;
use perennial_store::Result;
use std::future::Future;
use std::sync::Arc;
use tracing::debug;

/// Gives work back that a token names.
pub type GiveBack = fn(Arc<Engine>, Arc<Shared>, String) -> BoxFuture<'static, Result<(), ProviderError>>;

/// Work as the runtime takes it: the item, the token, and how often it was handed out.
type Fetched<Item> = (Item, String, u32);

struct Handover<Item> {
    fetched: Option<Fetched<Item>>,
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    give_back: GiveBack,
}

impl<Item> Drop for Handover<Item> {
    fn drop(&mut self) {
        if let Some((_, token, _)) = self.fetched.take() {
            let given = (self.give_back)(Arc::clone(&self.engine), Arc::clone(&self.shared), token);
            self.engine.spawner.spawn(async move {
                if let Err(error) = given.await {
                    debug!(%error, "work that no caller took is left to its lease");
                }
            });
        }
    }
}

/// Runs a fetch to its end even if its caller goes away; then what it got is given back.
pub async fn hand_over<Item: Send + 'static>(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    fetch: impl Future<Output = Result<Option<Fetched<Item>>>> + Send + 'static,
    give_back: GiveBack,
) -> Result<Option<Fetched<Item>>> {
    let (engine, shared) = (Arc::clone(engine), Arc::clone(shared));
    let handover = engine.spawner.shield(async move {
        let fetched = fetch.await?;
        Ok(Handover {
            fetched,
            engine,
            shared,
            give_back,
        })
    });
    handover
        .await
        .map(|mut handover: Handover<Item>| handover.fetched.take())
}
