//! Proof with real processes that one Cosmos DB container can be shared by workers that die, hang and disagree about the
//! time.
//!
//! The binary of this crate is a worker. The test starts a server and three workers, one of them with a clock that is
//! ahead; it kills them, freezes them for longer than their leases last, starts them again, and meanwhile runs
//! workflows as a client. Workers write down in a ledger, outside the store, what they did and what the store
//! acknowledged; [`mod@check`] holds the ledgers against what the store has recorded.
//!
//! | module | what it is |
//! |---|---|
//! | [`case`], [`workflows`] | the workflows that are run, and the results that they must have |
//! | [`worker`], [`clock`] | the process that is killed and frozen |
//! | [`client`] | starts workflows, sends to them, reads their results and deletes them |
//! | [`mod@check`] | the verdict |
//!
//! Ledger and witness are those of [`perennial_crash`].

// This crate is test support: a panic is how a test fails, and a worker lives in real time.
#![allow(clippy::disallowed_methods)]

pub mod case;
pub mod check;
pub mod client;
pub mod clock;
pub mod worker;
pub mod workflows;

pub use perennial_crash::Failure;
