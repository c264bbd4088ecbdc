//! The parts of the test: the server with its container, and the workers that it kills and freezes.

pub mod arena;
pub mod torment;
