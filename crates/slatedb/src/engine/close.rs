//! How a database is closed.

use super::threads::Threads;
use futures::future::{Either, select};
use perennial_store::Clock;
use slatedb::Db;
use std::any::Any;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::watch;

/// How long a drop waits for the database to be closed.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells when a database is closed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Closing(watch::Receiver<bool>);

impl Closing {
    pub(super) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Returns when the engine was dropped, its database is closed, and its threads send no more requests.
    pub async fn closed(mut self) {
        // The sender is gone only after it has said so, or with its thread.
        self.0.wait_for(|is_closed| *is_closed).await.ok();
    }
}

/// What is left of an engine that was dropped.
pub(super) struct Remainder {
    pub(super) db: Db,
    pub(super) clock: Arc<dyn Clock>,
    /// How long closing may take.
    pub(super) timeout: Duration,
    pub(super) threads: Threads,
    /// Released when nothing is written any more.
    pub(super) guard: Option<Box<dyn Any + Send + Sync>>,
    pub(super) closed: watch::Sender<bool>,
}

impl Remainder {
    /// Closes the database on a thread of its own, and waits for that, but not for long.
    pub(super) fn close(self) {
        let (sender, receiver) = mpsc::sync_channel::<()>(1);
        let closer = std::thread::Builder::new()
            .name("perennial-slatedb-close".to_owned())
            .spawn(move || {
                self.run();
                drop(sender);
            });
        match closer {
            // Whether it is done or not, there is nothing more to wait for.
            Ok(_) => drop(receiver.recv_timeout(DROP_TIMEOUT)),
            Err(error) => {
                tracing::warn!(%error, "a database could not be closed in order; the next opening reads its log")
            }
        }
    }

    fn run(self) {
        let Self {
            db,
            clock,
            timeout,
            threads,
            guard,
            closed,
        } = self;
        let closing = async {
            match select(pin!(db.close()), clock.sleep(timeout)).await {
                Either::Left((Ok(()), _)) => {}
                Either::Left((Err(error), _)) => {
                    tracing::debug!(%error, "a database was not closed in order; the next opening reads its log");
                }
                Either::Right(_) => tracing::warn!("a database took too long to close; the next opening reads its log"),
            }
        };
        threads.finish(closing);
        drop(guard);
        closed.send_replace(true);
    }
}
