//! Activities: from the queue to a worker and back as a message to their instance.

mod ack;
mod fetch;
mod hold;
mod next;
mod secure;
mod sessions;
mod unwanted;

pub use ack::ack;
pub use fetch::fetch;
pub use hold::{abandon, clean_up_sessions, renew, renew_sessions};
pub use sessions::{Held as HeldSessions, forget as forget_session};
pub use unwanted::{Usher, attend, give_back};
