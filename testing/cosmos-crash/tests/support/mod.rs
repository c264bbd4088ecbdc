//! What the test is made of: the server with its container, and workers to torment.

pub mod arena;
pub mod torment;
