//! Inspecting instances.

use crate::engine::Engine;
use crate::error::{from_store, no_instance};
use crate::instance::{self, Snapshot};
use crate::read::{Freshness, Instances};
use crate::records::head::{Head, KIND};
use crate::records::{instance_of, partition};
use crate::tuning::{LIST_PAGE, PARENTS_REMEMBERED};
use duroxide::providers::{ExecutionInfo, InstanceInfo, ProviderError};
use perennial_store::{Cursor, ListFilter, ListPage, Listed};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Visits listed instances until the visitor has seen enough.
pub async fn visit(
    instances: &impl Instances,
    operation: &'static str,
    filter: &ListFilter,
    mut visitor: impl FnMut(Listed) -> bool,
) -> Result<(), ProviderError> {
    let mut after: Option<Cursor> = None;
    loop {
        let page = page(instances, operation, filter, after.as_ref()).await?;
        for entry in page.entries {
            if !visitor(entry) {
                return Ok(());
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Some listed instances.
pub async fn page(
    instances: &impl Instances,
    operation: &'static str,
    filter: &ListFilter,
    after: Option<&Cursor>,
) -> Result<ListPage, ProviderError> {
    if after.is_none() {
        instances.await_acks().await;
    }
    let page = instances.store().list(filter, after, LIST_PAGE).await;
    page.map_err(|e| from_store(operation, &e))
}

/// The ids of all instances that pass a filter.
pub async fn ids(
    instances: &impl Instances,
    operation: &'static str,
    filter: &ListFilter,
) -> Result<Vec<String>, ProviderError> {
    let mut ids = Vec::new();
    visit(instances, operation, filter, |entry| {
        ids.push(instance_of(&entry.key.partition).to_string());
        true
    })
    .await?;
    Ok(ids)
}

/// All instances.
pub fn all() -> ListFilter {
    ListFilter::kind(KIND)
}

/// Instances in a state.
pub fn with_status(status: &str) -> ListFilter {
    ListFilter {
        status: Some(Cow::Owned(status.to_string())),
        ..all()
    }
}

/// Instances that an instance started.
pub fn children_of(instance: &str) -> ListFilter {
    ListFilter {
        parent: Some(instance.to_string()),
        ..all()
    }
}

/// An instance that exists and has a name.
pub async fn existing(
    instances: &impl Instances,
    operation: &'static str,
    id: &str,
) -> Result<(Arc<Snapshot>, Head), ProviderError> {
    let snapshot = instances.snapshot(operation, id).await?;
    let head = snapshot.head().filter(|head| head.name.is_some()).cloned();
    head.map(|head| (snapshot, head))
        .ok_or_else(|| no_instance(operation, id))
}

/// Whether an instance exists, by a read of the store.
pub async fn exists(engine: &Engine, operation: &'static str, id: &str) -> Result<bool, ProviderError> {
    let snapshot = engine.view(operation, id, Freshness::Latest).await?;
    Ok(snapshot.head().is_some_and(|head| head.name.is_some()))
}

/// Parents, and whether they exist. A child that began after its parent was deleted has none.
#[derive(Default)]
pub struct Parents(HashMap<String, bool>);

impl Parents {
    /// Whether an instance is deleted by itself: it is a root, or its parent is gone.
    pub async fn is_root(
        &mut self,
        engine: &Engine,
        operation: &'static str,
        parent: Option<&str>,
    ) -> Result<bool, ProviderError> {
        let Some(parent) = parent else { return Ok(true) };
        if let Some(exists) = self.0.get(parent) {
            return Ok(!exists);
        }
        let exists = exists(engine, operation, parent).await?;
        if self.0.len() >= PARENTS_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(parent.to_string(), exists);
        Ok(!exists)
    }
}

/// The numbers of all executions, oldest first.
pub async fn executions(instances: &impl Instances, id: &str) -> Result<Vec<u64>, ProviderError> {
    const OPERATION: &str = "list_executions";
    let snapshot = instances.snapshot(OPERATION, id).await?;
    let Some(current) = snapshot.head().map(|head| head.execution.id) else {
        return Ok(Vec::new());
    };
    let ended = instance::executions(instances.store(), &partition(id))
        .await
        .map_err(|e| from_store(OPERATION, &e))?;
    let mut ids: Vec<u64> = ended
        .iter()
        .map(|ended| ended.execution.id)
        .filter(|id| *id != current)
        .collect();
    ids.push(current);
    ids.sort_unstable();
    Ok(ids)
}

/// What is known of an instance.
pub async fn instance_info(instances: &impl Instances, id: &str) -> Result<InstanceInfo, ProviderError> {
    const OPERATION: &str = "get_instance_info";
    let (_, head) = existing(instances, OPERATION, id).await?;
    let ended = if head.is_terminal() {
        instance::ended(instances.store(), &partition(id), head.execution.id)
            .await
            .map_err(|e| from_store(OPERATION, &e))?
    } else {
        None
    };
    Ok(InstanceInfo {
        instance_id: id.to_string(),
        status: head.status().to_string(),
        orchestration_name: head.name.unwrap_or_default(),
        orchestration_version: head.version.unwrap_or_else(|| "unknown".to_string()),
        current_execution_id: head.execution.id,
        output: ended.and_then(|ended| ended.output),
        created_at: head.created_ms,
        updated_at: head.updated_ms,
        parent_instance_id: head.parent,
    })
}

/// What is known of an execution.
pub async fn execution_info(
    instances: &impl Instances,
    id: &str,
    execution: u64,
) -> Result<ExecutionInfo, ProviderError> {
    const OPERATION: &str = "get_execution_info";
    let snapshot = instances.snapshot(OPERATION, id).await?;
    let current = snapshot
        .head()
        .map(|head| &head.execution)
        .filter(|current| current.id == execution);
    let ended = instance::ended(instances.store(), &partition(id), execution)
        .await
        .map_err(|e| from_store(OPERATION, &e))?;
    let (found, output) = match (current, ended) {
        (Some(current), ended) => (current.clone(), ended.and_then(|ended| ended.output)),
        (None, Some(ended)) => (ended.execution, ended.output),
        (None, None) => {
            let message = format!("Execution {execution} not found for instance {id}");
            return Err(ProviderError::permanent(OPERATION, message));
        }
    };
    Ok(ExecutionInfo {
        execution_id: execution,
        status: found.status,
        output,
        started_at: found.started_ms,
        completed_at: found.completed_ms,
        event_count: usize::try_from(found.events).unwrap_or(usize::MAX),
    })
}

/// An instance and everything below it, parents before children.
pub async fn tree(
    instances: &impl Instances,
    operation: &'static str,
    root: &str,
) -> Result<Vec<String>, ProviderError> {
    let mut found = vec![root.to_string()];
    let mut next = 0;
    while let Some(id) = found.get(next).cloned() {
        found.extend(ids(instances, operation, &children_of(&id)).await?);
        next += 1;
    }
    Ok(found)
}
