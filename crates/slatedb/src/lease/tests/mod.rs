//! Leases in virtual time: processes with clocks that disagree, on a bucket in memory that fails on purpose.

mod cancel;
mod contenders;
mod format;
mod frozen;
mod messages;
mod mutants;
mod owner;
mod random;
mod sweep;
mod takeover;
mod world;

use super::*;
