//! Reading from a snapshot.

use super::failure::Failures;
use super::keys;
use super::threads::Threads;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use perennial_kv::{EngineError, Entry, Span, Table, View};
use slatedb::DbSnapshot;
use slatedb::config::{ReadOptions, ScanOptions};
use std::sync::Arc;

/// How many keys are read at a time, of those that are read together.
const CONCURRENT_READS: usize = 32;

/// How much a long scan reads at a time.
const READ_AHEAD: usize = 64 * 1024;
/// The size of a block, the least that is read.
const BLOCK: usize = 4096;
/// How large an entry is expected to be.
const ENTRY: usize = 256;

/// A value of at most this size is copied, so that whoever keeps it does not keep its whole block in memory.
const COPIED: usize = 2048;

/// What was durable at a moment.
pub(crate) struct SlateView<'a> {
    pub(crate) snapshot: Arc<DbSnapshot>,
    pub(crate) threads: &'a Threads,
    pub(crate) failures: &'a Failures,
}

fn owned(value: Bytes) -> Bytes {
    match value.len() <= COPIED {
        true => Bytes::copy_from_slice(&value),
        false => value,
    }
}

async fn read(snapshot: &DbSnapshot, key: Bytes) -> Result<Option<Bytes>, slatedb::Error> {
    let value = snapshot.get_with_options(key, &ReadOptions::default()).await?;
    Ok(value.map(owned))
}

impl View for SlateView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let (snapshot, failures) = (self.snapshot.clone(), self.failures.clone());
        let key = keys::key(table, key);
        self.threads.wait(async move {
            let value = read(&snapshot, key).await;
            value.map_err(|error| failures.engine_error(error))
        })
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        let range = keys::range(table, span);
        let (snapshot, failures) = (self.snapshot.clone(), self.failures.clone());
        self.threads.wait(async move {
            let entries = scan(&snapshot, range, limit).await;
            entries.map_err(|error| failures.engine_error(error))
        })
    }

    fn get_many(&self, wanted: &[(Table, Bytes)]) -> Vec<Result<Option<Bytes>, EngineError>> {
        let keys: Vec<Bytes> = wanted.iter().map(|(table, key)| keys::key(*table, key)).collect();
        let (snapshot, failures) = (self.snapshot.clone(), self.failures.clone());
        let found = self.threads.wait(async move {
            let reads = stream::iter(keys).map(|key| read(&snapshot, key));
            let values = reads.buffered(CONCURRENT_READS);
            let values = values.map(|value| value.map_err(|error| failures.engine_error(error)));
            Ok(values.collect().await)
        });
        found.unwrap_or_else(|error| wanted.iter().map(|_| Err(error.clone())).collect())
    }

    fn scan_many(&self, spans: &[(Table, &Span)], limit: usize) -> Result<Vec<Vec<Entry>>, EngineError> {
        let ranges: Vec<_> = spans.iter().map(|(table, span)| keys::range(*table, span)).collect();
        let (snapshot, failures) = (self.snapshot.clone(), self.failures.clone());
        self.threads.wait(async move {
            let scans = stream::iter(ranges).map(|range| scan(&snapshot, range, limit));
            let entries = scans.buffered(CONCURRENT_READS).try_collect().await;
            entries.map_err(|error| failures.engine_error(error))
        })
    }
}

type Range = (std::ops::Bound<Bytes>, std::ops::Bound<Bytes>);

async fn scan(snapshot: &DbSnapshot, range: Option<Range>, limit: usize) -> Result<Vec<Entry>, slatedb::Error> {
    let Some(range) = range.filter(|_| limit > 0) else {
        return Ok(Vec::new());
    };
    let options = ScanOptions {
        read_ahead_bytes: limit.saturating_mul(ENTRY).clamp(BLOCK, READ_AHEAD),
        cache_blocks: true,
        ..ScanOptions::default()
    };
    let mut found = snapshot.scan_with_options(range, &options).await?;
    let mut entries = Vec::new();
    while entries.len() < limit {
        let Some(entry) = found.next().await? else { break };
        // Without the byte of the table.
        let key = entry.key.slice(1..);
        entries.push((key, Ok(owned(entry.value))));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use crate::{Bucket, Opening, Settings, Shard, SlateEngine};
    use bytes::Bytes;
    use object_store::memory::InMemory;
    use perennial_kv::{OrderedKv, Span, Table, View, Write};
    use std::sync::Arc;

    async fn engine() -> SlateEngine {
        let bucket = Bucket::new(Arc::new(InMemory::new()), "p".into(), "memory://read");
        let engine = Opening::new(Settings::default()).open(&bucket, Shard(0)).await.unwrap();
        let put = |number: usize| Write::Put {
            table: [Table::Records, Table::Listed][number % 2],
            key: format!("{number:03}").into(),
            value: format!("value {number}").into(),
        };
        engine.write((0..200).map(put).collect(), true).unwrap();
        engine
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn several_keys_are_read_in_their_order() {
        let engine = engine().await;
        let wanted: Vec<_> = (0..100)
            .rev()
            .map(|number| (Table::Records, Bytes::from(format!("{number:03}"))))
            .collect();
        let found = engine.snapshot().get_many(&wanted);
        assert_eq!(found.len(), 100);
        for (number, value) in (0..100).rev().zip(found) {
            let expected = (number % 2 == 0).then(|| Bytes::from(format!("value {number}")));
            assert_eq!(value.unwrap(), expected);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn several_spans_are_read_in_their_order() {
        let engine = engine().await;
        let span = |from: &str, to: &str| Span {
            from: from.into(),
            to: Some(to.into()),
        };
        let spans = [span("100", "110"), span("010", "000"), span("000", "900")];
        let spans: Vec<_> = spans.iter().map(|span| (Table::Listed, span)).collect();
        let found = engine.snapshot().scan_many(&spans, 7).unwrap();
        let keys: Vec<Vec<&[u8]>> = found
            .iter()
            .map(|page| page.iter().map(|(key, _)| key.as_ref()).collect())
            .collect();
        assert_eq!(keys[0], ["101", "103", "105", "107", "109"].map(str::as_bytes));
        assert_eq!((keys[1].len(), keys[2].len(), keys[2][6]), (0, 7, &b"013"[..]));
    }
}
