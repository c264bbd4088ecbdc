//! All suites on `memory:`.

mod support;

use support::{Fresh, Memory};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Memory>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Memory>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Memory>::new());
}
