//! What the errors of SlateDB mean.

use crate::error::brief;
use crate::{Bucket, OpenError};
use perennial_kv::EngineError;
use slatedb::{CloseReason, Error, ErrorKind};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Explains the failures of one database.
#[derive(Clone)]
pub(crate) struct Failures(Arc<str>);

impl Failures {
    pub(crate) fn new(bucket: &Bucket) -> Self {
        Self(bucket.to_string().into())
    }

    /// The meaning of an error for a reader or a writer.
    pub(crate) fn engine_error(&self, error: Error) -> EngineError {
        let why = brief(&error);
        match error.kind() {
            ErrorKind::Closed(reason) => self.ended(Some(reason), &why),
            ErrorKind::Data => EngineError::Corrupt(format!("the store at {} has damaged objects: {why}", self.0)),
            ErrorKind::Unavailable => {
                EngineError::Io(kind_of(&error), format!("the object store of {} failed: {why}", self.0))
            }
            _ => EngineError::Io(
                io::ErrorKind::Other,
                format!("the database at {} failed: {why}", self.0),
            ),
        }
    }

    /// The meaning of a write that did not end.
    pub(crate) fn timed_out(&self, timeout: Duration) -> EngineError {
        EngineError::Io(
            io::ErrorKind::TimedOut,
            format!(
                "a write to the store at {} did not end within {} s",
                self.0,
                timeout.as_secs()
            ),
        )
    }

    /// The meaning of a database that closed itself.
    pub(crate) fn closed(&self, reason: Option<CloseReason>) -> EngineError {
        self.ended(reason, "it was closed")
    }

    fn ended(&self, reason: Option<CloseReason>, why: &str) -> EngineError {
        match reason {
            Some(CloseReason::Fenced) => EngineError::Fenced(format!(
                "another process has opened the store at {}; this one writes nothing more",
                self.0
            )),
            Some(CloseReason::Panic) => EngineError::Io(
                io::ErrorKind::Other,
                format!("the database at {} stopped after a failure: {why}", self.0),
            ),
            _ => EngineError::Io(
                io::ErrorKind::NotConnected,
                format!("the database at {} is closed: {why}", self.0),
            ),
        }
    }

    /// The meaning of an error for an opening.
    pub(crate) fn open_error(&self, error: &Error) -> OpenError {
        let (place, why) = (self.0.to_string(), brief(error));
        match error.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => OpenError::Fenced { place },
            ErrorKind::Data => OpenError::Damaged { place, why },
            _ => OpenError::Unavailable { place, why },
        }
    }
}

/// The kind of the first input or output error in a chain of causes.
fn kind_of(error: &Error) -> io::ErrorKind {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<io::Error>() {
            return found.kind();
        }
        cause = found.source();
    }
    io::ErrorKind::Other
}
