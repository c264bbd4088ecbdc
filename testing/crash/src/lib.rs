//! Proof by `kill -9` that a `file:` store keeps what it acknowledged.
//!
//! The binary of this crate is the victim: a process that runs all kinds of workflows on a directory and writes down,
//! in a [`ledger`] outside the store, what it did and what the store acknowledged. The test kills it at random
//! moments, hundreds of times, lets it finish, and holds the ledger against the store with [`check`].
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@line`], [`ledger`] | the record that is kept outside the store |
//! | [`case`], [`workflows`] | the workflows that the victim runs, and the results that they must have |
//! | [`witness`], [`report`] | how the ledger learns what the store acknowledged and what it recorded |
//! | [`driver`], [`victim`] | how the victim continues where it was killed |
//! | [`check`] | the verdict |

// This crate is test support: a panic is how a test fails, and a victim lives in real time.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::disallowed_methods)]

pub mod case;
pub mod check;
pub mod driver;
pub mod ledger;
pub mod line;
pub mod report;
pub mod victim;
pub mod witness;
pub mod workflows;

/// A failure in a victim: a text for the reader of the test's output.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
