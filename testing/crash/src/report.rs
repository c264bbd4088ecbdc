//! A report of all activities that the store has recorded as completed, made before anything runs.

use crate::Failure;
use crate::ledger::{Ledger, Lines};
use crate::line::{Activity, Line};
use duroxide::EventKind;
use duroxide::providers::ProviderAdmin;
use std::collections::HashSet;

/// Reports every activity that a history records as ended and that was not reported before. Instances that had
/// ended when they were last looked at are not read again.
pub async fn completed(store: &dyn ProviderAdmin, past: &Lines, ledger: &Ledger) -> Result<(), Failure> {
    let mut reported = HashSet::new();
    let mut known = HashSet::new();
    for line in &past.all {
        match line {
            Line::Reported(instance) => _ = reported.insert(instance.as_str()),
            Line::Completed(activity) => _ = known.insert(activity),
            _ => {}
        }
    }
    for instance in store.list_instances().await? {
        if reported.contains(instance.as_str()) {
            continue;
        }
        let ended = matches!(
            &*store.get_instance_info(&instance).await?.status,
            "Completed" | "Failed"
        );
        for activity in activities_of(store, &instance).await? {
            if !known.contains(&activity) {
                ledger.append(&Line::Completed(activity));
            }
        }
        if ended {
            ledger.append(&Line::Reported(instance));
        }
    }
    Ok(())
}

async fn activities_of(store: &dyn ProviderAdmin, instance: &str) -> Result<Vec<Activity>, Failure> {
    let mut activities = Vec::new();
    for execution in store.list_executions(instance).await? {
        for event in store.read_history_with_execution_id(instance, execution).await? {
            if let EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } = event.kind {
                let id = event.source_event_id.ok_or("a completion without a source")?;
                activities.push(Activity {
                    instance: instance.to_owned(),
                    execution,
                    id,
                });
            }
        }
    }
    Ok(activities)
}
