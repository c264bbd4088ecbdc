//! Turns: one step of an instance, from the messages that cause it to the commit that makes it durable.

mod ack;
mod commit_builder;
mod fetch;
mod lease;
mod ordered;
mod plan;
mod prepare;

pub use ack::{Turn, ack, append};
pub use fetch::{Aside, ClaimGuard, Fetched, fetch, hand_out};
pub use lease::{ABANDON, Abandoned, RENEW, abandon, renew};
pub use ordered::lose;
pub use prepare::{Opened, Prepared, open, workflow_name};
