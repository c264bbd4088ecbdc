//! Workflows of a store that another process owns.
//!
//! A process that owns nothing sends *messages* to the owner and reads what is stored. [`RemoteWorkflows`] is its provider. The
//! owner commits what a message says together with the note that it was applied, see
//! [`MessageHandler`](perennial_store::MessageHandler).

mod admin;
mod apply;
mod message;
mod provider;
mod reader;
mod wait;
mod workflows;

pub use workflows::RemoteWorkflows;
