//! The inbox: how a process that owns nothing sends messages to the owner of a shard, through the bucket alone.
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | incarnations of clients, and the names of their messages |
//! | `envelope` | what an object of a message holds |
//! | `bell` | the object that changes when there are new messages |
//! | `outgoing` | the client: sends messages in order |
//! | `intake` | the owner: finds messages and has them applied |
//! | `lane` | the messages of one incarnation, in order |
//! | `listing` | what a listing of the inbox shows |
//! | `cursors` | how far each incarnation's messages were applied |
//! | `cadence` | when the owner looks |
//!
//! # Why each message is applied exactly once, and in order
//!
//! A client starts an *incarnation* with a random id and numbers its messages from 1 without gaps. It creates message `n + 1`
//! only once message `n` is known to exist, under a name that a second try of the same message has too; if it gives up
//! on a message, the next one belongs to a new incarnation, and names the last message of the one before, which must be applied first. The owner keeps a *cursor* for each incarnation: the number of the last
//! message that was applied. It is written by the commit that applies the message, and a message is deleted only when that
//! commit is durable. So:
//!
//! * A message at or below the cursor was applied. It is deleted, however often it comes back.
//! * The next message to apply is cursor + 1, and no other: it is fetched by its name even if a listing lacks it.
//!
//! A cursor can be forgotten only when no message of its incarnation can be taken for a new one. Incarnations are used
//! for 24 hours; one that began more than 48 hours ago and has no cursor is refused by its name, and a cursor is kept for 72 hours.
//! Clocks of owners may differ, so the owner also writes down up to which start cursors were forgotten.
//!
//! # Why no message is overlooked
//!
//! After its messages a client *rings the bell*: it overwrites one object with content that is never the same twice. The owner
//! reads the bell before it lists the inbox. A message that this listing lacks was created after that read, and so its ring comes
//! later, too. A client may die before it rings, so the inbox is listed every minute whatever the bell says.

mod bell;
mod cadence;
mod cursors;
mod envelope;
mod intake;
mod lane;
mod listing;
mod mutation;
mod names;
mod outgoing;
mod requests;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub use intake::Intake;
pub use outgoing::{Outgoing, Random};
pub(crate) use requests::describe;
pub use settings::{IntakeSettings, OutgoingSettings};
