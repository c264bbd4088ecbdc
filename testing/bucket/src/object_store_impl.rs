//! Every method of an object store, as a request that may fail.

use crate::faulty::{Draft, FaultyBucket, sender};
use crate::request::Condition;
use crate::upload::FaultyUpload;
use crate::{Method, listing};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::sync::Arc;

// `get_ranges` and `rename_opts` are made of other requests, as in the clients of the clouds.
#[async_trait]
impl ObjectStore for FaultyBucket {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let draft = Draft {
            condition: Condition::of_put(&opts.mode),
            sent_bytes: payload.content_length(),
            ..Draft::new(Method::Put, location)
        };
        let (this, location) = (self.clone(), location.clone());
        let send = move || {
            let (this, location, payload, opts) = (this.clone(), location.clone(), payload.clone(), opts.clone());
            async move {
                let result = this.inner.put_opts(&location, payload, opts).await?;
                this.write_times.note(location, this.clock.now_ms());
                Ok(result)
            }
        };
        self.pass(draft, sender(send)).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let (inner, path) = (Arc::clone(&self.inner), location.clone());
        let send = move || {
            let (inner, path, opts) = (Arc::clone(&inner), path.clone(), opts.clone());
            async move { inner.put_multipart_opts(&path, opts).await }
        };
        let upload = self
            .pass(Draft::new(Method::StartUpload, location), sender(send))
            .await?;
        Ok(Box::new(FaultyUpload::new(self.clone(), location.clone(), upload)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let method = if options.head { Method::Head } else { Method::Get };
        let draft = Draft {
            condition: Condition::of_get(&options),
            ..Draft::new(method, location)
        };
        let (inner, location) = (Arc::clone(&self.inner), location.clone());
        let send = move || {
            let (inner, location, options) = (Arc::clone(&inner), location.clone(), options.clone());
            async move { inner.get_opts(&location, options).await }
        };
        self.pass(draft, sender(send)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |location: Result<Path>| {
            let this = this.clone();
            async move {
                let location = location?;
                let (inner, path) = (Arc::clone(&this.inner), location.clone());
                let send = move || {
                    let (inner, path) = (Arc::clone(&inner), path.clone());
                    async move { inner.delete(&path).await }
                };
                let draft = Draft::new(Method::Delete, &location);
                this.pass(draft, sender(send)).await.map(|()| location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        listing::pages(self.clone(), prefix.cloned(), None)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        listing::pages(self.clone(), prefix.cloned(), Some(offset.clone()))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        listing::folders(self, prefix.cloned()).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (this, from, target) = (self.clone(), from.clone(), to.clone());
        let send = move || {
            let (this, from, to, options) = (this.clone(), from.clone(), target.clone(), options.clone());
            async move {
                this.inner.copy_opts(&from, &to, options).await?;
                this.write_times.note(to, this.clock.now_ms());
                Ok(())
            }
        };
        self.pass(Draft::new(Method::Copy, to), sender(send)).await
    }
}
