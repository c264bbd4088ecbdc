//! An object store whose requests are counted.

use super::{Class, Operation, Requests};
use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::fmt;
use std::sync::Arc;

/// How many names one request lists at most, where most object stores list.
const PAGE: usize = 1000;

/// A client whose requests are counted.
pub(crate) struct MeteredStore {
    inner: Arc<dyn ObjectStore>,
    prefix: Path,
    requests: Requests,
}

impl MeteredStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, prefix: Path, requests: Requests) -> Self {
        Self {
            inner,
            prefix,
            requests,
        }
    }

    fn count(&self, operation: Operation, location: &Path) {
        self.requests.add(operation, Class::of(&self.prefix, location));
    }

    /// A write, which counts even if its caller does not wait for the reply.
    async fn count_put<T>(&self, location: &Path, put: impl Future<Output = Result<T>>) -> Result<T> {
        let mut counted = CountOnDrop {
            requests: Some(&self.requests),
            class: Class::of(&self.prefix, location),
        };
        let outcome = put.await;
        if matches!(outcome, Err(Error::NotImplemented { .. } | Error::NotSupported { .. })) {
            // The client refused it without sending anything.
            counted.requests = None;
        }
        outcome
    }

    fn class_of_listing(&self, prefix: Option<&Path>) -> Class {
        Class::of(&self.prefix, prefix.unwrap_or(&self.prefix))
    }
}

impl fmt::Debug for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeteredStore({:?})", self.inner)
    }
}

impl fmt::Display for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

struct CountOnDrop<'a> {
    requests: Option<&'a Requests>,
    class: Class,
}

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(requests) = self.requests {
            requests.add(Operation::Put, self.class);
        }
    }
}

#[async_trait]
impl ObjectStore for MeteredStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let put = self.inner.put_opts(location, payload, opts);
        self.count_put(location, put).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, opts);
        Ok(Box::new(MeteredUpload {
            inner: self.count_put(location, begun).await?,
            class: Class::of(&self.prefix, location),
            requests: self.requests.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = match options.head {
            true => Operation::Head,
            false => Operation::Get,
        };
        self.count(operation, location);
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (prefix, requests) = (self.prefix.clone(), self.requests.clone());
        let counted = locations.inspect(move |location| {
            if let Ok(location) = location {
                requests.add(Operation::Delete, Class::of(&prefix, location));
            }
        });
        self.inner.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (class, requests) = (self.class_of_listing(prefix), self.requests.clone());
        requests.add(Operation::List, class);
        let counted = self.inner.list(prefix).enumerate().map(move |(number, object)| {
            if number > 0 && number % PAGE == 0 {
                requests.add(Operation::List, class);
            }
            object
        });
        counted.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.requests.add(Operation::List, self.class_of_listing(prefix));
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.count(Operation::Copy, to);
        self.inner.copy_opts(from, to, options).await
    }
}

/// An upload in parts, each of which is a request.
#[derive(Debug)]
struct MeteredUpload {
    inner: Box<dyn MultipartUpload>,
    class: Class,
    requests: Requests,
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.requests.add(Operation::Put, self.class);
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.requests.add(Operation::Put, self.class);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.requests.add(Operation::Delete, self.class);
        self.inner.abort().await
    }
}
