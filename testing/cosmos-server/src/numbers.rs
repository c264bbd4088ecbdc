//! Numbers that the service cannot keep.

use crate::Kind;
use crate::call::Call;
use crate::reply::Refusal;
use serde_json::{Number, Value};

/// The largest integer up to which a double keeps every one.
const MAX_EXACT: u64 = 1 << 53;

/// Refuses integers that would come back changed. The service would take them, and return another number: an error is
/// more useful in a test.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    use Kind::{Batch, Create, Patch, Query, Replace, Upsert};
    if !matches!(call.kind, Create | Replace | Upsert | Patch | Batch | Query) {
        return Ok(());
    }
    match call.json().and_then(inexact) {
        Some(number) => {
            let message = format!("{number} would be kept as a double and come back changed: send it as a string.");
            Err(Refusal::bad_request(message))
        }
        None => Ok(()),
    }
}

/// The first number that a double cannot keep.
fn inexact(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            size.is_some_and(|size| size > MAX_EXACT).then_some(number)
        }
        Value::Array(values) => values.iter().find_map(inexact),
        Value::Object(fields) => fields.values().find_map(inexact),
        _ => None,
    }
}
