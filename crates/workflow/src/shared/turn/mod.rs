//! Turns of instances that other processes may work on too.

mod acquire;
mod cancelled;
mod dedup;
mod inline_message;
mod lease;
mod mailbox;
mod phantom_lease;
mod prepare;

pub use cancelled::find as find_cancelled;
pub use dedup::note_consumed;
pub use inline_message::{left as inline_left, set_free};
pub use lease::{abandon, lose, release, renew};
pub use phantom_lease::forget as forget_phantom;
pub use prepare::acquire;
