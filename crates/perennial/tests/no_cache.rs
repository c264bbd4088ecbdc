//! All suites on `memory:` with an engine that keeps nothing in memory, so that everything is read.

mod support;

use support::{Forgetful, Fresh};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Forgetful>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Forgetful>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Forgetful>::new());
}
