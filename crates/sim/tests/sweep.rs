//! Every fault at every call of every scenario.

use perennial_sim::Kind;
use perennial_sim::sweep::sweep;

#[test]
fn every_fault_at_every_call_of_every_scenario_is_survived() {
    let swept = sweep(Kind::Alone, 2, 5);
    println!("{} runs: {:?}\n{}", swept.total(), swept.runs, swept.tally);
    assert!(swept.failed.is_empty(), "{:#?}", swept.failed);
}
