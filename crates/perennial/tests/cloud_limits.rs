//! All suites on a store in memory whose commits are as small as those of a cloud database.

mod support;

use support::{Cloud, Fresh};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Cloud>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Cloud>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Cloud>::new());
}
