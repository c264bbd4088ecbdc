//! The runtime's own validation while the replies to 1 % of all document requests are lost.

use perennial_cosmos_server::{Fault, Rule, When};
use perennial_cosmos_tests::Fresh;

fn plague() -> Vec<Rule> {
    let chance = When::Chance {
        per_million: 10_000,
        seed: 43,
    };
    vec![Rule::new(Fault::LostReply, chance)]
}

perennial_scenarios::validation_tests!(Fresh::plagued(plague));
