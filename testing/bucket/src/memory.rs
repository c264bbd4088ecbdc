//! A bucket in memory, on an injected clock.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::FutureExt;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UpdateVersion,
};
use parking_lot::Mutex;
use perennial_store::Clock;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// What the tags of objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// A number that never comes twice.
    #[default]
    Counter,
    /// A hash of the content, as on S3: an object that is written again with the same content keeps its tag.
    Content,
}

/// A bucket in memory: `object_store`'s own, with times of modification from an injected clock, in whole seconds as those of the
/// clouds, and with tags of the kind that a test needs.
pub struct MemoryBucket {
    inner: InMemory,
    clock: Arc<dyn Clock>,
    tags: Tags,
    stamps: Arc<Mutex<HashMap<Path, Stamp>>>,
}

/// What this bucket says of an object in place of the one that it wraps.
#[derive(Clone)]
struct Stamp {
    modified_ms: u64,
    tag: String,
    inner_tag: Option<String>,
}

impl MemoryBucket {
    /// An empty bucket whose tags are numbers.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_tags(clock, Tags::Counter)
    }

    /// An empty bucket.
    pub fn with_tags(clock: Arc<dyn Clock>, tags: Tags) -> Self {
        Self {
            inner: InMemory::new(),
            clock,
            tags,
            stamps: Arc::default(),
        }
    }

    fn stamp(&self, inner_tag: Option<String>, content: &[u8]) -> Stamp {
        let tag = match self.tags {
            Tags::Content => format!("\"{:032x}\"", xxh3_128(content)),
            Tags::Counter => inner_tag.clone().unwrap_or_default(),
        };
        Stamp {
            modified_ms: self.clock.now_ms(),
            tag,
            inner_tag,
        }
    }

    /// The condition in terms of the bucket that this one wraps.
    fn inner_mode(&self, stamps: &HashMap<Path, Stamp>, location: &Path, mode: PutMode) -> Result<PutMode> {
        let PutMode::Update(version) = mode else {
            return Ok(mode);
        };
        match stamps.get(location) {
            Some(stamp) if Some(&stamp.tag) == version.e_tag.as_ref() => Ok(PutMode::Update(UpdateVersion {
                e_tag: stamp.inner_tag.clone(),
                version: None,
            })),
            _ => Err(Error::Precondition {
                path: location.to_string(),
                source: "412 Precondition Failed".into(),
            }),
        }
    }
}

/// What the bucket says of an object.
fn stamped(stamps: &HashMap<Path, Stamp>, mut meta: ObjectMeta) -> ObjectMeta {
    if let Some(stamp) = stamps.get(&meta.location) {
        let seconds = i64::try_from(stamp.modified_ms / 1_000).unwrap_or_default();
        meta.last_modified = DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default();
        meta.e_tag = Some(stamp.tag.clone());
    }
    meta
}

fn waited() -> Error {
    Error::NotSupported {
        source: "a request to memory had to wait".into(),
    }
}

#[async_trait]
impl ObjectStore for MemoryBucket {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        // Held across the write, which never waits: a write and its stamp are one.
        let mut stamps = self.stamps.lock();
        opts.mode = self.inner_mode(&stamps, location, opts.mode)?;
        let content: Vec<u8> = payload.iter().flat_map(|bytes| bytes.iter().copied()).collect();
        let result = self.inner.put_opts(location, payload, opts).now_or_never();
        let stamp = self.stamp(result.ok_or_else(waited)??.e_tag, &content);
        let e_tag = Some(stamp.tag.clone());
        stamps.insert(location.clone(), stamp);
        Ok(PutResult {
            e_tag,
            version: None,
            extensions: Default::default(),
        })
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload {
            upload: self.inner.put_multipart_opts(location, opts).await?,
            location: location.clone(),
            clock: Arc::clone(&self.clock),
            stamps: Arc::clone(&self.stamps),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let unconditional = GetOptions {
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            ..options.clone()
        };
        // Held across the read, which never waits: content and tag are of one moment.
        let stamps = self.stamps.lock();
        let result = self.inner.get_opts(location, unconditional).now_or_never();
        let mut result = result.ok_or_else(waited)??;
        result.meta = stamped(&stamps, result.meta);
        options.check_preconditions(&result.meta)?;
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let stamps = Arc::clone(&self.stamps);
        let forget = move |location: &Path| {
            stamps.lock().remove(location);
        };
        self.inner.delete_stream(locations).inspect_ok(forget).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let stamps = Arc::clone(&self.stamps);
        let entries = self.inner.list(prefix);
        entries.map_ok(move |meta| stamped(&stamps.lock(), meta)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        let objects = listed
            .objects
            .into_iter()
            .map(|meta| stamped(&self.stamps.lock(), meta));
        listed.objects = objects.collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await?;
        let copied = self.inner.get_opts(to, GetOptions::default()).await?;
        let inner_tag = copied.meta.e_tag.clone();
        let content = copied.bytes().await?;
        let stamp = self.stamp(inner_tag, &content);
        self.stamps.lock().insert(to.clone(), stamp);
        Ok(())
    }
}

impl fmt::Debug for MemoryBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryBucket")
    }
}

impl fmt::Display for MemoryBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryBucket")
    }
}

/// An upload whose object gets its time of modification when it is finished. Its tag is a number, as no cloud gives such an
/// object a plain hash.
struct Upload {
    upload: Box<dyn MultipartUpload>,
    location: Path,
    clock: Arc<dyn Clock>,
    stamps: Arc<Mutex<HashMap<Path, Stamp>>>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> object_store::UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let result = self.upload.complete().await?;
        let stamp = Stamp {
            modified_ms: self.clock.now_ms(),
            tag: result.e_tag.clone().unwrap_or_default(),
            inner_tag: result.e_tag.clone(),
        };
        self.stamps.lock().insert(self.location.clone(), stamp);
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.location)
    }
}
