//! Pages: never too large, now and then empty.

use crate::Kind;
use crate::Options;
use crate::backend::Backend;
use crate::call::{Call, header, parse};
use crate::reply::Reply;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// The field of a continuation that the front made up.
const MARK: &str = "perennialEmptyPageBefore";

/// Serves pages.
#[derive(Debug)]
pub(crate) struct Pages {
    cap: usize,
    bytes: usize,
    empty_every: u64,
    cross_partition: AtomicU64,
}

impl Pages {
    pub fn new(options: &Options) -> Self {
        Self {
            cap: options.page_cap.max(1),
            bytes: options.page_bytes,
            empty_every: u64::from(options.empty_pages),
            cross_partition: AtomicU64::new(0),
        }
    }

    /// Serves one page of a query or feed.
    pub async fn serve(&self, call: &Call, backend: &Backend) -> Reply {
        let mut call = call.clone();
        let after_empty = unwrap_continuation(&mut call);
        let asked = call
            .header(header::MAX_ITEMS)
            .and_then(|text| text.trim().parse::<i64>().ok());
        let asked = asked
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count > 0);
        let mut count = asked.unwrap_or(self.cap).min(self.cap);
        loop {
            call.set_header(header::MAX_ITEMS, &count.to_string());
            let reply = backend.read(&call).await;
            // One item always fits: none is larger than a page.
            let rows = reply.rows();
            if reply.body.len() <= self.bytes || rows <= 1 {
                return self.perhaps_empty(&call, reply, after_empty);
            }
            count = (rows * self.bytes / reply.body.len()).clamp(1, rows - 1);
        }
    }

    /// Empties every so manieth page of a query that no partition key narrows down. Never twice in a row.
    fn perhaps_empty(&self, call: &Call, mut reply: Reply, after_empty: bool) -> Reply {
        let candidate = call.kind == Kind::Query
            && reply.status == 200
            && self.empty_every > 0
            && !after_empty
            && !call.headers.contains_key(header::PARTITION_KEY);
        if !candidate {
            return reply;
        }
        let number = self.cross_partition.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(mut page) = parse(&reply.body).filter(|_| number.is_multiple_of(self.empty_every)) else {
            return reply;
        };
        let before = call.header(header::CONTINUATION);
        if let Some(page) = page.as_object_mut() {
            page.insert("Documents".to_owned(), json!([]));
            page.insert("_count".to_owned(), json!(0));
        }
        reply.body = page.to_string().into();
        reply.set_header(header::ITEM_COUNT, "0");
        reply.set_header(header::CONTINUATION, &json!({ MARK: before }).to_string());
        reply
    }
}

/// Takes the front's own wrapping off a continuation, and says whether there was one.
fn unwrap_continuation(call: &mut Call) -> bool {
    let token = call.header(header::CONTINUATION).unwrap_or_default();
    let Some(inner) = serde_json::from_str::<Value>(token)
        .ok()
        .and_then(|token| token.get(MARK).cloned())
    else {
        return false;
    };
    match inner.as_str() {
        Some(inner) => call.set_header(header::CONTINUATION, inner),
        None => {
            call.headers.remove(header::CONTINUATION);
        }
    }
    true
}
