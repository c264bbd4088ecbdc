//! An upload in parts whose requests are bounded.

use super::Bounds;
use async_trait::async_trait;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::fmt;
use std::sync::Arc;

pub(crate) struct BoundedUpload {
    inner: Box<dyn MultipartUpload>,
    bounds: Arc<Bounds>,
}

impl BoundedUpload {
    pub(crate) fn new(inner: Box<dyn MultipartUpload>, bounds: Arc<Bounds>) -> Self {
        Self { inner, bounds }
    }
}

impl fmt::Debug for BoundedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedUpload({:?})", self.inner)
    }
}

#[async_trait]
impl MultipartUpload for BoundedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let bytes = data.content_length() as u64;
        let (part, bounds) = (self.inner.put_part(data), self.bounds.clone());
        Box::pin(async move { bounds.attempt(bytes, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.bounds.attempt(0, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.bounds.attempt(0, self.inner.abort()).await
    }
}
