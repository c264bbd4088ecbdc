//! Multipart uploads whose steps are requests that may fail.

use crate::Method;
use crate::faulty::{Draft, FaultyBucket, sender};
use async_trait::async_trait;
use object_store::path::Path;
use object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use parking_lot::Mutex;
use std::future::ready;
use std::sync::Arc;

/// An upload through a [`FaultyBucket`].
///
/// [`Fault::Twice`](crate::Fault::Twice) sends a part once, because the upload itself numbers the parts.
#[derive(Debug)]
pub(crate) struct FaultyUpload {
    bucket: FaultyBucket,
    path: Path,
    upload: Arc<tokio::sync::Mutex<Box<dyn MultipartUpload>>>,
}

impl FaultyUpload {
    pub(crate) fn new(bucket: FaultyBucket, path: Path, upload: Box<dyn MultipartUpload>) -> Self {
        Self {
            bucket,
            path,
            upload: Arc::new(tokio::sync::Mutex::new(upload)),
        }
    }
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let draft = Draft {
            sent_bytes: data.content_length(),
            ..Draft::new(Method::UploadPart, &self.path)
        };
        // The number of a part is its place among the calls, so the upload must be told now. Nothing is sent before the
        // part is polled.
        let Ok(mut upload) = self.upload.try_lock() else {
            let source = "a part was written while the upload was being finished".into();
            return Box::pin(ready(Err(Error::Generic {
                store: "FaultyBucket",
                source,
            })));
        };
        let part = Mutex::new(Some(upload.put_part(data)));
        let bucket = self.bucket.clone();
        let send = move || {
            let part = part.lock().take();
            async move {
                match part {
                    Some(part) => part.await,
                    None => Ok(()),
                }
            }
        };
        Box::pin(async move { bucket.pass(draft, sender(send)).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (bucket, path, upload) = (self.bucket.clone(), self.path.clone(), Arc::clone(&self.upload));
        let send = move || {
            let (bucket, path, upload) = (bucket.clone(), path.clone(), Arc::clone(&upload));
            async move {
                let result = upload.lock().await.complete().await?;
                bucket.write_times.note(path, bucket.clock.now_ms());
                Ok(result)
            }
        };
        let draft = Draft::new(Method::FinishUpload, &self.path);
        self.bucket.pass(draft, sender(send)).await
    }

    async fn abort(&mut self) -> Result<()> {
        let upload = Arc::clone(&self.upload);
        let send = move || {
            let upload = Arc::clone(&upload);
            async move { upload.lock().await.abort().await }
        };
        let draft = Draft::new(Method::AbortUpload, &self.path);
        self.bucket.pass(draft, sender(send)).await
    }
}
