//! Cursors: how far the messages of each incarnation were applied.

use super::mutation::Mutation;
use super::names::Incarnation;
use super::settings::IntakeSettings;
use parking_lot::Mutex;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, Record, RecordId, Result, ScanQuery, Store, Version};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The partition of the inbox's own records.
const PARTITION: &str = "%inbox";
const CURSOR: &str = "cursor";
const FORGOTTEN: &str = "forgotten";
/// How many cursors are kept in memory.
const REMEMBERED: usize = 4096;
/// How many cursors one commit forgets.
const SWEPT: usize = 500;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The body of a cursor.
#[derive(Serialize, Deserialize)]
struct Body {
    applied: u64,
}

/// Says up to which start cursors were forgotten.
#[derive(Default, Serialize, Deserialize)]
struct Forgotten {
    started_by_ms: u64,
}

/// How far the messages of an incarnation were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The last message that was applied; 0 if none was.
    pub(crate) applied: u64,
    /// The version of the record; `None` if there is none.
    version: Option<Version>,
}

/// The cursors of a store.
pub(crate) struct Cursors {
    store: Arc<dyn Store>,
    settings: Arc<IntakeSettings>,
    remembered: Mutex<HashMap<Incarnation, Cursor>>,
    /// Incarnations that began at this time or earlier may have had a cursor.
    forgotten_ms: AtomicU64,
}

fn key(incarnation: Incarnation) -> Key {
    let id = RecordId::of(CURSOR).text(&incarnation.to_string());
    Key::new(Partition::new(PARTITION), id)
}

fn forgotten_key() -> Key {
    Key::new(Partition::new(PARTITION), RecordId::of(FORGOTTEN))
}

fn encode(key: Key, body: &impl Serialize) -> Result<Draft> {
    let body = serde_json::to_vec(body).map_err(|why| Error::Invalid(why.to_string()))?;
    Ok(Draft::new(key, body))
}

fn decode<'a, T: Deserialize<'a>>(record: &'a Record) -> Result<T> {
    let corrupt = |why| Error::Corrupt(format!("the record {} cannot be read: {why}", record.key));
    serde_json::from_slice(&record.body).map_err(corrupt)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Cursors {
    /// The cursors of a store that this process owns.
    pub(crate) async fn open(store: Arc<dyn Store>, settings: Arc<IntakeSettings>) -> Result<Self> {
        let record = store.get(&forgotten_key()).await?;
        let forgotten = record
            .as_ref()
            .map(decode::<Forgotten>)
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            store,
            settings,
            remembered: Mutex::default(),
            forgotten_ms: AtomicU64::new(forgotten.started_by_ms),
        })
    }

    /// The cursor of an incarnation.
    pub(crate) async fn get(&self, incarnation: Incarnation) -> Result<Cursor> {
        if let Some(cursor) = self.remembered.lock().get(&incarnation) {
            return Ok(cursor.clone());
        }
        let cursor = match self.store.get(&key(incarnation)).await? {
            None => Cursor::default(),
            Some(record) => Cursor {
                applied: decode::<Body>(&record)?.applied,
                version: Some(record.version),
            },
        };
        self.remember(incarnation, cursor.clone());
        Ok(cursor)
    }

    /// The operation that moves a cursor. It fails if the cursor is not what it is believed to be.
    pub(crate) fn advance(&self, incarnation: Incarnation, cursor: &Cursor, applied: u64) -> Result<Op> {
        let draft = encode(key(incarnation), &Body { applied })?;
        Ok(match &cursor.version {
            None => Op::Create(draft),
            Some(version) => Op::Replace(draft, version.clone()),
        })
    }

    /// Moves a cursor past a message that is not applied, and returns when that is durable.
    pub(crate) async fn pass(&self, incarnation: Incarnation, cursor: &Cursor, applied: u64) -> Result<()> {
        let advance = self.advance(incarnation, cursor, applied)?;
        let committed = self.store.commit(Commit::new(vec![advance])).await?;
        self.advanced(incarnation, applied, committed.version(0).cloned());
        Ok(())
    }

    /// A cursor was moved. What is not known of it is read again.
    pub(crate) fn advanced(&self, incarnation: Incarnation, applied: u64, version: Option<Version>) {
        match version {
            None => self.forget(incarnation),
            version => self.remember(incarnation, Cursor { applied, version }),
        }
    }

    fn remember(&self, incarnation: Incarnation, cursor: Cursor) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(incarnation, cursor);
    }

    /// Drops a cursor from memory: it may have changed.
    pub(crate) fn forget(&self, incarnation: Incarnation) {
        self.remembered.lock().remove(&incarnation);
    }

    /// Whether the messages of an incarnation are refused: it has no cursor, and may have had one that was forgotten.
    pub(crate) fn refuses(&self, incarnation: Incarnation, cursor: &Cursor, now_ms: u64) -> bool {
        if self.settings.has(Mutation::ForgetCursorsEarly) {
            return false;
        }
        let start_ms = incarnation.start_ms();
        let is_old = start_ms.saturating_add(millis(self.settings.refuse_after)) < now_ms;
        let is_forgotten = start_ms <= self.forgotten_ms.load(Ordering::Acquire);
        cursor.version.is_none() && (is_old || is_forgotten)
    }

    /// Forgets cursors that are older than they must be kept; returns how many.
    pub(crate) async fn sweep(&self, now_ms: u64) -> Result<usize> {
        let kept = match self.settings.has(Mutation::ForgetCursorsEarly) {
            true => HOUR,
            false => self.settings.keep_cursors,
        };
        let Some(before_ms) = now_ms.checked_sub(millis(kept)) else {
            return Ok(0);
        };
        let root = RecordId::of(CURSOR);
        let mut swept = 0;
        loop {
            // In order of their start.
            let query = ScanQuery::under(Partition::new(PARTITION), root.clone(), SWEPT);
            let page = self.store.scan(&query).await?;
            let old: Vec<(Incarnation, Record)> = page
                .records
                .into_iter()
                .filter_map(|record| Some((record.key.id.below(&root)?.parse().ok()?, record)))
                .take_while(|(incarnation, _): &(Incarnation, _)| incarnation.start_ms() < before_ms)
                .collect();
            let Some((youngest, _)) = old.last() else {
                return Ok(swept);
            };
            self.forget_all(youngest.start_ms(), &old).await?;
            swept += old.len();
            if old.len() < SWEPT {
                return Ok(swept);
            }
        }
    }

    /// Forgets cursors, and in the same commit writes down that it did.
    async fn forget_all(&self, started_by_ms: u64, old: &[(Incarnation, Record)]) -> Result<()> {
        let started_by_ms = started_by_ms.max(self.forgotten_ms.load(Ordering::Acquire));
        let mut ops = vec![Op::Put(encode(forgotten_key(), &Forgotten { started_by_ms })?)];
        let delete = |(_, record): &(Incarnation, Record)| Op::Delete(record.key.clone(), record.version.clone());
        ops.extend(old.iter().map(delete));
        // Raised first: from here on no incarnation of that age gets a first cursor.
        self.forgotten_ms.fetch_max(started_by_ms, Ordering::AcqRel);
        self.store.commit(Commit::new(ops)).await?;
        old.iter().for_each(|(incarnation, _)| self.forget(*incarnation));
        Ok(())
    }
}
