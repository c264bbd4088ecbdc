//! The interface between a store's test crate and the scenarios.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide::providers::Provider;

/// One store under test. Each test gets a backend of its own.
#[async_trait]
pub trait Backend: Send + Sync {
    /// How many messages a turn brings at most: all that wait, unless the store's commits are too small for that.
    fn messages_per_turn(&self) -> usize {
        usize::MAX
    }

    /// How many times slower than memory it may be before a scenario is taken to hang: more for a database that is played by
    /// a test double.
    fn slowness(&self) -> u32 {
        1
    }

    /// Opens a fresh, empty store. Called once, before anything else.
    async fn open(&self) -> Arc<dyn Provider>;

    /// Closes the store cleanly and opens the same data again.
    ///
    /// All runtimes on the old provider are stopped by then; an old handle may still be alive, unused.
    async fn restart(&self) -> Arc<dyn Provider>;

    /// Drops the store as a dying process would, losing whatever was not yet durable, and opens the same data again.
    async fn crash(&self) -> Arc<dyn Provider>;

    /// Puts an undecodable message into the orchestrator queue of `instance`, behind what is there.
    async fn plant_undecodable_message(&self, instance: &str);

    /// Puts an undecodable work item into the worker queue, on behalf of `instance`, behind what is there.
    async fn plant_undecodable_work(&self, instance: &str);
}
