//! The stores that are measured, each in its own directory.

use super::Side;
use crate::error::CliError;
use crate::stores::OpenStore;
use async_trait::async_trait;
use duroxide::OrchestrationStatus;
use perennial::Workflows;
use perennial_bench::{BenchError, Opened, Subject, Target, Waiter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A store that is opened by its URL.
pub struct StoreTarget {
    name: &'static str,
    url: String,
    directory: Option<PathBuf>,
    sync_delay: Duration,
}

impl StoreTarget {
    /// The store of `side` under `base`.
    pub fn new(side: Side, base: &Path, sync_delay: Duration) -> Result<Self, CliError> {
        let base = std::path::absolute(base)
            .map_err(|e| CliError::Usage(format!("--directory {} is no directory: {e}", base.display())))?;
        let directory = |name: &str| base.join(name);
        Ok(match side {
            Side::Memory => Self {
                name: "memory",
                url: "memory:".into(),
                directory: None,
                sync_delay,
            },
            Side::File => {
                let directory = directory("file");
                Self {
                    name: "file",
                    url: perennial::url_of(&directory),
                    directory: Some(directory),
                    sync_delay,
                }
            }
            #[cfg(feature = "sqlite")]
            Side::Sqlite => {
                let directory = directory("sqlite");
                let url = format!("sqlite://{}", directory.join("store.db").display());
                Self {
                    name: "sqlite",
                    url,
                    directory: Some(directory),
                    sync_delay: Duration::ZERO,
                }
            }
            #[cfg(not(feature = "sqlite"))]
            Side::Sqlite => return Err(crate::stores::no_sqlite()),
        })
    }

    /// Whether the store survives the end of the process.
    pub fn outlives_process(&self) -> bool {
        self.directory.is_some()
    }
}

#[async_trait]
impl Target for StoreTarget {
    fn name(&self) -> &str {
        self.name
    }

    async fn open(&self) -> Result<Box<dyn Opened>, BenchError> {
        let could_not = |cause: String| BenchError::new(format!("open {}", self.url), cause);
        if let Some(directory) = &self.directory {
            std::fs::create_dir_all(directory).map_err(|e| could_not(e.to_string()))?;
        }
        let opened = match self.sync_delay.is_zero() {
            true => OpenStore::open(&self.url).await,
            false => OpenStore::open_with_slow_syncs(&self.url, self.sync_delay).await,
        };
        opened
            .map(|store| Box::new(store) as Box<dyn Opened>)
            .map_err(|e| could_not(e.to_string()))
    }

    fn wipe(&self) -> Result<(), BenchError> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BenchError::new(format!("remove {}", directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Opened for OpenStore {
    fn subject(&self) -> Subject {
        let waiter = match self {
            Self::Perennial(store) => Some(Arc::new(Waits(Workflows::clone(store))) as Arc<dyn Waiter>),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => None,
        };
        Subject {
            provider: self.provider(),
            waiter,
        }
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        OpenStore::close(&self).await.map_err(|e| BenchError::new("finish", e))
    }
}

/// Waits by [`Workflows::wait`].
struct Waits(Workflows);

#[async_trait]
impl Waiter for Waits {
    async fn completed(&self, instance: &str, timeout: Duration) -> Result<(), String> {
        match self.0.wait(instance, timeout).await {
            Ok(OrchestrationStatus::Completed { .. }) => Ok(()),
            Ok(other) => Err(format!("it ended as {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Removes the directory of all stores once none is left in it.
pub fn remove_if_empty(directory: &Path) {
    // One that holds something else is left alone.
    let _ = std::fs::remove_dir(directory);
}
