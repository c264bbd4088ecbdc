//! The memory that the bodies of queued items share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that bodies share.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(bytes),
        })
    }

    /// Takes a share, if there is enough left.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Arc<Share>> {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok().then(|| {
            let budget = Arc::clone(self);
            Arc::new(Share { budget, bytes })
        })
    }
}

/// Part of a budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back() {
        let budget = Budget::new(10);
        let share = budget.take(6).unwrap();
        let copy = Arc::clone(&share);
        assert!(budget.take(5).is_none());
        drop(share);
        assert!(budget.take(5).is_none(), "a copy still holds it");
        drop(copy);
        assert!(budget.take(10).is_some());
    }
}
