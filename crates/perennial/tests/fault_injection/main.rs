//! Bad luck: futures dropped at the wrong moment, races that two calls win at once, damage, and odd arguments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ahead;
mod clock;
mod damage;
mod gate;
mod growth;
mod kit;
mod odd;
mod races;
mod reopening;
mod shared;
mod waiting;
