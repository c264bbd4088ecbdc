//! An object store for reading, whose requests end within a set time, and which remembers the last that failed.

use async_trait::async_trait;
use futures::future::{Either, select};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use perennial_store::Clock;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A client that reads.
#[derive(Clone)]
pub(super) struct Watched {
    objects: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    failure: Arc<Mutex<Option<String>>>,
}

fn failed(why: String) -> Error {
    Error::Generic {
        store: "object",
        source: why.into(),
    }
}

impl Watched {
    pub(super) fn new(objects: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self {
            objects,
            clock,
            timeout,
            failure: Arc::default(),
        }
    }

    /// The last request that failed since this was forgotten.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    pub(super) fn forget_failure(&self) {
        *self.failure.lock() = None;
    }

    async fn bounded<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let outcome = match select(pin!(request), self.clock.sleep(self.timeout)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(failed(format!("no reply within {} ms", self.timeout.as_millis()))),
        };
        // What is missing is no failure: the log is read until there is no more of it.
        outcome.inspect_err(|error| {
            if !matches!(error, Error::NotFound { .. }) {
                *self.failure.lock() = Some(crate::inbox::describe(error));
            }
        })
    }

    fn only_reads<T>(&self) -> Result<T> {
        Err(Error::NotImplemented {
            operation: "a write".to_owned(),
            implementer: "a client that reads".to_owned(),
        })
    }
}

/// The result of a read with its body in memory: a body that stops in the middle is a failed request as well.
async fn with_body(result: GetResult) -> Result<GetResult> {
    let (meta, range) = (result.meta.clone(), result.range.clone());
    let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
    let body = result.bytes().await?;
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::once(async move { Ok(body) }).boxed()),
        meta,
        range,
        attributes,
        extensions,
    })
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({:?})", self.objects)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.objects.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        self.only_reads()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.only_reads()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let read = async {
            let result = self.objects.get_opts(location, options).await?;
            match is_head {
                true => Ok(result),
                false => with_body(result).await,
            }
        };
        self.bounded(read).await
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let refused = self.only_reads();
        stream::once(async move { refused }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let all = this.objects.list(prefix.as_ref()).try_collect::<Vec<_>>();
            let all = this.bounded(all).await?;
            Ok::<_, Error>(stream::iter(all.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.bounded(self.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        self.only_reads()
    }
}
