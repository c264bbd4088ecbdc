//! Background tasks that run only while there is something to do.

use crate::spawn::Spawner;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts a task when it is needed, and lets it end when it is not. No wake-up is lost: a task that is about to end checks
/// once more after it has said so, and a caller that makes work for it afterwards starts another.
///
/// A task that ends without [`may_end`](Self::may_end), because its engine is closed or gone, is not started again.
#[derive(Default)]
pub struct LazyTask {
    running: AtomicBool,
}

impl LazyTask {
    /// Starts `task` unless one runs. Call this after the work is where the task looks for it.
    pub fn start<Task>(&self, spawner: Spawner, task: impl FnOnce() -> Task)
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        if !self.running.swap(true, Ordering::AcqRel) {
            spawner.spawn(task());
        }
    }

    /// The task has found nothing to do; returns whether it must end. If not, there is work again, and the task does it.
    pub fn may_end(&self, is_idle: impl FnOnce() -> bool) -> bool {
        self.running.store(false, Ordering::Release);
        is_idle() || self.running.swap(true, Ordering::AcqRel)
    }
}
