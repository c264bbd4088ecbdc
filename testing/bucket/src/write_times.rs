//! When objects were written, by all clients of a bucket: listings that lag need it.

use object_store::path::Path;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct WriteTimes(Mutex<HashMap<Path, u64>>);

impl WriteTimes {
    pub(crate) fn note(&self, path: Path, now_ms: u64) {
        self.0.lock().insert(path, now_ms);
    }

    /// Whether a listing that lags by `lag` shows the object.
    pub(crate) fn is_listed(&self, path: &Path, now_ms: u64, lag: Duration) -> bool {
        let age_ms = |written_ms: &u64| u128::from(now_ms.saturating_sub(*written_ms));
        lag.is_zero() || self.0.lock().get(path).is_none_or(|at| age_ms(at) >= lag.as_millis())
    }
}
