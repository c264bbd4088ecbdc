//! The runtime's form of errors.

use duroxide::providers::ProviderError;
use perennial_store::Error;

/// Turns a store's error into the runtime's. A conflict that reaches this far means that another process took over: retrying
/// cannot help.
pub fn from_store(operation: &'static str, error: &Error) -> ProviderError {
    match error {
        Error::Throttled { .. } | Error::Unavailable(_) | Error::UnknownOutcome(_) | Error::Closed(_) => {
            ProviderError::retryable(operation, error.to_string())
        }
        _ => ProviderError::permanent(operation, error.to_string()),
    }
}

/// The token is unknown, or its lease has run out.
pub fn dead_token(operation: &'static str) -> ProviderError {
    ProviderError::permanent(operation, "Invalid lock token: it is unknown, or its lease has run out")
}

/// There is no such instance.
pub fn no_instance(operation: &'static str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("Instance {instance} not found"))
}

/// An item is in the wrong queue.
pub fn wrong_item(operation: &'static str, wanted: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("the work item is not {wanted}"))
}
