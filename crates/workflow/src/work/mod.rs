//! Activities: from the queue to a worker and back as a message to their instance.

mod ack;
mod fetch;
mod lease;

pub use ack::{Done, ack, failed};
pub use fetch::{ClaimGuard, Fetched, Worker, fetch, hand_out, open};
pub use lease::{ABANDON, Abandoned, RENEW, abandon, clean_up_sessions, renew, renew_sessions};
