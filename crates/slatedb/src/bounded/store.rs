//! An object store whose requests are bounded.

use super::Bounds;
use super::upload::BoundedUpload;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use std::fmt;
use std::sync::Arc;

/// What a listing may take, in bytes moved: many pages of a thousand names.
const LISTING_BYTES: u64 = 8 * 1024 * 1024;

/// A client whose requests are bounded.
#[derive(Clone)]
pub(crate) struct BoundedStore {
    inner: Arc<dyn ObjectStore>,
    bounds: Arc<Bounds>,
}

impl BoundedStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, bounds: Arc<Bounds>) -> Self {
        Self { inner, bounds }
    }
}

impl fmt::Debug for BoundedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedStore({:?})", self.inner)
    }
}

impl fmt::Display for BoundedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// How many bytes a read moves, if its range says so.
fn bytes_of(options: &GetOptions) -> u64 {
    match &options.range {
        Some(GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
        Some(GetRange::Suffix(length)) => *length,
        Some(GetRange::Offset(_)) | None => 0,
    }
}

/// The result of a read with its body in memory: a body that stops in the middle is a failed attempt as well.
async fn with_body(result: GetResult) -> Result<GetResult> {
    let (meta, range) = (result.meta.clone(), result.range.clone());
    let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
    let body: Bytes = result.bytes().await?;
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::once(async move { Ok(body) }).boxed()),
        meta,
        range,
        attributes,
        extensions,
    })
}

#[async_trait]
impl ObjectStore for BoundedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        self.bounds
            .attempt(bytes, self.inner.put_opts(location, payload, opts))
            .await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, opts);
        let upload = self.bounds.attempt(0, begun).await?;
        Ok(Box::new(BoundedUpload::new(upload, self.bounds.clone())))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (bytes, is_head) = (bytes_of(&options), options.head);
        let read = async {
            let result = self.inner.get_opts(location, options).await?;
            match is_head {
                true => Ok(result),
                false => with_body(result).await,
            }
        };
        self.bounds.attempt(bytes, read).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let deleted = locations.then(move |location| {
            let this = this.clone();
            async move {
                let location = location?;
                this.bounds.attempt(0, this.inner.delete(&location)).await?;
                Ok(location)
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let all = async { this.inner.list(prefix.as_ref()).try_collect::<Vec<_>>().await };
            let all = this.bounds.attempt(LISTING_BYTES, all).await?;
            Ok::<_, Error>(stream::iter(all.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.bounds
            .attempt(LISTING_BYTES, self.inner.list_with_delimiter(prefix))
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.bounds.attempt(0, self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.bounds.attempt(0, self.inner.rename_opts(from, to, options)).await
    }
}
