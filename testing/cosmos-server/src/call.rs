//! One parsed request.

use crate::Kind;
use azure_data_cosmos_driver::binary_json;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::fmt;
use std::sync::OnceLock;

/// Names of headers that the front reads or writes.
pub(crate) mod header {
    pub const AUTHORIZATION: &str = "authorization";
    pub const DATE: &str = "x-ms-date";
    pub const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";
    pub const PARTITION_RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
    pub const START_EPK: &str = "x-ms-start-epk";
    pub const END_EPK: &str = "x-ms-end-epk";
    pub const CROSS_PARTITION: &str = "x-ms-documentdb-query-enablecrosspartition";
    pub const MAX_ITEMS: &str = "x-ms-max-item-count";
    pub const ITEM_COUNT: &str = "x-ms-item-count";
    pub const CONTINUATION: &str = "x-ms-continuation";
    pub const CHARGE: &str = "x-ms-request-charge";
    pub const SUBSTATUS: &str = "x-ms-substatus";
    pub const RETRY_AFTER: &str = "x-ms-retry-after-ms";
    pub const CONSISTENCY: &str = "x-ms-consistency-level";
    pub const CONSISTENCY_STRATEGY: &str = "x-ms-cosmos-read-consistency-strategy";
    pub const THROUGHPUT: &str = "x-ms-offer-throughput";
    pub const ETAG: &str = "etag";
    pub const IF_MATCH: &str = "if-match";
    pub const PREFER: &str = "prefer";
    pub const ACTIVITY: &str = "x-ms-activity-id";
}

/// A database and a container in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Container {
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
}

impl Container {
    /// A container by its names.
    pub fn new(database: impl Into<String>, container: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            container: container.into(),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.container)
    }
}

/// One request, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub method: Method,
    /// Path and query as they came.
    pub target: String,
    /// The path, cut at slashes, each part decoded.
    pub segments: Vec<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub kind: Kind,
    json: OnceLock<Option<Value>>,
}

impl Call {
    pub fn new(method: Method, target: &str, headers: HeaderMap, body: Bytes) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let kind = classify(&method, &segments, &headers);
        Self {
            method,
            target: target.to_owned(),
            segments,
            headers,
            body,
            kind,
            json: OnceLock::new(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn set_header(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    fn segment(&self, at: usize) -> Option<&str> {
        self.segments.get(at).map(String::as_str)
    }

    /// The container that the request is about or inside of.
    pub fn container(&self) -> Option<Container> {
        if self.segment(0) != Some("dbs") || self.segment(2) != Some("colls") {
            return None;
        }
        Some(Container::new(self.segment(1)?, self.segment(3)?))
    }

    /// The id of the document in the path.
    pub fn document(&self) -> Option<&str> {
        (self.segment(4) == Some("docs")).then(|| self.segment(5)).flatten()
    }

    /// The document that the request names, in its path or its body.
    pub fn id(&self) -> Option<&str> {
        self.document()
            .or_else(|| self.json().and_then(|body| body.get("id")).and_then(Value::as_str))
    }

    /// The body, be it text or the binary form that the official SDK prefers.
    pub fn json(&self) -> Option<&Value> {
        self.json.get_or_init(|| parse(&self.body)).as_ref()
    }

    /// Whether it concerns at most one physical partition.
    pub fn is_scoped(&self) -> bool {
        [
            header::PARTITION_KEY,
            header::PARTITION_RANGE,
            header::START_EPK,
            header::END_EPK,
        ]
        .iter()
        .any(|name| self.headers.contains_key(*name))
    }

    /// Whether a header says true.
    pub fn says(&self, name: &str) -> bool {
        says(&self.headers, name)
    }
}

/// A JSON body, be it text or binary.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    if binary_json::is_binary(body) {
        return binary_json::decode(body).ok();
    }
    serde_json::from_slice(body).ok()
}

fn decoded(part: &str) -> String {
    match percent_decode_str(part).decode_utf8() {
        Ok(text) => text.into_owned(),
        Err(_) => part.to_owned(),
    }
}

fn says(headers: &HeaderMap, name: &str) -> bool {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn classify(method: &Method, segments: &[String], headers: &HeaderMap) -> Kind {
    if segments.get(4).map(String::as_str) != Some("docs") {
        return Kind::Metadata;
    }
    match (method.as_str(), segments.len()) {
        ("POST", 5) => classify_post(headers),
        ("GET", 5) if headers.contains_key("a-im") => Kind::ChangeFeed,
        ("GET", 5) => Kind::Feed,
        ("GET", _) => Kind::Read,
        ("PUT", _) => Kind::Replace,
        ("PATCH", _) => Kind::Patch,
        ("DELETE", _) => Kind::Delete,
        _ => Kind::Metadata,
    }
}

fn classify_post(headers: &HeaderMap) -> Kind {
    if says(headers, "x-ms-cosmos-is-query-plan-request") {
        Kind::QueryPlan
    } else if says(headers, "x-ms-documentdb-isquery") || says(headers, "x-ms-documentdb-query") {
        Kind::Query
    } else if says(headers, "x-ms-cosmos-is-batch-request") {
        Kind::Batch
    } else if says(headers, "x-ms-documentdb-is-upsert") {
        Kind::Upsert
    } else {
        Kind::Create
    }
}
