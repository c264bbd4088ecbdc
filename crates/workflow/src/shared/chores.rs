//! What somebody must do sooner or later, whoever began it.

use super::lookout::chores_query;
use crate::engine::Engine;
use crate::records::session;
use crate::work;
use perennial_store::Result;
use std::sync::Arc;

/// Does the chores whose time has come.
pub async fn look(engine: &Arc<Engine>) -> Result<()> {
    let page = engine.store.due(&chores_query(engine.clock.now_ms())).await?;
    for record in page.records {
        let topic = record.place.as_ref().and_then(|place| place.lane.topic.clone());
        match topic.as_deref() {
            Some(session::TOPIC) => work::forget_session(engine, record).await?,
            _ => {}
        }
    }
    Ok(())
}
