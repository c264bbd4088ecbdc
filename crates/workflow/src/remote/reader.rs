//! Reading instances of a store that another process writes.

use crate::engine::later;
use crate::error::from_store;
use crate::instance::{self, Snapshot};
use crate::read::{Instances, unless_deleted};
use crate::records::chore::Topic;
use crate::records::head::Head;
use crate::records::partition;
use crate::tuning::{REMOTE_READ_AGAIN, REMOTE_REMEMBERED, REMOTE_REMEMBERED_BYTES, RETRY_FOR};
use duroxide::providers::ProviderError;
use parking_lot::Mutex;
use perennial_store::{ChunkedStore, Clock, Error, Result, RetryStore, Store, Version};
use std::collections::VecDeque;
use std::sync::Arc;

/// Reads instances, and writes nothing.
pub struct Reader {
    /// The store, with retries and with bodies in one piece.
    pub store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The instances that were read last, the latest first: one that is polled costs a look at its head.
    remembered: Mutex<VecDeque<(Arc<str>, Arc<Snapshot>)>>,
}

impl Reader {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let retrying = Arc::new(RetryStore::new(store, Arc::clone(&clock), RETRY_FOR));
        // Nothing is ever staged, so the nonce does not matter.
        let store = ChunkedStore::new(retrying, Arc::clone(&clock), Topic::Parts.lane(), 0);
        Self {
            store: Arc::new(store),
            clock,
            remembered: Mutex::default(),
        }
    }

    /// The instance as it was read before, if its head is still at this version.
    fn known(&self, instance: &str, version: &Version) -> Option<Arc<Snapshot>> {
        let remembered = self.remembered.lock();
        let (_, snapshot) = remembered.iter().find(|(name, _)| **name == *instance)?;
        let (_, known) = snapshot.head.as_ref()?;
        (known == version).then(|| Arc::clone(snapshot))
    }

    fn remember(&self, instance: &str, snapshot: &Arc<Snapshot>) {
        let mut remembered = self.remembered.lock();
        remembered.retain(|(name, _)| **name != *instance);
        if snapshot.head.is_some() && snapshot.weight() <= REMOTE_REMEMBERED_BYTES {
            remembered.push_front((Arc::from(instance), Arc::clone(snapshot)));
            remembered.truncate(REMOTE_REMEMBERED);
        }
    }

    /// Reads an instance. A turn that the owner has not completed is waited for, so that half of it is never seen.
    async fn load(&self, instance: &str) -> Result<Arc<Snapshot>> {
        let deadline_ms = later(self.clock.now_ms(), RETRY_FOR);
        while self.clock.now_ms() <= deadline_ms {
            if let Some(snapshot) = self.read_once(instance).await? {
                return Ok(snapshot);
            }
            self.clock.sleep(REMOTE_READ_AGAIN).await;
        }
        let why =
            format!("the instance {instance:?} changes faster than it can be read, or its last turn is incomplete");
        Err(Error::Unavailable(why))
    }

    /// Reads an instance; `None` if what was read is not of one moment.
    async fn read_once(&self, instance: &str) -> Result<Option<Arc<Snapshot>>> {
        let partition = partition(instance);
        let Some(record) = self.store.get(&Head::key_in(partition.clone())).await? else {
            return Ok(Some(Arc::default()));
        };
        let version = record.version.clone();
        if let Some(known) = self.known(instance, &version) {
            return Ok(Some(known));
        }
        let loaded = instance::load_from(&*self.store, &partition, Some(record)).await;
        let is_whole = matches!(&loaded, Ok(snapshot) if snapshot.is_of_one_moment());
        if !is_whole {
            let now = self.store.get(&Head::key_in(partition)).await?;
            if now.is_none_or(|now| now.version != version) {
                return Ok(None);
            }
        }
        let snapshot = Arc::new(loaded?);
        if snapshot.head().is_some_and(|head| head.pending.is_some()) {
            return Ok(None);
        }
        if snapshot.head().is_none_or(|head| head.deletion.is_none()) {
            self.remember(instance, &snapshot);
        }
        unless_deleted(&*self.store, instance, snapshot).await.map(Some)
    }
}

impl Instances for Reader {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn await_acks(&self) {}

    async fn snapshot(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        self.load(instance).await.map_err(|error| from_store(operation, &error))
    }
}
