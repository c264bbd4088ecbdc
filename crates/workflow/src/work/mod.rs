//! Activities: from the queue to a worker and back as a message to their instance.

mod ack;
mod acquire;
mod fetch;
mod lease;
mod next;
mod release_unused;
mod sessions;

pub use ack::ack;
pub use fetch::fetch;
pub use lease::{abandon, clean_up_sessions, renew, renew_sessions};
pub use release_unused::{ReservationReaper, attend, give_back};
pub use sessions::{Held as HeldSessions, forget as forget_session};
