//! Ownership of a shard: one lease object in the bucket, changed by compare-and-swap only.
//!
//! A process that wants to own a shard is a [`Candidate`]. It [acquires](Candidate::acquire) the lease, gets a [`Held`] and
//! renews the lease in the background until it is released, dropped or lost. A [`Handle`] says at the cost of an atomic and a
//! look at the clock whether the lease is still held.
//!
//! ```no_run
//! # async fn example(bucket: perennial_slatedb::Bucket) -> Result<(), Box<dyn std::error::Error>> {
//! use perennial_slatedb::Shard;
//! use perennial_slatedb::lease::{Candidate, Machine, Settings, Wait};
//!
//! let runtime = tokio::runtime::Handle::current(); // in a program: the runtime of the object store
//! let settings = Settings::default();
//! let wait = Wait::For(settings.length);
//! let candidate = Candidate::new(&bucket, Shard(0), settings, Machine::this(), runtime)?;
//! let held = candidate.acquire(wait).await?;
//! let handle = held.handle();
//! // … read something …
//! handle.check()?; // before the reply
//! held.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Why there is never a second owner
//!
//! * Every write of the object is conditional on the version that was read or written before, and its content holds a random
//!   nonce. So no two versions are equal, not even on S3, where the tag of an object is a hash of its content.
//! * An owner takes its lease to end a lease's length, less a margin, after the moment *before it sent* the last
//!   renewal that is known to have taken effect.
//! * A standby takes over when it has seen the same version and nonce for the length that is written in the object, counted
//!   from the moment *after it received* them. That is later than the owner's end, because the renewal was sent before
//!   it took effect, and took effect before it was read.
//! * Both measure on their own clock since boot, which counts suspension. Wall clocks are shown and never compared. What the
//!   rates of two clocks may differ by is within the margin.
//! * A candidate that has just begun compares the time of modification of the lease with that of an object that it has just
//!   written. Both are by the clock of the bucket, so the lease of a process that died an hour ago need not be waited for.
//! * The reply to a write may be lost, the write may take effect late, and the client's own retries may report it as refused
//!   although it succeeded. So any failure is resolved by reading: the nonce says whose write is in effect.
//!
//! The lease guards reads. Writes are fenced by SlateDB's writer epoch, so a process that is stopped between its check and
//! its write does no harm.
//!
//! # What must not be done
//!
//! The object must not be deleted or restored to an earlier version while a process uses the store. A standby that saw a lease
//! and finds it deleted waits for its length, but a process that begins cannot know that there was one.

mod acquire;
mod boot;
mod candidate;
mod document;
mod ended;
mod error;
mod held;
mod machine;
mod mutation;
mod object;
mod renew;
mod settings;
mod sight;
#[cfg(test)]
mod tests;
mod tries;
mod writer;

pub use boot::{BootClock, SystemBootClock};
pub use candidate::{Candidate, Wait};
pub use document::{Document, Owner, Shown, State};
pub use ended::Ended;
pub use error::Error;
pub use held::{Handle, Held};
pub use machine::{Machine, Random};
pub use object::Found;
pub use settings::Settings;
