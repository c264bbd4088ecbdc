//! Writes the lease object for its owner, and finds out which of the writes took effect.

use super::document::Document;
use super::mutation::mutant;
use super::object::{Failure, Found, LeaseObject, Look};
use super::tries::Tries;
use super::{Ended, Machine};
use std::sync::Arc;
use std::time::Duration;

/// The owner's side of the lease object.
pub(super) struct Writer {
    object: Arc<LeaseObject>,
    machine: Machine,
    /// What is in effect, as far as is known.
    current: Found,
    tries: Tries,
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is in effect, and was sent at this time of the boot clock.
    Stored { sent: Duration },
    /// It is not, but an earlier write of this owner is, whose outcome was not known.
    Earlier { sent: Duration },
    /// It is not in effect, or that is not known. It may be made again.
    NotStored(String),
    /// The lease is not this owner's any more.
    Lost(Ended),
}

impl Writer {
    pub(super) fn new(object: Arc<LeaseObject>, machine: Machine, current: Found) -> Self {
        Self {
            object,
            machine,
            current,
            tries: Tries::default(),
        }
    }

    /// What is in effect, as far as is known.
    pub(super) fn document(&self) -> &Document {
        &self.current.document
    }

    /// Writes a document with a nonce of its own. May be dropped at any time: the next write finds out.
    pub(super) async fn write(&mut self, mut document: Document) -> Outcome {
        document.nonce = mutant!(EqualContent, String::new(), self.machine.fresh());
        let sent = self.machine.now();
        self.tries.add(&document.nonce, sent);
        match self.object.write(&document, Some(&self.current.version)).await {
            Ok(version) => {
                self.current.document = document;
                self.current.version = version;
                self.tries.clear();
                Outcome::Stored { sent }
            }
            Err(failure) => self.resolve(&document.nonce, failure).await,
        }
    }

    /// Reads what is in effect after a write failed.
    async fn resolve(&mut self, nonce: &str, failure: Failure) -> Outcome {
        let found = match self.object.read(None).await {
            Ok(Look::Found(found)) => *found,
            Ok(Look::Absent) => return Outcome::Lost(Ended::Deleted),
            Ok(Look::Unchanged) => return Outcome::NotStored(failure.why()),
            Err(unreadable @ Failure::Unreadable(_)) => {
                return Outcome::Lost(Ended::Unreadable(unreadable.why()));
            }
            Err(also) => return Outcome::NotStored(format!("{}; then {}", failure.why(), also.why())),
        };
        let sent = mutant!(TrustRefusal, None, self.tries.sent(&found.document.nonce));
        match sent {
            Some(sent) => {
                let is_latest = found.document.nonce == nonce;
                self.current = found;
                self.tries.clear();
                match is_latest {
                    true => Outcome::Stored { sent },
                    false => Outcome::Earlier { sent },
                }
            }
            None if found.document.nonce == self.current.document.nonce => {
                self.current = found;
                Outcome::NotStored(failure.why())
            }
            None => Outcome::Lost(Ended::TakenOver {
                owner: found.document.owner,
                generation: found.document.generation,
            }),
        }
    }
}
