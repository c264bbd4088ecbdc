//! Fault injection: futures dropped at the wrong moment, races, damage, and unexpected arguments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod clock;
mod damage;
mod edge_cases;
mod failed_acks;
mod gate;
mod growth;
mod races;
mod reopening;
mod shared;
mod unused_claims;
mod waiting;
