//! The ids, partition keys and batches that the service accepts.

use crate::Kind;
use crate::call::{Call, header};
use crate::containers::Containers;
use crate::reply::Refusal;
use serde_json::Value;

/// The longest id of a document, in bytes.
const MAX_ID: usize = 1023;
/// The longest id of a database or container, in bytes.
const MAX_NAME: usize = 255;
/// The longest partition key value, in bytes, where the container's key has version 2.
const MAX_KEY: usize = 2048;
/// The longest partition key value where it has version 1, which is what an omitted version means.
const MAX_KEY_V1: usize = 101;

/// Refuses ids, partition keys and batches that the service refuses.
pub(crate) fn check(call: &Call, containers: &Containers) -> Result<(), Refusal> {
    if call.kind == Kind::Metadata {
        return check_names(call);
    }
    if let Some(id) = call.document() {
        check_id(id, MAX_ID)?;
    }
    match call.kind {
        Kind::Create | Kind::Upsert | Kind::Replace => check_body_id(call.json())?,
        Kind::Batch => check_batch(call.json())?,
        _ => {}
    }
    check_partition_key(call, containers)
}

fn check_id(id: &str, longest: usize) -> Result<(), Refusal> {
    if id.is_empty() {
        return Err(Refusal::bad_request("The id is empty: one character is the least."));
    }
    if id.len() > longest {
        let message = format!("The id has {} bytes: {longest} are the most.", id.len());
        return Err(Refusal::bad_request(message));
    }
    match id.chars().find(|char| matches!(char, '/' | '\\' | '#' | '?')) {
        Some(char) => {
            let message = format!("The id contains '{char}': none of / \\ # ? is allowed, encode it.");
            Err(Refusal::bad_request(message))
        }
        None => Ok(()),
    }
}

/// Databases and containers, when they are created.
fn check_names(call: &Call) -> Result<(), Refusal> {
    let creates = call.method == http::Method::POST && !call.says("x-ms-documentdb-isquery");
    let named = matches!(call.segments.len(), 1 | 3) && creates;
    match call.json().and_then(|body| body.get("id")).and_then(Value::as_str) {
        Some(id) if named => check_id(id, MAX_NAME),
        _ => Ok(()),
    }
}

fn check_body_id(body: Option<&Value>) -> Result<(), Refusal> {
    let body = body.ok_or_else(|| Refusal::bad_request("The body of the document is not JSON."))?;
    match body.get("id") {
        Some(Value::String(id)) => check_id(id, MAX_ID),
        Some(_) => Err(Refusal::bad_request("The id of the document is not a string.")),
        None => Err(Refusal::bad_request("The document has no id.")),
    }
}

fn check_batch(body: Option<&Value>) -> Result<(), Refusal> {
    let Some(Value::Array(operations)) = body else {
        return Err(Refusal::bad_request(
            "The body of the batch is not an array of operations.",
        ));
    };
    if operations.is_empty() {
        return Err(Refusal::bad_request("The batch is empty: one operation is the least."));
    }
    for operation in operations {
        if let Some(id) = operation.get("id").and_then(Value::as_str) {
            check_id(id, MAX_ID)?;
        }
        if let Some(document) = operation.get("resourceBody") {
            check_body_id(Some(document))?;
        }
    }
    Ok(())
}

fn check_partition_key(call: &Call, containers: &Containers) -> Result<(), Refusal> {
    let Some(text) = call.header(header::PARTITION_KEY) else {
        if call.kind.is_partitioned() {
            let message = "The request has no x-ms-documentdb-partitionkey: a document is known by partition and id.";
            return Err(Refusal::bad_request(message));
        }
        return Ok(());
    };
    let Ok(Value::Array(values)) = serde_json::from_str(text) else {
        let message = "x-ms-documentdb-partitionkey is not a JSON array of values.";
        return Err(Refusal::bad_request(message));
    };
    let version = call.container().map_or(2, |name| containers.key_version(&name));
    let longest = if version >= 2 { MAX_KEY } else { MAX_KEY_V1 };
    for value in values.iter().filter_map(Value::as_str) {
        if value.len() > longest {
            let message = format!("The partition key has {} bytes: {longest} are the most.", value.len());
            return Err(Refusal::bad_request(message));
        }
    }
    Ok(())
}
