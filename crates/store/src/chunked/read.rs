//! Reading records whose bodies are stored in chunks.
//!
//! Between reading a pointer and its chunks the record may be overwritten and the chunks swept. So a read that looks
//! damaged is repeated: only a record that looks damaged twice at the same version is damaged.

use super::chunks::{manifest_id, to_bytes};
use super::pointer::{Pointer, hash, may_be_pointer};
use super::{BYTES, ChunkedStore, TRIES};
use crate::{DuePage, DueQuery, Error, Key, Partition, Record, Result, ScanPage, ScanQuery, Store, Version};
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::collections::BTreeMap;

/// How many bodies of one page are assembled at a time.
const AT_ONCE: usize = 8;
/// How many chunks are requested at a time.
const PAGE: usize = 100;

/// A body that could not be assembled.
struct Damage {
    /// The index of its record among those that were read.
    at: usize,
    why: String,
}

/// The version at which each key was found damaged so far.
#[derive(Default)]
struct Suspects(BTreeMap<Key, Version>);

impl Suspects {
    /// Notes a damaged record; true if it was damaged at this version before.
    fn confirm(&mut self, record: &Record) -> bool {
        let before = self.0.insert(record.key.clone(), record.version.clone());
        before.as_ref() == Some(&record.version)
    }
}

fn corrupt(key: &Key, why: &str) -> Error {
    Error::Corrupt(format!("the body of the record {key} cannot be assembled: {why}"))
}

fn overtaken(what: &str) -> Error {
    Error::Unavailable(format!("{what} changed {TRIES} times while it was read"))
}

impl ChunkedStore {
    pub(super) async fn get_whole(&self, key: &Key) -> Result<Option<Record>> {
        let mut suspects = Suspects::default();
        for _ in 0..TRIES {
            let Some(mut record) = self.inner.get(key).await? else {
                return Ok(None);
            };
            if !may_be_pointer(&record.body) {
                return Ok(Some(record));
            }
            let Some(damage) = self.fill(std::slice::from_mut(&mut record)).await?.pop() else {
                return Ok(Some(record));
            };
            if suspects.confirm(&record) {
                return Err(corrupt(key, &damage.why));
            }
        }
        Err(overtaken(&format!("the record {key}")))
    }

    /// A page is repeated as a whole, so that it still shows all or nothing of each commit.
    pub(super) async fn scan_whole(&self, query: &ScanQuery) -> Result<ScanPage> {
        let mut suspects = Suspects::default();
        for _ in 0..TRIES {
            let mut page = self.inner.scan(query).await?;
            let damages = self.fill(&mut page.records).await?;
            for damage in &damages {
                if let Some(record) = page.records.get(damage.at).filter(|record| suspects.confirm(record)) {
                    return Err(corrupt(&record.key, &damage.why));
                }
            }
            if damages.is_empty() {
                return Ok(page);
            }
        }
        Err(overtaken(&format!("a page of the partition {:?}", query.partition)))
    }

    /// Damaged records are left out, and those behind them fill the page.
    pub(super) async fn due_whole(&self, query: &DueQuery) -> Result<DuePage> {
        let mut suspects = Suspects::default();
        let (mut spare, mut tries) = (0, 0);
        loop {
            tries += 1;
            let mut wider = query.clone();
            wider.limit = query.limit.saturating_add(spare);
            let mut page = self.inner.due(&wider).await?;
            let damages = self.fill(&mut page.records).await?;
            let mut is_confirmed = true;
            for damage in &damages {
                if let Some(record) = page.records.get(damage.at) {
                    is_confirmed &= suspects.confirm(record);
                }
            }
            let is_full = damages.len() <= spare || !page.more;
            if is_full && (is_confirmed || tries >= TRIES) {
                return Ok(without(page, &damages, query.limit));
            }
            // Twice as many as are damaged, so that a queue full of them takes few queries.
            spare = spare.max(damages.len() * 2);
        }
    }

    /// Replaces pointers by the bodies they point to. Returns those that could not be assembled.
    async fn fill(&self, records: &mut [Record]) -> Result<Vec<Damage>> {
        let mut readings = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let pointer = Pointer::decode(&record.key, &record.body).transpose();
            let partition = &record.key.partition;
            readings.extend(pointer.map(|pointer| {
                let partition = partition.clone();
                async move {
                    let body = match pointer {
                        Ok(pointer) => assemble(&*self.inner, partition, pointer).await,
                        Err(error) => Err(error),
                    };
                    (at, body)
                }
            }));
        }
        if readings.is_empty() {
            return Ok(Vec::new());
        }
        let mut bodies = stream::iter(readings).buffered(AT_ONCE);
        let mut damages = Vec::new();
        while let Some((at, body)) = bodies.next().await {
            match (body, records.get_mut(at)) {
                (Ok(body), Some(record)) => record.body = body,
                (Err(Error::Corrupt(why)), _) => damages.push(Damage { at, why }),
                (Err(error), _) => return Err(error),
                (Ok(_), None) => {}
            }
        }
        Ok(damages)
    }
}

/// The page without its damaged records, cut to the limit of the query.
fn without(mut page: DuePage, damages: &[Damage], limit: usize) -> DuePage {
    let mut at = 0;
    page.records.retain(|_| {
        at += 1;
        !damages.iter().any(|damage| damage.at == at - 1)
    });
    page.more |= page.records.len() > limit;
    page.records.truncate(limit);
    page
}

/// Reads the chunks of a body and joins them.
async fn assemble(store: &dyn Store, partition: Partition, pointer: Pointer) -> Result<Bytes> {
    let damaged = |why: String| Error::Corrupt(why);
    if pointer.bytes > BYTES || pointer.count > pointer.bytes + 1 {
        return Err(damaged(format!(
            "{} bytes in {} chunks are impossible",
            pointer.bytes, pointer.count
        )));
    }
    let manifest = manifest_id(&pointer.nonce);
    let limit = pointer.count.saturating_add(2).min(PAGE);
    let mut query = ScanQuery::under(partition, manifest.clone(), limit);
    let mut body = Vec::with_capacity(pointer.bytes);
    let mut found = 0;
    loop {
        let page = store.scan(&query).await?;
        for chunk in page.records.iter().filter(|chunk| chunk.key.id != manifest) {
            if chunk.key.id != manifest.number(found as u64) {
                return Err(damaged(format!("chunk {found} of {} is missing", pointer.count)));
            }
            let text: String = serde_json::from_slice(&chunk.body)
                .map_err(|why| damaged(format!("chunk {found} of {} is not text: {why}", pointer.count)))?;
            match pointer.binary {
                false => body.extend_from_slice(text.as_bytes()),
                true => {
                    body.extend(to_bytes(&text).ok_or_else(|| damaged("text where bytes were written".to_owned()))?)
                }
            }
            found += 1;
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let is_whole = found == pointer.count && body.len() == pointer.bytes && hash(&body) == pointer.hash;
    match is_whole {
        true => Ok(body.into()),
        false => Err(damaged(format!(
            "there are {found} of {} chunks with {} of {} bytes, or they are not those that were written",
            pointer.count,
            body.len(),
            pointer.bytes
        ))),
    }
}
