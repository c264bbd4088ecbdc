//! What a URL cannot say.

use crate::{Handle, OpenError, opened, url};
use perennial_store::{Clock, Store, StoreHandle, SystemClock};
#[cfg(feature = "file")]
use perennial_store::{Error, Opener};
use perennial_workflow::{Settings, Workflows};
#[cfg(feature = "file")]
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a store with settings.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), perennial::OpenError> {
/// let store = perennial::Builder::new("memory:").cache_bytes(16 << 20).open().await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it opens"]
pub struct Builder {
    url: String,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    #[cfg(feature = "file")]
    directory: perennial_fjall::Settings,
    #[cfg(feature = "cosmos")]
    cosmos: crate::cosmos::Access,
    #[cfg(feature = "slatedb")]
    pub(crate) bucket: crate::bucket::Access,
}

impl Builder {
    /// Names the store.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            settings: Settings::default(),
            clock: SystemClock::shared(),
            #[cfg(feature = "file")]
            directory: perennial_fjall::Settings::default(),
            #[cfg(feature = "cosmos")]
            cosmos: crate::cosmos::Access::default(),
            #[cfg(feature = "slatedb")]
            bucket: crate::bucket::Access::default(),
        }
    }

    /// How much memory recent instances may take, in bytes.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.settings.cache_bytes = bytes;
        self
    }

    /// All settings of the workflow engine.
    pub fn workflow_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// All settings of `file:` stores.
    #[cfg(feature = "file")]
    pub fn directory_settings(mut self, settings: perennial_fjall::Settings) -> Self {
        self.directory = settings;
        self
    }

    /// All settings of `cosmos:` stores.
    #[cfg(feature = "cosmos")]
    pub fn cosmos_settings(mut self, settings: perennial_cosmos::Settings) -> Self {
        self.cosmos.settings = settings;
        self
    }

    /// The key of the Cosmos DB account, instead of what the environment offers. It is only used to sign requests and
    /// never shown.
    #[cfg(feature = "cosmos")]
    pub fn cosmos_key(mut self, key: impl Into<String>) -> Self {
        self.cosmos.identity = crate::cosmos::Identity::Key(key.into());
        self
    }

    /// Whom Cosmos DB should take this program for, instead of what the environment offers.
    #[cfg(feature = "cosmos")]
    pub fn cosmos_credential(mut self, credential: Arc<dyn azure_core::credentials::TokenCredential>) -> Self {
        self.cosmos.identity = crate::cosmos::Identity::Token(credential);
        self
    }

    /// All settings of stores in buckets.
    #[cfg(feature = "slatedb")]
    pub fn bucket_settings(mut self, settings: perennial_slatedb::Settings) -> Self {
        self.bucket.settings = settings;
        self
    }

    /// Waits for as long as another process owns the bucket, instead of for a lease's length.
    #[cfg(feature = "slatedb")]
    pub fn standby(mut self) -> Self {
        self.bucket.is_standby = true;
        self
    }

    /// The clock to use instead of the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the store. A directory that this process has open already is shared, with the settings it was opened with; if it
    /// broke, it is opened again now; so is a bucket that this process owns. A container of Cosmos DB is opened anew each time, as if by another process.
    pub async fn connect(self) -> Result<Handle, OpenError> {
        match url::parse(&self.url)? {
            url::Target::Memory => {
                let store = perennial_kv::MemoryStore::open(perennial_kv::Settings::default())
                    .map_err(|e| OpenError::Interrupted(e.to_string()))?;
                self.start(Arc::new(store)).await
            }
            #[cfg(feature = "file")]
            url::Target::Directory(path) => opened::directory(&path, || self.open_directory(path.clone())).await,
            #[cfg(not(feature = "file"))]
            url::Target::Directory(_) => Err(OpenError::NotBuilt {
                scheme: "file:",
                feature: "file",
            }),
            #[cfg(feature = "slatedb")]
            url::Target::Bucket(scheme, _) => {
                let location = match perennial_slatedb::Location::parse(&self.url) {
                    Err(perennial_slatedb::OpenError::NotBuilt { feature, .. }) => {
                        return Err(OpenError::NotBuilt { scheme, feature });
                    }
                    location => location?,
                };
                opened::bucket(&location, || self.open_bucket(&location)).await
            }
            #[cfg(not(feature = "slatedb"))]
            url::Target::Bucket(scheme, feature) => Err(OpenError::NotBuilt { scheme, feature }),
            #[cfg(feature = "cosmos")]
            url::Target::Cosmos => {
                let store = self.cosmos.open(&self.url).await?;
                self.start(Arc::new(store)).await
            }
            #[cfg(not(feature = "cosmos"))]
            url::Target::Cosmos => Err(OpenError::NotBuilt {
                scheme: "cosmos:",
                feature: "cosmos",
            }),
        }
    }

    /// Opens the store as a provider for `duroxide::runtime::Runtime` and `duroxide::Client`: the
    /// [workflows](Handle::workflows) of [`connect`](Self::connect).
    pub async fn open(self) -> Result<Arc<Workflows>, OpenError> {
        Ok(self.connect().await?.provider())
    }

    #[cfg(feature = "file")]
    async fn open_directory(&self, path: PathBuf) -> Result<Handle, OpenError> {
        let settings = self.directory.clone();
        let store = in_thread({
            let (path, settings) = (path.clone(), settings.clone());
            move || perennial_fjall::open(path, settings)
        })
        .await?;
        let reopen: Opener = Box::new(move || {
            let (path, settings) = (path.clone(), settings.clone());
            Box::pin(async move {
                let opened = in_thread(move || perennial_fjall::reopen(path, settings)).await;
                opened
                    .map(|store| Arc::new(store) as Arc<dyn Store>)
                    .map_err(|error| Error::Unavailable(error.to_string()))
            })
        });
        let store = StoreHandle::reopening(Arc::new(store), reopen, Arc::clone(&self.clock));
        Handle::start(store, self.settings.clone(), Arc::clone(&self.clock)).await
    }

    async fn start(&self, store: Arc<dyn Store>) -> Result<Handle, OpenError> {
        let store = StoreHandle::fixed(store, Arc::clone(&self.clock));
        Handle::start(store, self.settings.clone(), Arc::clone(&self.clock)).await
    }
}

/// Opens a directory in a thread of its own: it reads and writes files.
#[cfg(feature = "file")]
async fn in_thread(
    open: impl FnOnce() -> Result<perennial_fjall::FjallStore, perennial_fjall::OpenError> + Send + 'static,
) -> Result<perennial_fjall::FjallStore, OpenError> {
    let opening = tokio::task::spawn_blocking(open).await;
    Ok(opening.map_err(|error| OpenError::Interrupted(error.to_string()))??)
}
