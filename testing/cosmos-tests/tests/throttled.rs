//! The runtime's own validation while 3 % of all document requests are throttled.

use perennial_cosmos_server::{Fault, Rule, When};
use perennial_cosmos_tests::Fresh;

fn plague() -> Vec<Rule> {
    let chance = When::Chance {
        per_million: 30_000,
        seed: 42,
    };
    vec![Rule::new(Fault::throttled(5), chance)]
}

perennial_scenarios::validation_tests!(Fresh::plagued(plague));
