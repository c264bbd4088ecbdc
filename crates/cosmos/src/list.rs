//! Listings of records by their attributes.

use crate::core::Core;
use crate::document::{WITHOUT_BODY, safe};
use crate::query::{Request, Sql};
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use perennial_store::{Cursor, ListFilter, ListPage, Listed, Record, RecordPage, Result};

impl Core {
    /// One query over all partitions, physical partition by physical partition. A page may hold fewer records than its
    /// limit.
    pub(crate) async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let found = self.page(filter, after, limit, Wanted::Keys).await?;
        let entries = found.records.into_iter().filter_map(|record| {
            Some(Listed {
                listing: record.listing?,
                key: record.key,
                version: record.version,
            })
        });
        Ok(ListPage {
            entries: entries.collect(),
            next: found.next,
        })
    }

    /// The same with bodies, and as fresh as the latest commit.
    pub(crate) async fn list_records(
        &self,
        filter: &ListFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<RecordPage> {
        self.page(filter, after, limit, Wanted::Records).await
    }

    async fn page(
        &self,
        filter: &ListFilter,
        after: Option<&Cursor>,
        limit: usize,
        wanted: Wanted,
    ) -> Result<RecordPage> {
        if limit == 0 {
            return Ok(RecordPage::default());
        }
        let with_body = wanted == Wanted::Records;
        let request = Request {
            operation: "list",
            scope: FeedScope::full_container(),
            page: limit,
            consistency: with_body.then_some(ReadConsistencyStrategy::LatestCommitted),
        };
        let from = after.map(|cursor| ContinuationToken::from_string(cursor.0.clone()));
        let mut rows = self.query_from(sql(filter, with_body)?, request, from).await?;
        while let Some(page) = rows.next_page().await? {
            let records = page.iter().filter_map(|row| self.decode(row, with_body));
            let is_wanted = |record: &Record| record.listing.as_ref().is_some_and(|listing| filter.matches(listing));
            let records: Vec<Record> = records.filter(is_wanted).collect();
            if !records.is_empty() {
                let next = Some(Cursor(rows.position()?.as_str().to_owned()));
                return Ok(RecordPage { records, next });
            }
        }
        Ok(RecordPage::default())
    }
}

/// How much of each record is returned.
#[derive(PartialEq)]
enum Wanted {
    Keys,
    Records,
}

fn sql(filter: &ListFilter, with_body: bool) -> Result<Sql> {
    let mut sql = match with_body {
        true => Sql::new("SELECT * FROM c"),
        false => Sql::new(&format!("SELECT {WITHOUT_BODY} FROM c")),
    };
    sql.filter_with("c.kind = ?", &filter.kind)?;
    if let Some(status) = &filter.status {
        sql.filter_with("c.status = ?", status)?;
    }
    if let Some(name) = &filter.name {
        sql.filter_with("c.name = ?", name)?;
    }
    if let Some(parent) = &filter.parent {
        sql.filter_with("c.parent = ?", parent)?;
    }
    if let Some(before) = filter.completed_before_ms {
        // Not strictly: numbers beyond what a double holds are compared afterwards.
        sql.filter_with("c.completed <= ?", safe(before))?;
    }
    Ok(sql)
}
