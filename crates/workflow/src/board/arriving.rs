//! Messages on their way from the store to the board, of which a deletion in between must know.

use super::Board;
use std::sync::Arc;

/// Messages that are being stored; dropped when they are on the board.
#[must_use = "messages arrive as long as this lives"]
pub struct Arriving {
    board: Arc<Board>,
    instances: Vec<Arc<str>>,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        let mut inner = self.board.inner.lock();
        for instance in &self.instances {
            if let Some(count) = inner.arriving.get_mut(instance) {
                *count -= 1;
                if *count == 0 {
                    inner.arriving.remove(instance);
                }
            }
        }
    }
}

impl Board {
    /// Announces that messages to these instances are about to be stored, until they are on the board or were not stored.
    pub fn announce(self: &Arc<Self>, instances: Vec<Arc<str>>) -> Arriving {
        if !instances.is_empty() {
            let mut inner = self.inner.lock();
            for instance in &instances {
                *inner.arriving.entry(Arc::clone(instance)).or_default() += 1;
            }
        }
        Arriving {
            board: Arc::clone(self),
            instances,
        }
    }
}
