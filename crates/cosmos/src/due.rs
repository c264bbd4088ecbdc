//! Queries for ready work.

use crate::core::Core;
use crate::document::{order_text, safe};
use crate::query::{Request, Sql};
use azure_data_cosmos::FeedScope;
use perennial_store::{DuePage, DueQuery, Record, Result, SLOTS, Slot, SlotSet, Topics};
use serde_json::value::RawValue;

impl Core {
    /// One query over all partitions: one request for each physical partition, because the SDK plans it without a
    /// request.
    pub(crate) async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        if query.limit == 0 || is_nothing(query) {
            return Ok(DuePage::default());
        }
        let request = Request {
            operation: "due",
            scope: FeedScope::full_container(),
            page: query.limit.saturating_add(1),
            consistency: None,
        };
        let mut rows = self.query(sql(query)?, request).await?;
        let mut records = Vec::new();
        while records.len() <= query.limit
            && let Some(page) = rows.next_page().await?
        {
            records.extend(
                page.iter()
                    .filter_map(|row| self.decode(row, true))
                    .filter(|record| is_ready(query, record)),
            );
        }
        let more = records.len() > query.limit;
        records.truncate(query.limit);
        Ok(DuePage {
            records,
            more,
            next_due_ms: None,
        })
    }

    /// A document that cannot be decoded is left out, so that it does not block other records.
    pub(crate) fn decode(&self, row: &RawValue, with_body: bool) -> Option<Record> {
        self.read(row, with_body).map_err(|error| note_damaged(&error)).ok()
    }
}

pub(crate) fn note_damaged(error: &perennial_store::Error) {
    metrics::counter!("perennial_cosmos_damaged_total").increment(1);
    tracing::warn!(%error, "a document is left out because it cannot be decoded");
}

/// Whether the query can match nothing.
fn is_nothing(query: &DueQuery) -> bool {
    let no_topic = matches!(&query.topics, Topics::These { topics, default } if topics.is_empty() && !default);
    no_topic || query.slots == SlotSet::none()
}

/// Numbers beyond what a double holds are compared here.
fn is_ready(query: &DueQuery, record: &Record) -> bool {
    record
        .place
        .as_ref()
        .is_some_and(|place| place.due_ms <= query.until_ms)
}

fn sql(query: &DueQuery) -> Result<Sql> {
    let mut sql = Sql::new("SELECT * FROM c");
    sql.filter_with("c.lane = ?", &query.lane)?;
    sql.filter_with("c.due <= ?", safe(query.until_ms))?;
    if let Some(after) = query.after {
        sql.filter_with("c.arrival > ?", order_text(after))?;
    }
    if !query.slots.is_all() {
        sql.filter(&format!("c.slot IN ({})", slots(&query.slots)));
    }
    match &query.topics {
        Topics::All => {}
        Topics::Default => sql.filter("NOT IS_DEFINED(c.topic)"),
        Topics::These { topics, .. } if topics.is_empty() => sql.filter("NOT IS_DEFINED(c.topic)"),
        Topics::These { topics, default } => {
            let list = sql.list(topics.iter().map(|topic| &**topic))?;
            match default {
                true => sql.filter(&format!("(c.topic IN ({list}) OR NOT IS_DEFINED(c.topic))")),
                false => sql.filter(&format!("c.topic IN ({list})")),
            }
        }
    }
    // Both, so that the composite index serves filter and order.
    sql.push(" ORDER BY c.lane, c.arrival");
    Ok(sql)
}

fn slots(set: &SlotSet) -> String {
    let numbers = (0..SLOTS).filter_map(|n| u8::try_from(n).ok());
    let chosen = numbers.filter(|n| set.contains(Slot(*n)));
    chosen.map(|n| n.to_string()).collect::<Vec<_>>().join(",")
}
