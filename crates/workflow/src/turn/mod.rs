//! Turns: one step of an instance, from the messages that cause it to the commit that makes it durable.

mod ack;
mod acquire;
mod cancelled;
mod dedup;
mod fetch;
mod inline_message;
mod lease;
mod mailbox;
mod phantom_lease;
mod plan;
mod prepare;

pub use ack::{Turn, ack, append};
pub use acquire::release;
pub use fetch::fetch;
pub use inline_message::set_free;
pub use lease::{abandon, renew};
pub use phantom_lease::forget as forget_phantom;
