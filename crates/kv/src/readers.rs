//! The threads that call an engine whose reads wait.

use parking_lot::Mutex;
use perennial_store::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Something that may block. It is dropped, not called, if the runtime has ended.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs on the blocking threads of a runtime, a bounded number at a time and the others in the order in which they came.
pub(crate) struct Readers {
    runtime: Handle,
    limit: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    running: usize,
    waiting: VecDeque<Job>,
}

impl Readers {
    pub(crate) fn new(runtime: Handle, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            limit: limit.max(1),
            queue: Mutex::default(),
        })
    }

    /// Runs a job as soon as a thread is free for it. Must be called without a lock that a job takes, or its drop.
    pub(crate) fn run(self: &Arc<Self>, job: Job) {
        {
            let mut queue = self.queue.lock();
            if queue.running >= self.limit {
                queue.waiting.push_back(job);
                return;
            }
            queue.running += 1;
        }
        let mut thread = Thread {
            readers: Arc::clone(self),
            next: Some(job),
        };
        drop(self.runtime.spawn_blocking(move || thread.work()));
    }

    /// Reads on one of the threads.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        self.run(Box::new(move || {
            // A caller that no longer waits needs no read.
            if !sender.is_closed() {
                let panicked = |_| Err(Error::Unavailable("the storage engine panicked".to_owned()));
                let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked);
                drop(sender.send(outcome));
            }
        }));
        let ended = |_| {
            Err(Error::Closed(
                "the storage engine has ended; open the store again".to_owned(),
            ))
        };
        receiver.await.unwrap_or_else(ended)
    }

    /// The next job of a thread that has ended one; without one the thread ends.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.running -= 1;
        }
        next
    }
}

/// A thread of the runtime, from its first job on.
struct Thread {
    readers: Arc<Readers>,
    next: Option<Job>,
}

impl Thread {
    fn work(&mut self) {
        while let Some(job) = self.next.take() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a read of the storage engine panicked");
            }
            self.next = self.readers.next();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // A thread that has begun ends without a job. Else the runtime has ended, and nothing that waits will ever run.
        if self.next.is_none() {
            return;
        }
        let waiting = {
            let mut queue = self.readers.queue.lock();
            queue.running -= 1;
            std::mem::take(&mut queue.waiting)
        };
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).build().unwrap()
    }

    #[test]
    fn never_more_jobs_run_than_allowed_and_none_is_forgotten() {
        let runtime = runtime();
        let readers = Readers::new(runtime.handle().clone(), 3);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (sender, receiver) = mpsc::channel();
        for n in 0..100 {
            let (running, most, sender) = (running.clone(), most.clone(), sender.clone());
            readers.run(Box::new(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                sender.send(n).unwrap();
                assert_ne!(n % 10, 9, "a job that panics");
            }));
        }
        drop(sender);
        let mut done: Vec<usize> = receiver.into_iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 3);
    }

    #[test]
    fn jobs_are_dropped_when_the_runtime_has_ended() {
        let runtime = runtime();
        let readers = Readers::new(runtime.handle().clone(), 1);
        let (sender, receiver) = mpsc::channel::<()>();
        let (release, released) = mpsc::channel::<()>();
        readers.run(Box::new(move || released.recv().unwrap()));
        for _ in 0..3 {
            let sender = sender.clone();
            readers.run(Box::new(move || drop(sender)));
        }
        runtime.shutdown_background();
        release.send(()).unwrap();
        let late = sender.clone();
        readers.run(Box::new(move || drop(late)));
        drop(sender);
        assert!(receiver.recv().is_err(), "every job is gone, called or not");
    }
}
