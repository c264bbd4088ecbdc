//! Activities that other processes may run too.

mod ack;
mod acquire;
mod ahead;
mod fetch;
mod lease;
mod next;
mod release_unused;
mod sessions;

pub use ack::finish;
pub use ahead::{claim_ahead, scheduled};
pub use fetch::acquire;
pub use lease::{abandon, renew};
pub use release_unused::{ReservationReaper, release_unused};
pub use sessions::{
    Held as HeldSessions, clean_up as clean_up_sessions, forget as forget_session, renew as renew_sessions,
};
