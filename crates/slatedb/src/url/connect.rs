//! The client of the bucket that a URL names.

use super::Location;
use crate::{Bucket, OpenError};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The buckets in memory, which live as long as the process.
static MEMORY: LazyLock<Mutex<HashMap<String, Arc<InMemory>>>> = LazyLock::new(Mutex::default);

impl Location {
    /// The bucket, with a client that is configured by the environment. Sends no request.
    pub fn connect(&self) -> Result<Bucket, OpenError> {
        match self {
            Self::Memory(name) => {
                let objects = MEMORY.lock().entry(name.clone()).or_default().clone();
                Ok(Bucket::new(objects, Path::default(), self.to_string()))
            }
            Self::Directory(path) => {
                let failed = |error| OpenError::failed(path, error);
                std::fs::create_dir_all(path).map_err(failed)?;
                let files = LocalFileSystem::new_with_prefix(path);
                let files = files.map_err(|error| failed(std::io::Error::other(error)))?;
                let objects = Arc::new(files.with_fsync(true));
                Ok(Bucket::new(objects, Path::default(), self.to_string()).in_directory())
            }
            Self::S3 { bucket, prefix } => self.cloud(s3(self, bucket), prefix),
            Self::Azure {
                account,
                container,
                prefix,
            } => self.cloud(az(self, account, container), prefix),
            Self::Google { bucket, prefix } => self.cloud(gs(self, bucket), prefix),
        }
    }

    fn cloud(&self, client: Result<Arc<dyn ObjectStore>, OpenError>, prefix: &Path) -> Result<Bucket, OpenError> {
        Ok(Bucket::new(client?, prefix.clone(), self.to_string()))
    }
}

#[cfg(feature = "s3")]
use super::client::s3;

#[cfg(not(feature = "s3"))]
fn s3(_location: &Location, _bucket: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let (scheme, feature) = ("s3", "s3");
    Err(OpenError::NotBuilt { scheme, feature })
}

#[cfg(feature = "az")]
use super::client::az;

#[cfg(not(feature = "az"))]
fn az(_location: &Location, _account: &str, _container: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let (scheme, feature) = ("az", "az");
    Err(OpenError::NotBuilt { scheme, feature })
}

#[cfg(feature = "gs")]
use super::client::gs;

#[cfg(not(feature = "gs"))]
fn gs(_location: &Location, _bucket: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let (scheme, feature) = ("gs", "gs");
    Err(OpenError::NotBuilt { scheme, feature })
}
