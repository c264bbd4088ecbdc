//! Work that was claimed for all to see, on its way to who asked for it: if that one has gone, it is given back.

use crate::engine::Engine;
use duroxide::providers::ProviderError;
use futures::future::BoxFuture;
use perennial_store::Result;
use std::future::Future;
use std::sync::Arc;
use tracing::debug;

/// Gives work back that a token names.
pub type GiveBack = fn(Arc<Engine>, String) -> BoxFuture<'static, Result<(), ProviderError>>;

/// Work as the runtime takes it: the item, the token, and how often it was handed out.
type Fetched<Item> = (Item, String, u32);

struct Handover<Item> {
    fetched: Option<Fetched<Item>>,
    engine: Arc<Engine>,
    give_back: GiveBack,
}

impl<Item> Drop for Handover<Item> {
    fn drop(&mut self) {
        if let Some((_, token, _)) = self.fetched.take() {
            let given = (self.give_back)(Arc::clone(&self.engine), token);
            self.engine.spawner.spawn(async move {
                if let Err(error) = given.await {
                    debug!(%error, "work that nobody took is left to its lease");
                }
            });
        }
    }
}

/// Runs a fetch to its end even if its caller goes away; then what it got is given back.
pub async fn see_through<Item: Send + 'static>(
    engine: &Arc<Engine>,
    fetch: impl Future<Output = Result<Option<Fetched<Item>>>> + Send + 'static,
    give_back: GiveBack,
) -> Result<Option<Fetched<Item>>> {
    let engine = Arc::clone(engine);
    let handover = engine.spawner.shield(async move {
        let fetched = fetch.await?;
        Ok(Handover {
            fetched,
            engine,
            give_back,
        })
    });
    handover
        .await
        .map(|mut handover: Handover<Item>| handover.fetched.take())
}
