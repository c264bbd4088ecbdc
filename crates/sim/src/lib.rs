//! The real runtime and the real engine, in virtual time, on a store that fails in every way we can name.
//!
//! One seed decides everything: which workflows run, what goes wrong at which call of the store, when the process is
//! killed and when its clock jumps. After every run, and where it is cheap after every step, checkers look whether
//! anything was lost, done twice, or left behind.
//!
//! ```text
//! cargo run -p perennial-sim --release -- --seeds 0..100000
//! cargo run -p perennial-sim --release -- --seed 4711 --trace
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `config`, `program` | what a seed decides; generated workflows and what must come of them |
//! | `store`, `fault`, `clock` | the store that fails, what can go wrong, virtual time |
//! | `process`, `driver`, `workflow` | one process: runtime, clients, the workflow that runs all programs |
//! | `witness`, `claims`, `facts` | what is seen on the way |
//! | `check` | what must be true in the end |
//! | `run`, `sweep`, `shrink` | a run; every fault at every call; the smallest run that still fails |

mod check;
mod claims;
pub mod clock;
pub mod config;
mod driver;
mod effect;
mod facts;
pub mod fault;
mod hub;
pub mod hunt;
mod life;
mod maker;
pub mod member;
mod network;
mod process;
pub mod program;
mod report;
mod residue;
pub mod run;
mod scene;
mod shrink;
mod start;
mod store;
pub mod sweep;
mod view;
mod witness;
mod workflow;
mod world;

pub use config::{Config, Kind};
pub use report::Report;
pub use run::{Outcome, run};
pub use shrink::shrink;
