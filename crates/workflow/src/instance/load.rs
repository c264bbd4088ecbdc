//! Reading an instance from the store.

use super::{History, Snapshot};
use crate::records::custom_status::CustomStatus;
use crate::records::execution::Ended;
use crate::records::kv::Entries;
use crate::records::page::Page;
use crate::records::{decode, head::Head};
use crate::tuning::READ_PAGE;
use perennial_store::{Error, Partition, Record, RecordId, Result, ScanQuery, Store, Version};
use std::sync::Arc;

/// Reads everything of an instance but its queues.
#[cfg(feature = "testing")]
pub async fn load(store: &dyn Store, instance: &str) -> Result<Snapshot> {
    let partition = crate::records::partition(instance);
    let head = store.get(&Head::key_in(partition.clone())).await?;
    load_from(store, &partition, head).await
}

/// Reads everything of an instance but its queues and its head, which was read before.
///
/// A history that this program cannot decode is not an error here: it is part of what is known of the instance, and the
/// runtime ends the instance for it. One that the store cannot read is an error: it may be repaired.
pub async fn load_from(store: &dyn Store, partition: &Partition, head: Option<Record>) -> Result<Snapshot> {
    let Some(record) = head else {
        return Ok(Snapshot::default());
    };
    let head: Head = decode(&record)?;
    load_rest(store, partition, head, record.version).await
}

/// Reads everything of an instance that is not in its head.
pub async fn load_rest(store: &dyn Store, partition: &Partition, head: Head, version: Version) -> Result<Snapshot> {
    if head.is_blank() {
        return Ok(Snapshot {
            head: Some((head, version)),
            ..Snapshot::default()
        });
    }
    // A turn that is committed during this read does not belong to this head, and must not be read in half.
    let pages = pages_before(store, partition, head.execution.id, head.turns).await?;
    let history = match decode_all(&pages) {
        Ok(history) => history,
        Err(Error::Corrupt(why)) => History::damaged(why),
        Err(other) => return Err(other),
    };
    let kv = if head.kv_keys == 0 {
        Entries::default()
    } else {
        key_values(store, partition).await?
    };
    let custom = if head.custom_version == 0 {
        None
    } else {
        custom(store, partition).await?
    };
    Ok(Snapshot {
        head: Some((head, version)),
        history,
        kv: Arc::new(kv),
        custom: custom.map(Arc::new),
    })
}

/// Reads the history of one execution.
pub async fn history_of(store: &dyn Store, partition: &Partition, execution: u64) -> Result<History> {
    decode_all(&pages_before(store, partition, execution, u64::MAX).await?)
}

/// Reads the records of the history of one execution, as far as the turns before `turn` have written it.
async fn pages_before(store: &dyn Store, partition: &Partition, execution: u64, turn: u64) -> Result<Vec<Record>> {
    let mut pages = everything_under(store, partition, Page::of_execution(execution)).await?;
    pages.retain(|record| Page::turn_of(&record.key).is_none_or(|written| written < turn));
    Ok(pages)
}

fn decode_all(pages: &[Record]) -> Result<History> {
    let pages = pages.iter().map(|record| decode::<Page>(record).map(Arc::new));
    pages.collect::<Result<Vec<_>>>().map(History::new)
}

/// Reads the record of one execution that has ended.
pub async fn ended(store: &dyn Store, partition: &Partition, execution: u64) -> Result<Option<Ended>> {
    store
        .get(&Ended::key(partition, execution))
        .await?
        .map(|record| decode(&record))
        .transpose()
}

/// Reads the records of all executions that have ended, oldest first.
pub async fn executions(store: &dyn Store, partition: &Partition) -> Result<Vec<Ended>> {
    let records = everything_under(store, partition, Ended::root()).await?;
    records.iter().map(decode).collect()
}

async fn key_values(store: &dyn Store, partition: &Partition) -> Result<Entries> {
    let root = Entries::root();
    let mut entries = Entries::default();
    for record in everything_under(store, partition, root.clone()).await? {
        if let Some(key) = record.key.id.below(&root) {
            entries.0.insert(key.to_string(), decode(&record)?);
        }
    }
    Ok(entries)
}

async fn custom(store: &dyn Store, partition: &Partition) -> Result<Option<CustomStatus>> {
    store
        .get(&CustomStatus::key(partition))
        .await?
        .map(|record| decode(&record))
        .transpose()
}

async fn everything_under(store: &dyn Store, partition: &Partition, under: RecordId) -> Result<Vec<Record>> {
    scan(store, ScanQuery::under(partition.clone(), under, READ_PAGE)).await
}

/// All records of a query, page by page.
pub async fn scan(store: &dyn Store, mut query: ScanQuery) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    loop {
        let page = store.scan(&query).await?;
        records.extend(page.records);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(records),
        }
    }
}
