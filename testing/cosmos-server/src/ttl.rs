//! Documents that live for a time only.

use crate::backend::Backend;
use crate::call::{Call, header, parse};
use crate::containers::{Containers, encoded};
use crate::reply::{Refusal, Reply};
use crate::{Container, Kind};
use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// The longest time to live, in seconds.
const MAX_TTL: i64 = 2_147_483_647;

/// Refuses a time to live that is none.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    let documents: Vec<&Value> = match (call.kind, call.json()) {
        (Kind::Create | Kind::Upsert | Kind::Replace, Some(document)) => vec![document],
        (Kind::Batch, Some(Value::Array(operations))) => operations
            .iter()
            .filter_map(|operation| operation.get("resourceBody"))
            .collect(),
        _ => Vec::new(),
    };
    let is_wrong = |ttl: &&Value| !matches!(ttl.as_i64(), Some(-1 | 1..=MAX_TTL)) && !ttl.is_null();
    match documents
        .iter()
        .filter_map(|document| document.get("ttl"))
        .find(is_wrong)
    {
        Some(ttl) => {
            let message = format!("The ttl {ttl} is neither -1 nor a positive number of seconds.");
            Err(Refusal::bad_request(message))
        }
        None => Ok(()),
    }
}

/// When documents expire. The emulator keeps them forever, so the front deletes expired ones before it serves.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes {
    by_container: Mutex<HashMap<Container, Ends>>,
}

/// A document: its partition key as JSON, and its id.
type Document = (String, String);

#[derive(Debug, Default)]
struct Ends {
    by_document: HashMap<Document, End>,
    by_time: BTreeSet<(u64, Document)>,
}

#[derive(Clone, Debug)]
struct End {
    at_ms: u64,
    etag: String,
}

impl Lifetimes {
    /// Deletes expired documents in the request's container.
    pub async fn purge(&self, call: &Call, backend: &Backend, now_ms: u64) {
        let Some(container) = call.container() else {
            return;
        };
        for ((partition, id), end) in self.over(&container, now_ms) {
            let target = format!(
                "/dbs/{}/colls/{}/docs/{}",
                encoded(&container.database),
                encoded(&container.container),
                encoded(&id)
            );
            let mut delete = Call::new(Method::DELETE, &target, HeaderMap::new(), Bytes::new());
            delete.set_header(header::PARTITION_KEY, &partition);
            // A document that was written again meanwhile is another one.
            delete.set_header(header::IF_MATCH, &end.etag);
            backend.execute(&delete).await;
        }
    }

    fn over(&self, container: &Container, now_ms: u64) -> Vec<(Document, End)> {
        let mut containers = self.by_container.lock();
        let Some(ends) = containers.get_mut(container) else {
            return Vec::new();
        };
        let mut over = Vec::new();
        while let Some((at_ms, _)) = ends.by_time.first()
            && *at_ms <= now_ms
            && let Some((_, document)) = ends.by_time.pop_first()
        {
            if let Some(end) = ends.by_document.remove(&document) {
                over.push((document, end));
            }
        }
        over
    }

    /// Records when the documents that the request has just written expire.
    pub fn learn(&self, call: &Call, reply: &Reply, containers: &Containers, now_ms: u64) {
        let Some(container) = call.container().filter(|_| reply.is_success()) else {
            return;
        };
        let Some(properties) = containers.properties(&container) else {
            return;
        };
        let Some(default) = properties.get("defaultTtl").and_then(Value::as_i64) else {
            return;
        };
        let Some(partition) = partition_of(call) else {
            return;
        };
        let mut containers = self.by_container.lock();
        let ends = containers.entry(container).or_default();
        for (id, etag, ttl) in written(call, reply) {
            let document = (partition.clone(), id);
            ends.forget(&document);
            let seconds = u64::try_from(ttl.unwrap_or(default)).ok();
            if let (Some(seconds), Some(etag)) = (seconds, etag) {
                let at_ms = now_ms.saturating_add(seconds.saturating_mul(1_000));
                ends.by_time.insert((at_ms, document.clone()));
                ends.by_document.insert(document, End { at_ms, etag });
            }
        }
    }
}

impl Ends {
    fn forget(&mut self, document: &Document) {
        if let Some(end) = self.by_document.remove(document) {
            self.by_time.remove(&(end.at_ms, document.clone()));
        }
    }
}

/// The partition key, spelled in one way.
fn partition_of(call: &Call) -> Option<String> {
    let value: Value = serde_json::from_str(call.header(header::PARTITION_KEY)?).ok()?;
    Some(value.to_string())
}

/// A written document: its id, its new etag (none if it was deleted), and its own time to live.
type Written = (String, Option<String>, Option<i64>);

fn written(call: &Call, reply: &Reply) -> Vec<Written> {
    match call.kind {
        Kind::Create | Kind::Upsert | Kind::Replace | Kind::Delete => written_alone(call, reply).into_iter().collect(),
        Kind::Batch => written_together(call, reply),
        _ => Vec::new(),
    }
}

fn written_alone(call: &Call, reply: &Reply) -> Option<Written> {
    let etag = match call.kind {
        Kind::Delete => None,
        _ => reply.header(header::ETAG).map(str::to_owned),
    };
    Some((call.id()?.to_owned(), etag, call.json().and_then(own_ttl)))
}

fn written_together(call: &Call, reply: &Reply) -> Vec<Written> {
    let (Some(Value::Array(operations)), Some(Value::Array(results))) = (call.json(), parse(&reply.body)) else {
        return Vec::new();
    };
    if reply.status != 200 {
        return Vec::new();
    }
    let one = |(operation, result): (&Value, &Value)| {
        let body = operation.get("resourceBody");
        let id = operation.get("id").or_else(|| body.and_then(|body| body.get("id")));
        let etag = match operation.get("operationType").and_then(Value::as_str)? {
            "Read" => return None,
            "Delete" => None,
            _ => result.get("eTag").and_then(Value::as_str).map(str::to_owned),
        };
        Some((id?.as_str()?.to_owned(), etag, body.and_then(own_ttl)))
    };
    operations.iter().zip(&results).filter_map(one).collect()
}

fn own_ttl(document: &Value) -> Option<i64> {
    document.get("ttl").and_then(Value::as_i64)
}
