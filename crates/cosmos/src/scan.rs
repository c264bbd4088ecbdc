//! Scans of a partition.

use crate::core::Core;
use crate::document::WITHOUT_BODY;
use crate::names;
use crate::query::{Request, Sql};
use azure_data_cosmos::FeedScope;
use perennial_store::{RecordId, Result, ScanPage, ScanQuery};
use serde::Deserialize;
use serde_json::value::RawValue;

impl Core {
    /// One query in one partition, in order of the documents' ids, which sort like the records' ids. Only ids that were
    /// cut do not: they stand together, and are sorted here.
    pub(crate) async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        if query.limit == 0 {
            return Ok(ScanPage::default());
        }
        let request = Request {
            operation: "scan",
            scope: FeedScope::partition(names::partition(query.partition.as_str()).encoded),
            page: query.limit.saturating_add(1),
            consistency: None,
        };
        let mut rows = self.query(sql(query)?, request).await?;
        let mut records = Vec::new();
        while let Some(page) = rows.next_page().await? {
            let in_block = page.last().is_some_and(|row| is_cut(row));
            for row in page {
                let record = self.read(&row, !query.keys_only)?;
                if matches(query, &record.key.id) {
                    records.push(record);
                }
            }
            if records.len() > query.limit && !in_block {
                break;
            }
        }
        records.sort_by(|a, b| a.key.id.cmp(&b.key.id));
        let is_more = records.len() > query.limit;
        records.truncate(query.limit);
        let next = records.last().filter(|_| is_more).map(|record| record.key.id.clone());
        Ok(ScanPage { records, next })
    }
}

fn sql(query: &ScanQuery) -> Result<Sql> {
    let mut sql = match query.keys_only {
        true => Sql::new(&format!("SELECT {WITHOUT_BODY} FROM c")),
        false => Sql::new("SELECT * FROM c"),
    };
    if let Some(under) = &query.under {
        let exact = sql.parameter(names::id(under.as_str()).encoded)?;
        let below = sql.parameter(names::id_prefix(&format!("{under}/")))?;
        sql.filter(&format!("(c.id = {exact} OR STARTSWITH(c.id, {below}))"));
    }
    if let Some(after) = &query.after {
        match names::id(after.as_str()) {
            name if name.is_cut => sql.filter_with("c.id >= ?", names::id_prefix(after.as_str()))?,
            name => sql.filter_with("c.id > ?", name.encoded)?,
        }
    }
    sql.push(" ORDER BY c.id");
    Ok(sql)
}

/// The condition that the query cannot express where ids are cut.
fn matches(query: &ScanQuery, id: &RecordId) -> bool {
    let is_under = |under: &RecordId| id == under || id.below(under).is_some();
    query.under.as_ref().is_none_or(is_under) && query.after.as_ref().is_none_or(|after| id > after)
}

fn is_cut(row: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    serde_json::from_str::<Id>(row.get()).is_ok_and(|row| names::is_cut_id(&row.id))
}
