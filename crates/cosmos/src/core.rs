//! What all operations of a store share.

use crate::tally::Tally;
use crate::usage::Meter;
use azure_core::Uuid;
use azure_data_cosmos::ContainerClient;
use perennial_store::{Error, Result, SignalSender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// How many signals a listener may fall behind before it is told to look everywhere.
const SIGNALS: usize = 1024;

pub(crate) struct Core {
    pub(crate) container: ContainerClient,
    pub(crate) meter: Meter,
    pub(crate) signals: SignalSender,
    pub(crate) tally: Tally,
    /// What no other handle's commits begin with.
    pub(crate) handle: String,
    commits: AtomicU64,
    is_closed: AtomicBool,
    /// Held by every commit while it runs; closing waits for all of them.
    running: Arc<RwLock<()>>,
}

/// Held while something runs that closing must wait for.
pub(crate) type Running = OwnedRwLockReadGuard<()>;

impl Core {
    pub(crate) fn new(container: ContainerClient) -> Self {
        let handle = Uuid::new_v4().simple().to_string();
        Self {
            container,
            meter: Meter::default(),
            signals: SignalSender::new(SIGNALS),
            tally: Tally::new(&handle),
            handle,
            commits: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            running: Arc::default(),
        }
    }

    /// An id that no other commit has.
    pub(crate) fn next_commit(&self) -> String {
        format!("{}-{:x}", self.handle, self.commits.fetch_add(1, Ordering::Relaxed))
    }

    /// Fails once the store was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Error::Closed("it was closed by this program".to_owned())),
            false => Ok(()),
        }
    }

    /// Starts something that closing must wait for.
    pub(crate) async fn start(&self) -> Result<Running> {
        let running = Arc::clone(&self.running).read_owned().await;
        self.check_open()?;
        Ok(running)
    }

    /// Lets nothing new in and waits for what runs. Whether this was the first to close.
    pub(crate) async fn shut(&self) -> bool {
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        drop(self.running.write().await);
        !was_closed
    }
}
