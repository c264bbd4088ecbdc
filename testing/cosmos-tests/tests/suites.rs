//! All suites on Cosmos DB: the runtime's own validation and, with the feature `full`, whole workflows and the contract points
//! between them.

use perennial_cosmos_tests::Fresh;

mod validation {
    use super::*;
    perennial_scenarios::validation_tests!(Fresh::new());
}

#[cfg(feature = "full")]
mod e2e {
    use super::*;
    perennial_scenarios::e2e_tests!(Fresh::new());
}

#[cfg(feature = "full")]
mod contract {
    use super::*;
    perennial_scenarios::contract_tests!(Fresh::new());
}
