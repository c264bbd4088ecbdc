//! The calls that are due after commits that were written without a committer.

use crate::state::Reply;
use parking_lot::Mutex;
use perennial_store::Result;
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// Makes calls in the order of their commits, one after the other. No thread waits for the call of another: whichever is making
/// calls makes all that come meanwhile.
///
/// It has a lock of its own, because the lock of the store's memory is held throughout each write.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Due>);

#[derive(Default)]
struct Due {
    /// The calls that nobody makes yet, and the callers that wait for those before them.
    waiting: VecDeque<Reply>,
    /// Whether a caller is making calls.
    is_calling: bool,
}

impl Calls {
    /// Takes the place of a call in the order. Returns it if its caller is to [make](Self::make) it.
    pub(crate) fn order(&self, call: Reply) -> Option<Reply> {
        let mut due = self.0.lock();
        if due.is_calling {
            due.waiting.push_back(call);
            return None;
        }
        due.is_calling = true;
        Some(call)
    }

    /// Tells when all calls so far are made; `None` if they are.
    pub(crate) fn made(&self) -> Option<oneshot::Receiver<Result<()>>> {
        let mut due = self.0.lock();
        if !due.is_calling {
            return None;
        }
        let (ticket, receiver) = oneshot::channel();
        due.waiting.push_back(Reply::Ticket(ticket));
        Some(receiver)
    }

    /// Makes a call, and those that other callers have left meanwhile.
    pub(crate) fn make(&self, first: Reply) {
        let mut next = Some(first);
        while let Some(call) = next {
            call.send(Ok(()));
            next = self.next();
        }
    }

    fn next(&self) -> Option<Reply> {
        let mut due = self.0.lock();
        let next = due.waiting.pop_front();
        due.is_calling = next.is_some();
        next
    }
}
