//! Asking questions in SQL, page by page.

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

/// More rows than this are not asked for at once.
const MAX_PAGE: usize = 1000;

/// A question that is being put together. Values only ever go in as parameters.
pub(crate) struct Sql {
    query: Query,
    conditions: usize,
    parameters: usize,
}

impl Sql {
    /// Starts with what is selected.
    pub(crate) fn new(select: &str) -> Self {
        Self {
            query: Query::from(select),
            conditions: 0,
            parameters: 0,
        }
    }

    /// Adds text at the end.
    pub(crate) fn then(&mut self, text: &str) {
        self.query = std::mem::replace(&mut self.query, Query::from("")).append_text(text);
    }

    /// Demands something more; `text` holds no value.
    pub(crate) fn demand(&mut self, text: &str) {
        self.then(if self.conditions == 0 { " WHERE " } else { " AND " });
        self.then(text);
        self.conditions += 1;
    }

    /// Demands something of a value: a `?` in the text stands for it.
    pub(crate) fn demand_with(&mut self, text: &str, value: impl Serialize) -> Result<()> {
        let name = self.parameter(value)?;
        self.demand(&text.replace('?', &name));
        Ok(())
    }

    /// Demands that a property is one of these.
    pub(crate) fn is_one_of<'a>(&mut self, property: &str, values: impl Iterator<Item = &'a str>) -> Result<()> {
        let list = self.list(values)?;
        self.demand(&format!("{property} IN ({list})"));
        Ok(())
    }

    /// Values as parameters, with commas between.
    pub(crate) fn list<'a>(&mut self, values: impl Iterator<Item = &'a str>) -> Result<String> {
        let names: Result<Vec<String>> = values.map(|value| self.parameter(value)).collect();
        Ok(names?.join(", "))
    }

    /// Gives a value a name.
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

/// How a question is asked.
pub(crate) struct Want {
    /// What it is counted as.
    pub(crate) operation: &'static str,
    /// Where to look.
    pub(crate) scope: FeedScope,
    /// How many rows are wanted at once.
    pub(crate) page: usize,
    /// How new the answer must be, if not as the settings say.
    pub(crate) consistency: Option<ReadConsistencyStrategy>,
}

/// The answer to a question.
pub(crate) struct Rows<'a> {
    core: &'a Core,
    operation: &'static str,
    pages: QueryPageIterator<Box<RawValue>>,
}

impl Core {
    /// Asks. Nothing is sent until the first page is taken.
    pub(crate) async fn ask(&self, sql: Sql, want: Want) -> Result<Rows<'_>> {
        self.ask_from(sql, want, None).await
    }

    /// Asks, from where a page of the same question ended.
    pub(crate) async fn ask_from(&self, sql: Sql, want: Want, from: Option<ContinuationToken>) -> Result<Rows<'_>> {
        let page = u32::try_from(want.page.clamp(1, MAX_PAGE)).unwrap_or(u32::MAX);
        let mut options = QueryOptions::default();
        if let Some(page) = NonZeroU32::new(page) {
            options = options.with_max_item_count(MaxItemCountHint::Limit(page));
        }
        if let Some(from) = from {
            options = options.with_continuation_token(from);
        }
        if let Some(consistency) = want.consistency {
            let mut operation = OperationOptions::default();
            operation.read_consistency_strategy = Some(consistency);
            options = options.with_operation_options(operation);
        }
        let rows = self.container.query_items(sql.query, want.scope, Some(options)).await;
        let rows = rows.map_err(|error| self.failed(want.operation, &error))?;
        Ok(Rows {
            core: self,
            operation: want.operation,
            pages: rows.into_pages(),
        })
    }

    /// Counts a failed request and says what it means.
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

    /// Where to go on after the page that was taken last.
    pub(crate) fn position(&self) -> Result<ContinuationToken> {
        self.pages.to_continuation_token().map_err(|error| bad(&error))
    }
}
