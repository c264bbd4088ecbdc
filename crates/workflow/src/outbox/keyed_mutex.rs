//! A mutex for every partition.

use parking_lot::Mutex;
use perennial_store::Partition;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

/// Lets one task at a time do something to a partition.
#[derive(Default)]
pub struct KeyedMutex(Mutex<HashMap<Partition, Arc<Gate<()>>>>);

/// A task's turn; passes to the next task when it is dropped.
pub struct Turn<'a> {
    keyed_mutex: &'a KeyedMutex,
    partition: Partition,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutex {
    fn gate(&self, partition: &Partition) -> Arc<Gate<()>> {
        Arc::clone(self.0.lock().entry(partition.clone()).or_default())
    }

    fn turn(&self, partition: &Partition, guard: OwnedMutexGuard<()>) -> Turn<'_> {
        Turn {
            keyed_mutex: self,
            partition: partition.clone(),
            guard: Some(guard),
        }
    }

    /// Waits in line.
    pub async fn enter(&self, partition: &Partition) -> Turn<'_> {
        let guard = self.gate(partition).lock_owned().await;
        self.turn(partition, guard)
    }

    /// A turn, if no other task has it.
    pub fn try_enter(&self, partition: &Partition) -> Option<Turn<'_>> {
        let guard = self.gate(partition).try_lock_owned().ok()?;
        Some(self.turn(partition, guard))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut gates = self.keyed_mutex.0.lock();
        // No other task can obtain it meanwhile: that takes the same lock.
        if gates
            .get(&self.partition)
            .is_some_and(|gate| Arc::strong_count(gate) == 1)
        {
            gates.remove(&self.partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_kept() {
        let keyed_mutex = KeyedMutex::default();
        let (a, b) = (Partition::new("a"), Partition::new("b"));
        let turn = keyed_mutex.enter(&a).await;
        assert!(keyed_mutex.try_enter(&a).is_none());
        assert!(keyed_mutex.try_enter(&b).is_some());
        drop(turn);
        assert!(keyed_mutex.try_enter(&a).is_some());
        assert!(keyed_mutex.0.lock().is_empty());
    }
}
