//! The real runtime and the real engine, in virtual time, on a store that fails in every way we can name.
//!
//! One seed decides everything: which workflows run, what goes wrong at which call of the store, which processes live,
//! when they are killed or stopped for a while and when their clocks jump. After every run, and where it is cheap after
//! every step, checkers look whether anything was lost, done twice, or left behind.
//!
//! There are two kinds of runs: one process after another on a store that belongs to it, and several processes at once on
//! a store that they share, each with its own runtime, engine, clock and faults, in one common time.
//!
//! ```text
//! cargo run -p perennial-sim --release -- --seeds 0..100000
//! cargo run -p perennial-sim --release -- --shared --seed 4711 --trace
//! cargo run -p perennial-sim --release -- --fresh 100000
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `config`, `member`, `maker`, `program` | what a seed decides: processes; generated workflows and what must come of them |
//! | `store`, `line`, `fault`, `defect`, `clock` | the store that fails, the order of its commits, what can go wrong, defects of the engine that show in its commits, time and clocks |
//! | `network`, `view` | what lies between a process and a shared store: signals, replicas that lag |
//! | `life`, `start`, `workflow` | one process: how it lives, freezes and dies; engine and runtime; the workflow that runs all programs |
//! | `process`, `world` | one process after another; several at once |
//! | `driver`, `hub` | the clients, and how they reach the processes |
//! | `witness`, `claims`, `effect`, `facts` | what is seen on the way |
//! | `check`, `residue` | what must be true in the end |
//! | `run`, `sweep`, `shrink`, `hunt` | a run; every fault at every call; the smallest run that still fails; engines that are broken on purpose |
//!
//! # What cannot be simulated
//!
//! Timers that the runtime sets by itself go on while its process is frozen; what it does when they ring waits for the
//! thaw. Listings and totals of a shared store never lag.

mod check;
mod claims;
pub mod clock;
pub mod config;
mod defect;
mod driver;
mod effect;
mod facts;
pub mod fault;
mod hub;
pub mod hunt;
mod life;
mod line;
mod maker;
pub mod member;
mod network;
mod process;
pub mod program;
mod promise;
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
