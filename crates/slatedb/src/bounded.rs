//! Bounds on requests: each attempt ends, and nothing is tried for ever.
//!
//! SlateDB tries a failed request again, without end if it is left alone, and knows how to recognise a write of its own
//! whose reply was lost. It goes on doing that; this layer below it decides for how long.

mod store;
mod upload;

pub(crate) use store::BoundedStore;

use crate::error::{brief, is_denied};
use futures::future::{Either, select};
use object_store::{Error, Result};
use parking_lot::Mutex;
use perennial_store::Clock;
use slatedb_common::retry::NonRetryable;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A request may take a second longer for each of so many bytes.
const BYTES_PER_SECOND: u64 = 256 * 1024;

/// How long requests may still be made and tried again, as of now. When nothing is left, no request is sent any more.
#[derive(Clone)]
pub struct Deadline(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Deadline {
    /// The deadline that a function tells whenever it is called, as the end of a lease.
    pub fn new(remaining: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(remaining))
    }

    /// No deadline: a request that keeps failing is given up after a number of attempts.
    pub fn none() -> Self {
        Self::new(|| Duration::MAX)
    }

    fn remaining(&self) -> Duration {
        (self.0)()
    }
}

/// What bounds the requests of an engine.
pub(crate) struct Bounds {
    clock: Arc<dyn Clock>,
    request_timeout: Duration,
    deadline: Deadline,
    /// Until when an opening may try, while there is one.
    opening_until_ms: Mutex<Option<u64>>,
    /// What the object store said when it refused this program.
    denied: Mutex<Option<Error>>,
    /// The last failure after which nothing has succeeded.
    failure: Mutex<Option<String>>,
}

impl Bounds {
    /// The bounds of an opening. It may take this long, if the deadline allows.
    pub(crate) fn opening(
        clock: Arc<dyn Clock>,
        request_timeout: Duration,
        deadline: Deadline,
        open_timeout: Duration,
    ) -> Self {
        let until_ms = clock.now_ms().saturating_add(millis(open_timeout));
        Self {
            clock,
            request_timeout,
            deadline,
            opening_until_ms: Mutex::new(Some(until_ms)),
            denied: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// The opening is over: from now on the deadline alone counts.
    pub(crate) fn opened(&self) {
        *self.opening_until_ms.lock() = None;
    }

    /// What the object store said, if it refused this program while the store was opened.
    pub(crate) fn take_denied(&self) -> Option<Error> {
        self.denied.lock().take()
    }

    fn is_opening(&self) -> bool {
        self.opening_until_ms.lock().is_some()
    }

    fn remaining(&self) -> Duration {
        let remaining = self.deadline.remaining();
        match *self.opening_until_ms.lock() {
            None => remaining,
            Some(until_ms) => remaining.min(Duration::from_millis(until_ms.saturating_sub(self.clock.now_ms()))),
        }
    }

    /// One attempt of a request that moves so many bytes.
    pub(crate) async fn attempt<T>(&self, bytes: u64, request: impl Future<Output = Result<T>>) -> Result<T> {
        let remaining = self.remaining();
        if remaining.is_zero() {
            return Err(last(failure(self.over())));
        }
        let timeout = self.request_timeout + Duration::from_secs(bytes / BYTES_PER_SECOND);
        let timeout = timeout.min(remaining);
        let outcome = match select(pin!(request), self.clock.sleep(timeout)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(failure(format!("no reply within {} ms", timeout.as_millis()))),
        };
        match outcome {
            Ok(value) => {
                *self.failure.lock() = None;
                Ok(value)
            }
            Err(error) => Err(self.judge(error)),
        }
    }

    fn over(&self) -> String {
        let over = "the time in which this process may use the object store is over";
        match &*self.failure.lock() {
            Some(before) => format!("{before}; {over}"),
            None => over.to_owned(),
        }
    }

    /// Marks an error after which there must be no other attempt.
    fn judge(&self, error: Error) -> Error {
        if !slatedb_common::retry::should_retry(&error) {
            return error;
        }
        *self.failure.lock() = Some(brief(&error));
        // Whether a credential is wrong or only about to be renewed, no opening waits for it.
        if is_denied(&error) && self.is_opening() {
            let shown = failure(error.to_string());
            *self.denied.lock() = Some(error);
            return last(shown);
        }
        match self.remaining().is_zero() {
            true => last(error),
            false => error,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn failure(why: impl Into<String>) -> Error {
    Error::Generic {
        store: "object",
        source: why.into().into(),
    }
}

/// The same error, after which SlateDB does not try again.
fn last(error: Error) -> Error {
    Error::Generic {
        store: "object",
        source: Box::new(NonRetryable(Box::new(error))),
    }
}

#[cfg(test)]
mod tests;
