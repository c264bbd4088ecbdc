//! The records of activities that a turn cancels, where other processes may have queued some of them.

use crate::engine::Engine;
use crate::instance;
use crate::records::{partition, work};
use crate::tuning::{CANCELLED_SCAN_FROM, READ_PAGE};
use crate::turn::Turn;
use futures::future::try_join_all;
use perennial_store::{Key, Order, Record, Result, ScanQuery};
use std::collections::{BTreeMap, BTreeSet};

/// The records of activities that a turn cancels, wherever they were queued.
pub async fn find(engine: &Engine, turn: &Turn) -> Result<Vec<(Order, Key)>> {
    let mut executions: BTreeMap<(&str, u64), BTreeSet<u64>> = BTreeMap::new();
    for (instance, execution, activity) in &turn.cancelled {
        let activities = executions.entry((instance, *execution)).or_default();
        activities.insert(*activity);
    }
    let mut found = Vec::new();
    for ((instance, execution), activities) in executions {
        let records = of_execution(engine, instance, execution, &activities).await?;
        let keys = records.into_iter().map(|record| record.key);
        found.extend(keys.filter_map(|key| Some((work::order_of(&key.id)?, key))));
    }
    Ok(found)
}

async fn of_execution(
    engine: &Engine,
    instance: &str,
    execution: u64,
    activities: &BTreeSet<u64>,
) -> Result<Vec<Record>> {
    let scan = |under| {
        let query = ScanQuery::under(partition(instance), under, READ_PAGE).keys_only();
        instance::scan(&*engine.store, query)
    };
    if activities.len() >= CANCELLED_SCAN_FROM {
        let mut records = scan(work::of_execution(execution)).await?;
        let is_wanted = |activity: u64| activities.contains(&activity);
        records.retain(|record| work::activity_of(&record.key.id).is_some_and(is_wanted));
        return Ok(records);
    }
    let scans = activities
        .iter()
        .map(|activity| scan(work::of_activity(execution, *activity)));
    Ok(try_join_all(scans).await?.concat())
}
