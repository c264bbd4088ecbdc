//! Turns: one step of an instance, from the messages that cause it to the commit that makes it durable.

mod ack;
mod cancelled;
mod enclosed;
mod fetch;
mod heard;
mod hold;
mod mailbox;
mod plan;
mod prepare;
mod secure;
mod stray;

pub use ack::{Turn, ack, append};
pub use enclosed::set_free;
pub use fetch::fetch;
pub use hold::{abandon, renew};
pub use secure::release;
pub use stray::forget as forget_stray;
