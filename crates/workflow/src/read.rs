//! Reading instances, from memory or from the store.

use crate::admin::two_phase_delete;
use crate::engine::Engine;
use crate::error;
use crate::instance::{self, Snapshot};
use crate::records::head::Head;
use crate::records::partition;
use crate::redo;
use duroxide::Event;
use duroxide::providers::ProviderError;
use perennial_store::{Result, Slot, Store};
use std::future::Future;
use std::sync::Arc;

/// How new a snapshot must be. Where the store belongs to this process, memory is the truth and both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// What this process wrote or confirmed a moment ago counts as the newest, so that a client that polls costs no request
    /// each time. May miss what another process has done within that moment.
    Recent,
    /// Reads through the cache: sees every commit that another process has finished before.
    Latest,
}

/// Where instances are read: by an engine, or by a process that only reads.
pub trait Instances: Sync {
    /// The store beneath.
    fn store(&self) -> &dyn Store;

    /// Waits until everything that was acknowledged before can be listed.
    fn await_acks(&self) -> impl Future<Output = ()> + Send;

    /// A snapshot of an instance: what is deleted is gone, even if something is left of it.
    fn snapshot(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> impl Future<Output = Result<Arc<Snapshot>, ProviderError>> + Send;
}

impl Instances for Engine {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn await_acks(&self) {
        self.outstanding.all().await;
    }

    async fn snapshot(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        self.view(operation, instance, Freshness::Recent).await
    }
}

impl<T: Instances + Send> Instances for Arc<T> {
    fn store(&self) -> &dyn Store {
        (**self).store()
    }

    async fn await_acks(&self) {
        (**self).await_acks().await;
    }

    async fn snapshot(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        (**self).snapshot(operation, instance).await
    }
}

/// The snapshot of an instance, or of nothing if it is deleted and something is left of it.
pub async fn unless_deleted(store: &dyn Store, instance: &str, snapshot: Arc<Snapshot>) -> Result<Arc<Snapshot>> {
    match snapshot.head().and_then(|head| head.deletion.as_ref()) {
        Some(mark) if two_phase_delete::is_decided(store, instance, mark).await? => Ok(Arc::default()),
        _ => Ok(snapshot),
    }
}

/// The history of one execution of an instance.
pub async fn history(
    instances: &impl Instances,
    operation: &'static str,
    instance: &str,
    execution: u64,
) -> Result<Vec<Event>, ProviderError> {
    let snapshot = instances.snapshot(operation, instance).await?;
    if snapshot.head().is_some_and(|head| head.execution.id == execution) {
        return snapshot.events(operation);
    }
    let history = instance::history_of(instances.store(), &partition(instance), execution).await;
    Ok(history.map_err(|e| error::from_store(operation, &e))?.events())
}

impl Engine {
    /// A snapshot of an instance. One that is being deleted, or of which something is left, is shown with its mark.
    pub async fn read(&self, instance: &Arc<str>, freshness: Freshness) -> Result<Arc<Snapshot>> {
        match self.mode.cached(self, instance, freshness) {
            Some(snapshot) => Ok(snapshot),
            None => self.load(instance).await,
        }
    }

    /// A snapshot of an instance, for callers of the provider: what is deleted is gone, even if something is left of it.
    pub async fn view(
        &self,
        operation: &'static str,
        instance: &str,
        freshness: Freshness,
    ) -> Result<Arc<Snapshot>, ProviderError> {
        self.outstanding.turns_of(instance).await;
        let found = match self.read(&Arc::from(instance), freshness).await {
            Ok(snapshot) => unless_deleted(&*self.store, instance, snapshot).await,
            failed => failed,
        };
        found.map_err(|e| error::from_store(operation, &e))
    }

    /// Reads an instance from the store and fills the cache. A turn that is not wholly stored is finished first.
    async fn load(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        let partition = partition(instance);
        let slot = Slot::of(&partition);
        loop {
            let began = self.cache.begin(slot);
            let record = self.store.get(&Head::key_in(partition.clone())).await?;
            let version = record.as_ref().map(|record| &record.version);
            if let Some(known) = self.mode.confirmed(self, instance, version) {
                return Ok(known);
            }
            let snapshot = Arc::new(instance::load_from(&*self.store, &partition, record).await?);
            if snapshot.head().is_some_and(|head| head.pending.is_some()) {
                redo::finish(self, &partition).await?;
                continue;
            }
            if snapshot.head().is_some_and(|head| head.deletion.is_some()) {
                return Ok(snapshot);
            }
            if !self.mode.is_consistent(self, instance, &snapshot).await? {
                continue;
            }
            let involved = self.board.lock().0.is_involved(instance);
            return Ok(self.cache.fill(instance, slot, began, snapshot, self.trust(), involved));
        }
    }
}
