//! What a reader sees at one moment.

use super::{Opened, Shared};
use crate::engine::keys;
use bytes::Bytes;
use perennial_kv::{EngineError, Entry, Span, Table, View};
use slatedb::config::{ReadOptions, ScanOptions};
use slatedb::{Error, ErrorKind};
use tokio::sync::RwLockReadGuard;

/// How much a long scan reads at a time.
const READ_AHEAD: usize = 64 * 1024;
/// The size of a block, the least that is read.
const BLOCK: usize = 4096;
/// How large an entry is expected to be.
const ENTRY: usize = 256;

/// A view. As long as there is one, the reader is not refreshed. It blocks the thread on which it is used.
pub(super) struct ReaderView<'a> {
    shared: &'a Shared,
    opened: RwLockReadGuard<'a, Option<Opened>>,
}

impl<'a> ReaderView<'a> {
    /// Waits for a refresh that is under way: not on a thread of a runtime that must not be blocked.
    pub(super) fn new(shared: &'a Shared) -> Self {
        let opened = shared.opened.blocking_read();
        Self { shared, opened }
    }

    fn opened(&self) -> Result<&Opened, EngineError> {
        // It was closed after a long time without use, in this very moment.
        let closed = || self.shared.unavailable("the reader was just closed".to_owned());
        self.opened.as_ref().ok_or_else(closed)
    }

    fn failed(&self, error: &Error) -> EngineError {
        let why = error.to_string();
        match error.kind() {
            ErrorKind::Data => {
                let place = &self.shared.bucket;
                EngineError::Corrupt(format!("the store at {place} has damaged objects: {why}"))
            }
            _ => self.shared.unavailable(why),
        }
    }
}

impl View for ReaderView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let reader = &self.opened()?.reader;
        let key = keys::key(table, key);
        let options = ReadOptions::default();
        let value = self.shared.runtime.block_on(reader.get_with_options(key, &options));
        value.map_err(|error| self.failed(&error))
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        let Some(range) = keys::range(table, span).filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        let reader = &self.opened()?.reader;
        let options = ScanOptions {
            read_ahead_bytes: limit.saturating_mul(ENTRY).clamp(BLOCK, READ_AHEAD),
            cache_blocks: true,
            ..ScanOptions::default()
        };
        let scan = async {
            let mut found = reader.scan_with_options(range, &options).await?;
            let mut entries = Vec::new();
            while entries.len() < limit {
                let Some(entry) = found.next().await? else { break };
                // Without the byte of the table.
                entries.push((entry.key.slice(1..), Ok(entry.value)));
            }
            Ok(entries)
        };
        let entries = self.shared.runtime.block_on(scan);
        entries.map_err(|error: Error| self.failed(&error))
    }
}
