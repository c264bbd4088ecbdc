//! A bucket: an object store, and the prefix under which one store keeps everything.

use crate::Shard;
use crate::metered::{MeteredStore, Requests};
use object_store::ObjectStore;
use object_store::path::Path;
use std::fmt;
use std::sync::Arc;

/// Where a store lives: the client of an object store, and a prefix in it. Cheap to clone.
#[derive(Clone)]
pub struct Bucket {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    shown: Arc<str>,
    is_directory: bool,
}

impl Bucket {
    /// A bucket that is shown as `shown`, which must hold no secret.
    pub fn new(objects: Arc<dyn ObjectStore>, prefix: Path, shown: impl Into<Arc<str>>) -> Self {
        let shown = shown.into();
        Self {
            objects,
            prefix,
            shown,
            is_directory: false,
        }
    }

    /// The same, but in a directory of this machine: objects are created conditionally but not replaced so, and the owner
    /// holds a file lock.
    #[must_use]
    pub fn in_directory(self) -> Self {
        Self {
            is_directory: true,
            ..self
        }
    }

    /// Whether the objects are files of this machine.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The client.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// The same place through another client, as one that counts or fails on purpose.
    #[must_use]
    pub fn through(&self, objects: Arc<dyn ObjectStore>) -> Self {
        Self {
            objects,
            ..self.clone()
        }
    }

    /// The same place, with every request counted.
    pub fn metered(&self) -> (Self, Requests) {
        let requests = Requests::default();
        let metered = MeteredStore::new(self.objects.clone(), self.prefix.clone(), requests.clone());
        (self.through(Arc::new(metered)), requests)
    }

    /// The prefix of all objects.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The object that says what is stored under the prefix, and in which format.
    pub(crate) fn description(&self) -> Path {
        self.prefix.clone().join("perennial.json")
    }

    /// Where a shard keeps everything of its own.
    pub(crate) fn shard(&self, shard: Shard) -> Path {
        self.prefix.clone().join(shard.to_string())
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.shown)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}
