//! All suites on `file:`.

mod support;

use support::{Directory, Fresh};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Directory>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Directory>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Directory>::new());
}
