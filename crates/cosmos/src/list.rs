//! Finding records by their attributes.

use crate::core::Core;
use crate::document::{WITHOUT_BODY, safe};
use crate::query::{Sql, Want};
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::feed::ContinuationToken;
use perennial_store::{Cursor, ListFilter, ListPage, Listed, Result};

impl Core {
    /// One query over all partitions, physical partition by physical partition. A page may hold fewer than it may.
    pub(crate) async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        if limit == 0 {
            return Ok(ListPage::default());
        }
        let want = Want {
            operation: "list",
            scope: FeedScope::full_container(),
            page: limit,
            consistency: None,
        };
        let from = after.map(|cursor| ContinuationToken::from_string(cursor.0.clone()));
        let mut rows = self.ask_from(question(filter)?, want, from).await?;
        while let Some(page) = rows.next_page().await? {
            let records = page.iter().filter_map(|row| self.understood(row, false));
            let entries: Vec<Listed> = records
                .filter_map(|record| {
                    Some(Listed {
                        listing: record.listing.filter(|listing| filter.matches(listing))?,
                        key: record.key,
                        version: record.version,
                    })
                })
                .collect();
            if !entries.is_empty() {
                let next = Some(Cursor(rows.position()?.as_str().to_owned()));
                return Ok(ListPage { entries, next });
            }
        }
        Ok(ListPage::default())
    }
}

fn question(filter: &ListFilter) -> Result<Sql> {
    let mut sql = Sql::new(&format!("SELECT {WITHOUT_BODY} FROM c"));
    sql.demand_with("c.kind = ?", &filter.kind)?;
    if let Some(status) = &filter.status {
        sql.demand_with("c.status = ?", status)?;
    }
    if let Some(name) = &filter.name {
        sql.demand_with("c.name = ?", name)?;
    }
    if let Some(parent) = &filter.parent {
        sql.demand_with("c.parent = ?", parent)?;
    }
    if let Some(before) = filter.completed_before_ms {
        // Not strictly: numbers beyond what a double holds are compared afterwards.
        sql.demand_with("c.completed <= ?", safe(before))?;
    }
    Ok(sql)
}
