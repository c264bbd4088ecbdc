//! fjall as an ordered key-value engine.

use crate::directory::Directory;
use crate::disk::{self, Disk};
use crate::journal::{PREVIOUS, name_previous};
use crate::open_directory::OpenDirectory;
use crate::read::Reader;
use crate::{OpenError, Settings, damaged_file};
use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::CompressionPolicy;
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch,
    PersistMode, SeqNo, Snapshot,
};
use perennial_kv::{Batch, EngineError, Entry, OrderedKv, Span, Table, View, Write};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The longest key that fjall takes.
const KEY_LIMIT: usize = u16::MAX as usize;

/// From this many sealed memory tables on, writes wait until some are on disk. The engine itself stalls from 4 on.
const SEALED_MEMTABLE_LIMIT: usize = 3;

/// From this many unmerged runs of tables on, writes wait for compaction. The engine itself stalls from 30 on.
const L0_RUN_LIMIT: usize = 26;

/// How long a throttled write waits before it checks again.
const THROTTLE_POLL: Duration = Duration::from_millis(1);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The engine behind a [`FjallStore`](crate::FjallStore).
// Fields are dropped in this order: the directory is released when the database is gone.
pub struct FjallEngine {
    tables: Tables,
    db: Database,
    durable: PersistMode,
    sync_delay: Duration,
    disk: Disk,
    directory: OpenDirectory,
}

struct Tables {
    records: Keyspace,
    queue: Keyspace,
    listed: Keyspace,
    index: Keyspace,
    meta: Keyspace,
}

impl Tables {
    fn open(db: &Database, settings: &Settings) -> fjall::Result<Self> {
        let open = |table: Table| db.keyspace(table.name(), || options(table, settings));
        Ok(Self {
            records: open(Table::Records)?,
            queue: open(Table::Queue)?,
            listed: open(Table::Listed)?,
            index: open(Table::Index)?,
            meta: open(Table::Meta)?,
        })
    }

    fn get(&self, table: Table) -> &Keyspace {
        match table {
            Table::Records => &self.records,
            Table::Queue => &self.queue,
            Table::Listed => &self.listed,
            Table::Index => &self.index,
            Table::Meta => &self.meta,
        }
    }
}

impl Tables {
    /// The sequence number of the last batch in any table.
    fn last_sequence(&self) -> Option<u64> {
        let numbers = Table::ALL.iter().map(|table| self.get(*table).tree.get_highest_seqno());
        numbers.max().flatten()
    }
}

/// Whether the threads that flush and compact a table are behind.
fn is_behind(table: &Keyspace) -> bool {
    table.tree.sealed_memtable_count() >= SEALED_MEMTABLE_LIMIT || table.tree.l0_run_count() >= L0_RUN_LIMIT
}

/// The options of a table. Queued records come and go, so the tables of the queue are small: an open must walk over
/// little that is deleted.
fn options(table: Table, settings: &Settings) -> KeyspaceCreateOptions {
    let (memtable, tables) = match table {
        Table::Records => (32 * MIB, 32 * MIB),
        Table::Queue => (4 * MIB, 4 * MIB),
        Table::Listed => (16 * MIB, 32 * MIB),
        Table::Index => (8 * MIB, 16 * MIB),
        Table::Meta => (MIB, 4 * MIB),
    };
    let compaction = Leveled::default().with_table_target_size(tables);
    let mut options = KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(memtable)
        .compaction_strategy(Arc::new(compaction));
    if !settings.compress {
        options = options.data_block_compression_policy(CompressionPolicy::disabled());
    }
    if matches!(table, Table::Records | Table::Queue | Table::Listed) {
        options = options.with_kv_separation(Some(large_values(settings)));
    }
    options
}

/// Large values are stored separately, so that compaction does not rewrite them with their neighbours.
fn large_values(settings: &Settings) -> KvSeparationOptions {
    let compression = match settings.compress {
        true => CompressionType::Lz4,
        false => CompressionType::None,
    };
    KvSeparationOptions::default()
        .separation_threshold(32 * KIB as u32)
        .compression(compression)
}

impl FjallEngine {
    pub(crate) fn open(mut directory: Directory, settings: &Settings) -> Result<Self, OpenError> {
        let path = directory.path.clone();
        directory.release_engine_lock();
        // The engine asserts what it expects of its files; a damaged one must not end the program.
        let opened = catch_unwind(AssertUnwindSafe(|| open_database(&directory.data(), settings)));
        let (db, tables) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Err(named(OpenError::from_engine(&path, error), &directory)),
            Err(_) => {
                let why = "the storage engine could not read its files";
                return Err(named(OpenError::damaged(&path, why), &directory));
            }
        };
        let last = tables.last_sequence();
        let names_previous = tables.meta.contains_key(PREVIOUS);
        let names_previous = names_previous.map_err(|error| OpenError::from_engine(&path, error))?;
        let journals = OpenDirectory::prepare(&directory, last, names_previous, db.journal_count())?;
        let disk = Disk::new(&path, directory.data());
        Ok(Self {
            disk,
            directory: OpenDirectory::enter(directory, journals),
            tables,
            db,
            durable: match settings.without_sync {
                true => PersistMode::Buffer,
                false => PersistMode::SyncData,
            },
            sync_delay: settings.sync_delay,
        })
    }

    /// Writes a batch. It names its predecessor, so that a gap in the journals is noticed.
    fn write_batch(&self, batch: Batch, mode: PersistMode, previous: u64) -> Result<(), EngineError> {
        self.throttle(&batch)?;
        let mut writes = OwnedWriteBatch::with_capacity(self.db.clone(), batch.len() + 1).durability(Some(mode));
        for write in batch.into_iter().chain([name_previous(previous)]) {
            match write {
                Write::Put { table, key, value } => writes.insert(self.tables.get(table), key, value),
                Write::Delete { table, key } => writes.remove(self.tables.get(table), key),
            }
        }
        writes.commit().map_err(engine_error)
    }

    /// Delays a batch while the engine's threads are behind with its tables. The engine does so too, but in the middle
    /// of a write, and forever if those threads have ended, as they do when the disk is full.
    fn throttle(&self, batch: &Batch) -> Result<(), EngineError> {
        let is_in_batch = |table: &Table| batch.iter().any(|write| write.table() == *table);
        let tables: Vec<&Keyspace> = Table::ALL
            .iter()
            .filter(|table| is_in_batch(table))
            .map(|table| self.tables.get(*table))
            .collect();
        while tables.iter().any(|table| is_behind(table)) {
            // Fails once one of the threads has failed.
            self.db.persist(PersistMode::Buffer).map_err(engine_error)?;
            std::thread::sleep(THROTTLE_POLL);
        }
        Ok(())
    }
}

impl Drop for FjallEngine {
    fn drop(&mut self) {
        self.directory.begin_closing();
        let synced = self.db.persist(PersistMode::SyncAll);
        self.directory.note_last_sync(synced.is_ok());
    }
}

/// The same error, with the name of the damaged file, if there is one.
fn named(error: OpenError, directory: &Directory) -> OpenError {
    match error {
        OpenError::Damaged { path, why } => match damaged_file::find(&directory.data()) {
            Some(file) => {
                let file = disk::shown(&path, &directory.data(), &file);
                OpenError::damaged(&path, format!("{why}, in {}", file.display()))
            }
            None => OpenError::damaged(&path, why),
        },
        error => error,
    }
}

fn open_database(path: &Path, settings: &Settings) -> fjall::Result<(Database, Tables)> {
    let db = Database::builder(path)
        .manual_journal_persist(true)
        // Recovery compresses again to verify its checksums, so another release of the compressor could not read them.
        .journal_compression(CompressionType::None)
        .cache_size(settings.cache_bytes)
        .max_journaling_size(settings.journal_bytes.max(64 * MIB))
        .worker_threads(settings.worker_threads.max(1))
        .open()?;
    let tables = Tables::open(&db, settings)?;
    Ok((db, tables))
}

/// Why a write failed.
fn engine_error(error: fjall::Error) -> EngineError {
    use fjall::{Error, LsmError};
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => EngineError::io(&error),
        Error::Poisoned => EngineError::Io(io::ErrorKind::Other, "an earlier write to the disk failed".to_owned()),
        error => EngineError::Corrupt(error.to_string()),
    }
}

impl OrderedKv for FjallEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let reader = Reader {
            table: self.tables.get(table),
            seqno: SeqNo::MAX,
            disk: &self.disk,
        };
        reader.get(key)
    }

    fn view(&self) -> Box<dyn View + '_> {
        Box::new(FjallView {
            tables: &self.tables,
            disk: &self.disk,
            snapshot: self.db.snapshot(),
        })
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        // Unsynced batches are passed to the operating system, so that they survive the end of the process.
        let mode = match sync {
            true => self.durable,
            false => PersistMode::Buffer,
        };
        if sync && !self.sync_delay.is_zero() {
            std::thread::sleep(self.sync_delay);
        }
        self.directory.write(|journals| {
            match batch.is_empty() {
                true => self.db.persist(mode).map_err(engine_error)?,
                false => {
                    self.write_batch(batch, mode, journals.last)?;
                    // Every batch is in this table.
                    let last = self.tables.meta.tree.get_highest_seqno();
                    journals.last = last.unwrap_or(journals.last);
                }
            }
            Ok(self.db.journal_count())
        })
    }

    fn key_limit(&self) -> usize {
        KEY_LIMIT
    }
}

struct FjallView<'a> {
    tables: &'a Tables,
    disk: &'a Disk,
    snapshot: Snapshot,
}

impl FjallView<'_> {
    fn reader(&self, table: Table) -> Reader<'_> {
        Reader {
            table: self.tables.get(table),
            seqno: self.snapshot.seqno(),
            disk: self.disk,
        }
    }
}

impl View for FjallView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.reader(table).get(key)
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        self.reader(table).scan(&self.snapshot, span, limit)
    }
}
