//! All suites on a store that many processes share, with the limits of a cloud database.

mod support;

use support::{Fresh, Many};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Many>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Many>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Many>::new());
}
