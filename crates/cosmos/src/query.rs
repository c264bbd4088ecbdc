//! SQL queries, page by page.

use crate::core::Core;
use crate::failure;
use azure_data_cosmos::feed::{ContinuationToken, QueryPageIterator};
use azure_data_cosmos::options::{MaxItemCountHint, OperationOptions, QueryOptions, ReadConsistencyStrategy};
use azure_data_cosmos::{CosmosError, FeedScope, Query};
use futures::StreamExt;
use perennial_store::{Error, Result};
use serde::Serialize;
use serde_json::value::RawValue;
use std::num::NonZeroU32;

/// The largest number of rows per page.
const MAX_PAGE: usize = 1000;

/// A query under construction. Values only ever go in as parameters.
pub(crate) struct Sql {
    query: Query,
    conditions: usize,
    parameters: usize,
}

impl Sql {
    /// A query that begins with this SELECT.
    pub(crate) fn new(select: &str) -> Self {
        Self {
            query: Query::from(select),
            conditions: 0,
            parameters: 0,
        }
    }

    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) {
        self.query = std::mem::replace(&mut self.query, Query::from("")).append_text(text);
    }

    /// Adds a condition; `text` holds no value.
    pub(crate) fn filter(&mut self, text: &str) {
        self.push(if self.conditions == 0 { " WHERE " } else { " AND " });
        self.push(text);
        self.conditions += 1;
    }

    /// Adds a condition on a value: a `?` in the text stands for it.
    pub(crate) fn filter_with(&mut self, text: &str, value: impl Serialize) -> Result<()> {
        let name = self.parameter(value)?;
        self.filter(&text.replace('?', &name));
        Ok(())
    }

    /// Adds the condition that a property is one of these.
    pub(crate) fn filter_in<'a>(&mut self, property: &str, values: impl Iterator<Item = &'a str>) -> Result<()> {
        let list = self.list(values)?;
        self.filter(&format!("{property} IN ({list})"));
        Ok(())
    }

    /// Values as parameters, with commas between.
    pub(crate) fn list<'a>(&mut self, values: impl Iterator<Item = &'a str>) -> Result<String> {
        let names: Result<Vec<String>> = values.map(|value| self.parameter(value)).collect();
        Ok(names?.join(", "))
    }

    /// Adds a parameter and returns its name.
    pub(crate) fn parameter(&mut self, value: impl Serialize) -> Result<String> {
        let name = format!("@p{}", self.parameters);
        self.parameters += 1;
        let query = std::mem::replace(&mut self.query, Query::from(""));
        self.query = query
            .with_parameter(name.as_str(), value)
            .map_err(|error| bad(&error))?;
        Ok(name)
    }
}

fn bad(error: &CosmosError) -> Error {
    Error::Invalid(format!("the query cannot be written: {}", failure::describe(error)))
}

/// How a query is sent.
pub(crate) struct Request {
    /// The operation that it is counted as.
    pub(crate) operation: &'static str,
    /// The partitions to search.
    pub(crate) scope: FeedScope,
    /// How many rows a page should have.
    pub(crate) page: usize,
    /// How fresh the result must be, if not as the settings say.
    pub(crate) consistency: Option<ReadConsistencyStrategy>,
}

/// The result of a query.
pub(crate) struct Rows<'a> {
    core: &'a Core,
    operation: &'static str,
    pages: QueryPageIterator<Box<RawValue>>,
}

impl Core {
    /// Runs a query. Nothing is sent until the first page is taken.
    pub(crate) async fn query(&self, sql: Sql, request: Request) -> Result<Rows<'_>> {
        self.query_from(sql, request, None).await
    }

    /// Runs a query from where a page of the same query ended.
    pub(crate) async fn query_from(
        &self,
        sql: Sql,
        request: Request,
        from: Option<ContinuationToken>,
    ) -> Result<Rows<'_>> {
        let page = u32::try_from(request.page.clamp(1, MAX_PAGE)).unwrap_or(u32::MAX);
        let mut options = QueryOptions::default();
        if let Some(page) = NonZeroU32::new(page) {
            options = options.with_max_item_count(MaxItemCountHint::Limit(page));
        }
        if let Some(from) = from {
            options = options.with_continuation_token(from);
        }
        if let Some(consistency) = request.consistency {
            let mut operation = OperationOptions::default();
            operation.read_consistency_strategy = Some(consistency);
            options = options.with_operation_options(operation);
        }
        let rows = self
            .container
            .query_items(sql.query, request.scope, Some(options))
            .await;
        let rows = rows.map_err(|error| self.failed(request.operation, &error))?;
        Ok(Rows {
            core: self,
            operation: request.operation,
            pages: rows.into_pages(),
        })
    }

    /// Counts a failed request and translates its error.
    pub(crate) fn failed(&self, operation: &'static str, error: &CosmosError) -> Error {
        self.meter.add(operation, error.diagnostics().as_deref());
        failure::meaning(error)
    }
}

impl Rows<'_> {
    /// The next page, which may be empty; `None` at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Box<RawValue>>>> {
        match self.pages.next().await {
            None => Ok(None),
            Some(Err(error)) => Err(self.core.failed(self.operation, &error)),
            Some(Ok(page)) => {
                self.core.meter.add(self.operation, Some(&page.diagnostics()));
                Ok(Some(page.into_items()))
            }
        }
    }

    /// The position after the page that was taken last.
    pub(crate) fn position(&self) -> Result<ContinuationToken> {
        self.pages.to_continuation_token().map_err(|error| bad(&error))
    }
}
