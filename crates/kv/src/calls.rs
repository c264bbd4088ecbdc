//! The calls that are due after commits that were written without a committer.

use crate::state::Call;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Makes calls in the order of their commits, one after the other. A caller never waits for a call of another caller: whichever
/// is making calls makes all that come meanwhile.
///
/// It has a lock of its own, because the lock of the store's memory is held throughout each write.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Due>);

#[derive(Default)]
struct Due {
    /// The calls that nobody makes yet.
    waiting: VecDeque<Call>,
    /// Whether a caller is making calls.
    is_calling: bool,
}

impl Calls {
    /// Takes the place of a call in the order. Returns it if its caller is to [make](Self::make) it.
    pub(crate) fn order(&self, call: Call) -> Option<Call> {
        let mut due = self.0.lock();
        if due.is_calling {
            due.waiting.push_back(call);
            return None;
        }
        due.is_calling = true;
        Some(call)
    }

    /// Makes a call, and those that other callers have left meanwhile.
    pub(crate) fn make(&self, first: Call, mut make: impl FnMut(Call)) {
        let mut next = Some(first);
        while let Some(call) = next {
            make(call);
            next = self.next();
        }
    }

    fn next(&self) -> Option<Call> {
        let mut due = self.0.lock();
        let next = due.waiting.pop_front();
        due.is_calling = next.is_some();
        next
    }
}
