//! All suites on SlateDB in a bucket in memory.

mod support;

use support::{Bucket, Fresh};

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::<Bucket>::new());
}

mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::<Bucket>::new());
}

mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::<Bucket>::new());
}
