//! A Cosmos DB server for tests.

mod auth;
mod backend;
mod call;
mod containers;
mod counting;
mod faults;
mod front;
mod host;
mod ids;
mod kind;
mod latency;
mod numbers;
mod options;
mod queries;
mod replica;
mod reply;
mod server;
mod ttl;

pub use call::Container;
pub use counting::{Counts, Entry};
pub use faults::{Fault, Faults, Rule, When};
pub use kind::Kind;
pub use latency::Latency;
pub use options::{EMULATOR_KEY, Options};
pub use replica::Replica;
pub use server::Server;
