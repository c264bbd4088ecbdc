//! Callers that wait for instances to end.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Callers that wait for instances to end, by instance. Costs one load of an atomic where there are none.
#[derive(Default)]
pub struct Watchers {
    by_instance: Mutex<HashMap<Arc<str>, watch::Sender<()>>>,
    count: AtomicUsize,
}

/// One such caller, until it is dropped.
pub struct Watcher {
    watchers: Arc<Watchers>,
    instance: Arc<str>,
    changed: watch::Receiver<()>,
}

impl Watchers {
    /// Watches an instance. Whatever happens from now on is noticed.
    pub fn watch(self: &Arc<Self>, instance: &Arc<str>) -> Watcher {
        let mut by_instance = self.by_instance.lock();
        let sender = by_instance.entry(Arc::clone(instance)).or_default();
        self.count.fetch_add(1, Ordering::SeqCst);
        Watcher {
            watchers: Arc::clone(self),
            instance: Arc::clone(instance),
            changed: sender.subscribe(),
        }
    }

    /// Wakes the callers that wait for an instance.
    pub fn wake(&self, instance: &str) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(sender) = self.by_instance.lock().get(instance) {
            sender.send_replace(());
        }
    }

    /// How many callers wait.
    #[cfg(any(test, feature = "testing"))]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Watcher {
    /// Whether it is one of these.
    pub fn is_of(&self, watchers: &Arc<Watchers>) -> bool {
        Arc::ptr_eq(&self.watchers, watchers)
    }

    /// Waits until the instance may have ended since the last call.
    pub async fn changed(&mut self) {
        // The sender lives as long as this watcher.
        self.changed.changed().await.ok();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut by_instance = self.watchers.by_instance.lock();
        self.watchers.count.fetch_sub(1, Ordering::SeqCst);
        let is_last = |sender: &watch::Sender<()>| sender.receiver_count() == 1;
        if by_instance.get(&self.instance).is_some_and(is_last) {
            by_instance.remove(&self.instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_wake_up_before_the_wait_is_noticed_and_nothing_is_left_behind() {
        let watchers = Arc::new(Watchers::default());
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        let (mut first, second, mut other) = (watchers.watch(&one), watchers.watch(&one), watchers.watch(&two));
        watchers.wake("one");
        assert!(first.changed().now_or_never().is_some());
        assert!(first.changed().now_or_never().is_none() && other.changed().now_or_never().is_none());
        drop(second);
        assert_eq!((watchers.len(), watchers.by_instance.lock().len()), (2, 2));
        drop((first, other));
        assert_eq!((watchers.len(), watchers.by_instance.lock().len()), (0, 0));
    }
}
