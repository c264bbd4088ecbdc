//! The state that all operations of a store share.

use crate::counters::Counters;
use crate::document;
use crate::previous_commits::PreviousCommits;
use crate::recount::Doubts;
use crate::settings::Timing;
use crate::usage::Meter;
use azure_core::Uuid;
use azure_data_cosmos::ContainerClient;
use perennial_store::{Error, Record, Result, SignalSender};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// How many signals a receiver may fall behind before it gets `Signal::Missed`.
const SIGNALS: usize = 1024;

pub(crate) struct Core {
    pub(crate) container: ContainerClient,
    pub(crate) meter: Meter,
    pub(crate) signals: SignalSender,
    pub(crate) counters: Counters,
    pub(crate) doubts: Doubts,
    pub(crate) timing: Timing,
    pub(crate) previous_commits: PreviousCommits,
    /// The prefix of this handle's commit ids, unique to it.
    pub(crate) handle: String,
    commits: AtomicU64,
    is_closed: AtomicBool,
    /// Held by every commit while it runs; closing waits for all of them.
    running: Arc<RwLock<()>>,
}

/// Held during an operation that closing must wait for.
pub(crate) type Running = OwnedRwLockReadGuard<()>;

impl Core {
    pub(crate) fn new(container: ContainerClient, timing: Timing) -> Self {
        let handle = format!("{:016x}", Uuid::new_v4().as_u64_pair().0);
        Self {
            container,
            meter: Meter::default(),
            signals: SignalSender::new(SIGNALS),
            counters: Counters::new(&handle),
            doubts: Doubts::default(),
            timing,
            previous_commits: PreviousCommits::default(),
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

    /// The record of a document. `with_body` says whether the document was read whole.
    pub(crate) fn read(&self, json: &RawValue, with_body: bool) -> Result<Record> {
        let found = document::read(json, with_body)?;
        if let (Some(etag), Some(commit)) = (found.record.version.as_text(), &found.commit) {
            self.previous_commits.record(etag, commit, &found.before);
        }
        Ok(found.record)
    }

    /// Fails once the store was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Error::Closed("it was closed by this program".to_owned())),
            false => Ok(()),
        }
    }

    /// Starts an operation that closing must wait for.
    pub(crate) async fn start(&self) -> Result<Running> {
        let running = Arc::clone(&self.running).read_owned().await;
        self.check_open()?;
        Ok(running)
    }

    /// Refuses new operations and waits for running ones. Returns whether this was the first call.
    pub(crate) async fn drain(&self) -> bool {
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        drop(self.running.write().await);
        !was_closed
    }
}
