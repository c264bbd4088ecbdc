//! Commits on an engine that is a map in memory: each is complete within its caller's first poll.

use crate::OrderedKv;
use crate::committer::{Core, unknown_outcome};
use crate::fetch::fetch;
use crate::lookup::{Found, Lookup, check_all};
use crate::prepare::Prepared;
use crate::state::{Reply, State};
use crate::store::closed;
use crate::submit::{NotAccepted, Outcome, Submitted};
use perennial_store::{OnDurable, Result};

impl<E: OrderedKv> Core<E> {
    /// Checks, accepts and writes a commit in one step.
    pub(crate) fn submit_inline(&self, prepared: Prepared, on_durable: Option<OnDurable>) -> Outcome {
        let engine = self.engine.read();
        let Some(engine) = engine.as_ref() else {
            let error = closed();
            return Err(NotAccepted { error, on_durable });
        };
        let mut state = self.state.lock();
        let found = match self.find_inline(engine, &state, &prepared) {
            Ok(found) => found,
            Err(error) => return Err(self.refuse(&mut state, error, on_durable)),
        };
        let (accepted, committed) = state.accept(prepared, found);
        self.count(&accepted);
        let mut group = [accepted];
        if let Err(error) = self.write(engine, &mut group) {
            self.stop_serving(&mut state, &error);
            let error = unknown_outcome(&error);
            return Err(NotAccepted { error, on_durable });
        }
        let mut lanes = Vec::new();
        for commit in &group {
            state.publish(commit, &mut lanes);
        }
        let submitted = match on_durable {
            Some(on_durable) => Submitted::Ordered(self.calls.order(Reply::Call(on_durable, committed))),
            // The calls of earlier commits come before this one returns.
            None => match self.calls.made() {
                Some(receiver) => Submitted::Waiting(committed, receiver),
                None => Submitted::Done(committed),
            },
        };
        drop(state);
        self.signal(&lanes);
        Ok(submitted)
    }

    fn find_inline(&self, engine: &E, state: &State, prepared: &Prepared) -> Result<Vec<Found>> {
        state.check_open()?;
        match state.look_up_all(prepared)? {
            Lookup::Complete(found) => Ok(found),
            Lookup::Incomplete(mut found) => {
                fetch(engine, &prepared.ops, &mut found);
                check_all(prepared, &found)?;
                Ok(found)
            }
        }
    }
}
