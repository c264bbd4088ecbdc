//! How long requests take.

use crate::Method;
use std::time::Duration;

/// How long requests take before they take effect, by kind. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Writes: PUT, COPY, the steps of a multipart upload.
    pub put: Duration,
    /// Reads: GET and HEAD.
    pub get: Duration,
    /// One page of a listing.
    pub list: Duration,
    /// Deletions.
    pub delete: Duration,
}

impl Latency {
    /// A standard bucket in the same region: 25 ms for a write, 12 ms for a read.
    pub fn cloud() -> Self {
        let (put, get) = (Duration::from_millis(25), Duration::from_millis(12));
        Self {
            put,
            get,
            list: put,
            delete: get,
        }
    }

    pub(crate) fn of(&self, method: Method) -> Duration {
        match method {
            Method::Get | Method::Head => self.get,
            Method::List => self.list,
            Method::Delete => self.delete,
            _ => self.put,
        }
    }
}
