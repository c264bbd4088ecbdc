//! All suites on `memory:` with an engine that caches nothing, so that everything is read.

mod support;

use support::{Fresh, NoCache};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<NoCache>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<NoCache>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<NoCache>::new());
}
