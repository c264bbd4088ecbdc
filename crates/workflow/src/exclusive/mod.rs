//! What it takes where the store belongs to this process.
//!
//! The board knows all work and the cache the newest of every instance it holds, so nothing is asked for that is in memory,
//! and a claim costs no write. Only delivery counts are written down, where a crash might otherwise lose one that matters.

mod send;
pub mod turn;
pub mod work;

pub use send::{deliver, send};
