//! What it takes where the store belongs to this process.
//!
//! The board knows all work, and what the cache holds of an instance is the newest. So nothing is read that is in memory,
//! and a claim costs no write. Only delivery counts are written, where a crash might otherwise lose one that matters.

mod send;
pub mod turn;
pub mod work;

pub use send::{deliver, send};
