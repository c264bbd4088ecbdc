//! Prices of requests, as far as they are known.
//!
//! The service publishes few prices. Each constant states its source, or that it is a guess. Good for comparing two
//! programs, not for a bill.

use crate::Kind;
use crate::call::{Call, header};
use crate::reply::Reply;
use serde_json::Value;

/// Creating 1 KB. From a comment in Microsoft's driver: a live two-item batch was billed 6.2857 RU per operation.
const CREATE: f64 = 6.2857;
/// Deleting 1 KB. Unpublished; observed to be about the price of creating.
const DELETE: f64 = 6.2857;
/// Replacing 1 KB. "Two times the charge required to insert" say the documents of an unindexed item of 5.5 RU; with
/// the lean indexing policies that we use, observations lie between 10 and 10.7.
const REPLACE: f64 = 10.29;
/// Running a query in one physical partition. Observations lie between 2.3 and 2.9.
const QUERY: f64 = 2.3;
/// The first rows of a page. Observed.
const FIRST_ROWS: f64 = 0.3;
/// Each row after the second, if small. Observed.
const ROW: f64 = 0.05;
/// Looking at a change feed that has nothing new. A guess.
const IDLE_FEED: f64 = 1.0;
/// A request that fails a condition or finds nothing. A guess: that of reading 1 KB.
const FAILED: f64 = 1.0;

/// The price of a point read of this many bytes. Documented: 1 RU for 1 KB, 10 RU for 100 KB. Between and beyond we draw
/// a straight line.
pub(crate) fn read(bytes: usize) -> f64 {
    growth(bytes)
}

/// How much more than 1 KB this many bytes cost. Documented for reads alone; we take the same for writes.
fn growth(bytes: usize) -> f64 {
    let kilobytes = (bytes as f64 / 1024.0).max(1.0);
    1.0 + (kilobytes - 1.0) * 9.0 / 99.0
}

/// Prices a request, and writes the price into the reply in place of the emulator's own.
pub(crate) fn charge(call: &Call, reply: &mut Reply, partitions: u32) -> f64 {
    let ru = match call.kind {
        Kind::Batch if reply.is_success() => charge_batch(call, reply),
        _ => single(call, reply, partitions),
    };
    reply.set_header(header::CHARGE, &format!("{ru:.2}"));
    ru
}

/// The estimated price of a request other than a batch.
fn single(call: &Call, reply: &Reply, partitions: u32) -> f64 {
    let answered = matches!(reply.status, 200..=299 | 304 | 404 | 409 | 412);
    if !answered || !call.kind.is_document() {
        return 0.0;
    }
    let sent = call.body.len();
    let price = match call.kind {
        Kind::Query => query(call, reply, partitions),
        Kind::Feed | Kind::ChangeFeed => IDLE_FEED + rows(reply.rows()),
        Kind::QueryPlan | Kind::Metadata => 0.0,
        _ if !reply.is_success() => FAILED,
        Kind::Read => read(reply.body.len()),
        Kind::Create => CREATE * growth(sent),
        Kind::Upsert if reply.status == 201 => CREATE * growth(sent),
        Kind::Upsert | Kind::Replace | Kind::Patch => REPLACE * growth(sent),
        Kind::Delete => DELETE,
        Kind::Batch => FAILED,
    };
    // Documented: reads under strong or bounded consistency cost twice as much.
    if call.kind.is_read() && is_strong(call) {
        price * 2.0
    } else {
        price
    }
}

fn is_strong(call: &Call) -> bool {
    let strategy = call.header(header::CONSISTENCY_STRATEGY).unwrap_or_default();
    let level = call.header(header::CONSISTENCY).unwrap_or_default();
    matches!(strategy, "LatestCommitted" | "GlobalStrong") || matches!(level, "Strong" | "BoundedStaleness")
}

fn query(call: &Call, reply: &Reply, partitions: u32) -> f64 {
    let partitions = if call.is_scoped() { 1 } else { partitions };
    QUERY * f64::from(partitions) + rows(reply.rows())
}

fn rows(rows: usize) -> f64 {
    match rows {
        0 => 0.0,
        rows => FIRST_ROWS + ROW * rows.saturating_sub(2) as f64,
    }
}

/// Prices each operation of a batch. Of a batch that failed, each is charged as a failure.
fn charge_batch(call: &Call, reply: &mut Reply) -> f64 {
    let Some(Value::Array(operations)) = call.json() else {
        return 0.0;
    };
    let mut results: Vec<Value> = serde_json::from_slice(&reply.body).unwrap_or_default();
    let mut total = 0.0;
    for (operation, result) in operations.iter().zip(&mut results) {
        let price = batch_operation(operation, result);
        total += price;
        if let Some(result) = result.as_object_mut() {
            result.insert("requestCharge".to_owned(), price.into());
        }
    }
    if let Ok(body) = serde_json::to_vec(&results) {
        reply.body = body.into();
    }
    total
}

fn batch_operation(operation: &Value, result: &Value) -> f64 {
    let status = result.get("statusCode").and_then(Value::as_u64);
    let bytes = |value: Option<&Value>| value.map_or(0, |body| body.to_string().len());
    let sent = bytes(operation.get("resourceBody"));
    match (status, operation.get("operationType").and_then(Value::as_str)) {
        (Some(200..=299), Some("Create")) | (Some(201), Some("Upsert")) => CREATE * growth(sent),
        (Some(200..=299), Some("Replace" | "Upsert" | "Patch")) => REPLACE * growth(sent),
        (Some(200..=299), Some("Delete")) => DELETE,
        (Some(200..=299), Some("Read")) => read(bytes(result.get("resourceBody"))),
        _ => FAILED,
    }
}
