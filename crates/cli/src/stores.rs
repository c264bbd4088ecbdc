//! Opening a store by its URL.

use crate::built;
use crate::error::CliError;
use duroxide::providers::Provider;
use perennial::{Health, OpenError, Workflows};
use perennial_store::Store;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::watch;

/// Why a store broke while a command ran on it, once one has.
static BROKEN: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));

/// An open store.
pub enum OpenStore {
    /// A store of perennial.
    Perennial(Arc<perennial::Workflows>),
    /// duroxide's own SQLite provider, to compare with.
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<duroxide::providers::sqlite::SqliteProvider>),
}

impl OpenStore {
    /// Opens the store at `url`.
    pub async fn open(url: &str) -> Result<Self, CliError> {
        if url
            .split_once(':')
            .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("sqlite"))
        {
            return open_sqlite(url).await;
        }
        let store = perennial::open(url).await.map_err(refused)?;
        tokio::spawn(watch_over(Workflows::clone(&store)));
        Ok(Self::Perennial(store))
    }

    /// Opens a store of perennial whose syncs take longer, where it has any: to see what a slower disk costs.
    pub async fn open_with_slow_syncs(url: &str, sync_delay: Duration) -> Result<Self, CliError> {
        let settings = perennial::settings::DirectorySettings {
            sync_delay,
            ..Default::default()
        };
        let opened = perennial::Builder::new(url).directory_settings(settings).open().await;
        opened.map(Self::Perennial).map_err(refused)
    }

    /// The provider for runtimes and clients.
    pub fn provider(&self) -> Arc<dyn Provider> {
        match self {
            Self::Perennial(store) => Arc::clone(store) as Arc<dyn Provider>,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Provider>,
        }
    }

    /// The store of the program's own records, beside its workflows.
    pub fn records(&self) -> Result<Arc<dyn Store>, CliError> {
        match self {
            Self::Perennial(store) => Ok(store.store()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Err(CliError::Usage(
                "SQLite keeps workflows and nothing else; choose a --store of perennial's own: memory:, file: or cosmos:"
                    .into(),
            )),
        }
    }

    /// Writes out what is pending and releases the store. SQLite does so when its last handle is dropped.
    pub async fn close(&self) -> Result<(), CliError> {
        match self {
            Self::Perennial(store) => store.close().await.map_err(|e| CliError::failed("close the store", e)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Ok(()),
        }
    }
}

fn refused(error: OpenError) -> CliError {
    match error {
        OpenError::NotBuilt { scheme, feature } => built::lacks(&format!("{scheme:?} stores"), feature),
        error => CliError::Store(with_causes(&error)),
    }
}

/// Records it if a store breaks before it is closed.
async fn watch_over(store: Workflows) {
    let health = store.closed().await;
    if health != Health::Closed {
        BROKEN.send_replace(Some(health.to_string()));
    }
}

/// Waits until a store breaks under the running command. Commands do not wait for it to recover: the user should know.
pub async fn broke() -> CliError {
    let mut broken = BROKEN.subscribe();
    let why = match broken.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or_default(),
        Err(_) => return std::future::pending().await,
    };
    CliError::Store(format!(
        "{why}; what was committed is safe: fix the cause (free some space, check the disk) and run it again"
    ))
}

/// An error and what caused it, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |mut told, cause| {
        // Many errors already repeat their cause.
        let cause = cause.to_string();
        if !told.contains(&cause) {
            told += &format!(": {cause}");
        }
        told
    })
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(url: &str) -> Result<OpenStore, CliError> {
    let url = if url.contains('?') {
        url.to_owned()
    } else {
        format!("{url}?mode=rwc")
    };
    duroxide::providers::sqlite::SqliteProvider::new(&url, None)
        .await
        .map(|store| OpenStore::Sqlite(Arc::new(store)))
        .map_err(|e| CliError::Store(format!("could not open {url}: {e}")))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &str) -> Result<OpenStore, CliError> {
    Err(no_sqlite())
}

/// The error of a build that has no SQLite.
#[cfg(not(feature = "sqlite"))]
pub fn no_sqlite() -> CliError {
    built::lacks("SQLite to compare with", "sqlite")
}
