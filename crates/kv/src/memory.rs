//! The in-memory engine: for tests and simulation. A commit is complete within its first poll; there is no thread.

use crate::{Batch, EngineError, Entry, KvStore, OrderedKv, ReadOnlyKv, Settings, Span, Table, View, Write, keys};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use perennial_store::Key;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Map = BTreeMap<Bytes, Bytes>;

/// A store in memory.
pub type MemoryStore = KvStore<MemoryEngine>;

impl MemoryStore {
    /// A new, empty store that ends with its handle.
    pub fn open(settings: Settings) -> Result<Self, EngineError> {
        Self::open_disk(&MemoryDisk::default(), settings)
    }

    /// The store on a disk that outlives the handle. An earlier handle of the same disk is fenced off.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use perennial_kv::{MemoryDisk, MemoryStore, Settings};
    /// use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
    ///
    /// let disk = MemoryDisk::default();
    /// let key = |id| Key::new(Partition::new("p"), RecordId::of(id));
    /// let store = MemoryStore::open_disk(&disk, Settings::default()).unwrap();
    /// store.commit(Commit::new(vec![Op::Put(Draft::new(key("safe"), "1"))])).await.unwrap();
    /// store.commit(Commit::new(vec![Op::Put(Draft::new(key("lost"), "2"))]).relaxed()).await.unwrap();
    /// disk.crash();
    ///
    /// let store = MemoryStore::open_disk(&disk, Settings::default()).unwrap();
    /// assert!(store.get(&key("safe")).await.unwrap().is_some());
    /// assert!(store.get(&key("lost")).await.unwrap().is_none());
    /// # });
    /// ```
    pub fn open_disk(disk: &MemoryDisk, settings: Settings) -> Result<Self, EngineError> {
        Self::with_engine(disk.engine(), settings)
    }

    /// The store on a disk, [stepped](Self::stepped) by its owner.
    pub fn open_stepped(disk: &MemoryDisk, settings: Settings) -> Result<Self, EngineError> {
        let engine = MemoryEngine {
            is_stepped: true,
            ..disk.engine()
        };
        Self::stepped(engine, settings)
    }
}

/// The content of a memory store, apart from the handle: clones share it, and it survives the store.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<RwLock<Contents>>);

#[derive(Default)]
struct Contents {
    tables: BTreeMap<Table, Map>,
    /// How to undo the writes that were not synced, oldest first.
    undo: Vec<(Table, Bytes, Option<Bytes>)>,
    owner: u64,
    failure: Option<String>,
}

impl Contents {
    fn get(&self, table: Table, key: &[u8]) -> Option<Bytes> {
        self.tables.get(&table)?.get(key).cloned()
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Vec<Entry> {
        let Some(map) = self.tables.get(&table) else {
            return Vec::new();
        };
        let to = match &span.to {
            Some(to) if *to <= span.from => return Vec::new(),
            Some(to) => Bound::Excluded(to.as_slice()),
            None => Bound::Unbounded,
        };
        let entries = map.range::<[u8], _>((Bound::Included(span.from.as_slice()), to));
        let entries = entries.take(limit);
        entries.map(|(key, value)| (key.clone(), Ok(value.clone()))).collect()
    }
}

impl MemoryDisk {
    /// An engine on this disk, for building another engine around it. Earlier ones are fenced off.
    pub fn engine(&self) -> MemoryEngine {
        let mut contents = self.0.write();
        contents.owner += 1;
        MemoryEngine {
            disk: self.clone(),
            owner: contents.owner,
            is_stepped: false,
        }
    }

    /// A power cut: what was not synced is lost, and the handle that had the disk is dead.
    pub fn crash(&self) {
        let mut contents = self.0.write();
        contents.owner += 1;
        contents.failure = None;
        let undo = std::mem::take(&mut contents.undo);
        for (table, key, before) in undo.into_iter().rev() {
            let map = contents.tables.entry(table).or_default();
            match before {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }

    /// From now on every write fails with this message, until [`MemoryDisk::crash`].
    pub fn fail_writes(&self, message: &str) {
        self.0.write().failure = Some(message.to_owned());
    }

    /// Writes raw bytes behind the store's back: tests damage records with it.
    pub fn put_raw(&self, table: Table, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        let mut contents = self.0.write();
        contents
            .tables
            .entry(table)
            .or_default()
            .insert(key.into(), value.into());
    }

    /// How many keys a table has: tests find leftovers with it.
    pub fn count(&self, table: Table) -> usize {
        self.0.read().tables.get(&table).map_or(0, Map::len)
    }

    /// The keys of all records on the disk.
    pub fn keys(&self) -> Vec<Key> {
        let tables = [Table::Records, Table::Listed, Table::Queue];
        let entries = tables.into_iter().flat_map(|table| self.entries(table));
        entries.filter_map(|(key, _)| keys::parse(&key)).collect()
    }

    /// All entries of a table on the disk.
    pub fn entries(&self, table: Table) -> Vec<(Bytes, Bytes)> {
        let contents = self.0.read();
        let entries = contents.tables.get(&table).into_iter().flatten();
        entries.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The engine behind a [`MemoryStore`].
pub struct MemoryEngine {
    disk: MemoryDisk,
    owner: u64,
    is_stepped: bool,
}

impl MemoryEngine {
    fn check(&self, contents: &Contents) -> Result<(), EngineError> {
        if contents.owner == self.owner {
            return Ok(());
        }
        Err(EngineError::Fenced(
            "the memory disk was opened again or crashed".to_owned(),
        ))
    }
}

impl OrderedKv for MemoryEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let contents = self.disk.0.read();
        self.check(&contents)?;
        Ok(Contents::get(&contents, table, key))
    }

    fn view(&self) -> Box<dyn View + '_> {
        Box::new(MemoryView {
            engine: self,
            contents: self.disk.0.read(),
        })
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        let mut contents = self.disk.0.write();
        self.check(&contents)?;
        if let Some(message) = &contents.failure {
            return Err(EngineError::Io(std::io::ErrorKind::Other, message.clone()));
        }
        let Contents { tables, undo, .. } = &mut *contents;
        for write in batch {
            let (table, key, before) = match write {
                Write::Put { table, key, value } => {
                    let before = tables.entry(table).or_default().insert(key.clone(), value);
                    (table, key, before)
                }
                Write::Delete { table, key } => {
                    let before = tables.entry(table).or_default().remove(&key);
                    (table, key, before)
                }
            };
            if !sync {
                undo.push((table, key, before));
            }
        }
        if sync {
            undo.clear();
        }
        Ok(())
    }

    fn inline(&self) -> bool {
        !self.is_stepped
    }
}

/// The disk as a process sees it that does not own it.
#[async_trait]
impl ReadOnlyKv for MemoryDisk {
    async fn refresh(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn view(&self) -> Box<dyn View + '_> {
        Box::new(self.0.read())
    }
}

struct MemoryView<'a> {
    engine: &'a MemoryEngine,
    contents: RwLockReadGuard<'a, Contents>,
}

impl View for MemoryView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.engine.check(&self.contents)?;
        Ok(Contents::get(&self.contents, table, key))
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        self.engine.check(&self.contents)?;
        Ok(Contents::scan(&self.contents, table, span, limit))
    }
}

impl View for RwLockReadGuard<'_, Contents> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(Contents::get(self, table, key))
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        Ok(Contents::scan(self, table, span, limit))
    }
}
