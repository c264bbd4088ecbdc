//! Both servers: what they promise, how they end, and what happens where they cannot be installed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod child;
mod conditions;
mod environment;
mod life;
mod missing;
