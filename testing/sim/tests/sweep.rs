//! Every fault at every call of every scenario.

use perennial_sim::Kind;
use perennial_sim::sweep::{scenarios, sweep};

fn every_fault_is_survived(kind: Kind) {
    let swept = sweep(&scenarios(kind), 2, 5);
    println!("{} runs: {:?}\n{}", swept.total(), swept.runs, swept.counters);
    assert!(swept.failed.is_empty(), "{:#?}", swept.failed);
}

#[test]
fn every_fault_at_every_call_of_every_scenario_is_survived() {
    every_fault_is_survived(Kind::Alone);
}

#[test]
fn every_fault_at_every_call_is_survived_by_two_processes() {
    every_fault_is_survived(Kind::Shared);
}
