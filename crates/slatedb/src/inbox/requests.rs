//! Requests to the object store, each of which ends within a set time.

use bytes::Bytes;
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use perennial_store::Clock;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The longest part of a message of the object store that is passed on.
const MESSAGE_CHARS: usize = 300;

/// Why a request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no such object.
    Missing,
    /// There may be one already. Some object stores say so too while another request for the same object is under way.
    Exists,
    /// The request is not allowed or not possible: trying again does not help.
    Denied(String),
    /// It failed, or took too long. A write may have happened, and may even happen later.
    Failed(String),
}

/// The content of an object.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it.
    Whole(Bytes),
    /// It has more bytes than the caller takes.
    TooLarge(u64),
}

/// The requests that an inbox needs.
#[derive(Clone)]
pub(crate) struct Requests {
    objects: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

impl Requests {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self {
            objects,
            clock,
            timeout,
        }
    }

    async fn bounded<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T, Failure> {
        match select(pin!(request), self.clock.sleep(self.timeout)).await {
            Either::Left((result, _)) => result.map_err(|error| meaning(&error)),
            Either::Right(_) => {
                let seconds = self.timeout.as_secs_f32();
                Err(Failure::Failed(format!(
                    "the object store did not reply within {seconds} s"
                )))
            }
        }
    }

    /// Creates an object that must not exist.
    pub(crate) async fn create(&self, path: &Path, content: PutPayload) -> Result<(), Failure> {
        let put = self.objects.put_opts(path, content, PutMode::Create.into());
        self.bounded(put).await.map(drop)
    }

    /// Writes an object, whether or not there is one already.
    pub(crate) async fn overwrite(&self, path: &Path, content: Bytes) -> Result<(), Failure> {
        let put = self.objects.put_opts(path, content.into(), PutMode::Overwrite.into());
        self.bounded(put).await.map(drop)
    }

    /// Reads an object of at most `limit` bytes.
    pub(crate) async fn get(&self, path: &Path, limit: usize) -> Result<Content, Failure> {
        let get = async {
            let found = self.objects.get_opts(path, GetOptions::default()).await?;
            match found.meta.size > limit as u64 {
                true => Ok(Content::TooLarge(found.meta.size)),
                false => found.bytes().await.map(Content::Whole),
            }
        };
        self.bounded(get).await
    }

    /// Lists all objects under a prefix. `visit` sees each of them, in any order.
    pub(crate) async fn list(&self, prefix: &Path, mut visit: impl FnMut(ObjectMeta)) -> Result<(), Failure> {
        let mut objects = self.objects.list(Some(prefix));
        while let Some(object) = self.bounded(objects.next().map(Option::transpose)).await? {
            visit(object);
        }
        Ok(())
    }

    /// Copies an object over another one.
    pub(crate) async fn copy(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        self.bounded(self.objects.copy(from, to)).await
    }

    /// Deletes objects, in one request where the object store can.
    pub(crate) async fn delete(&self, paths: Vec<Path>) -> Result<(), Failure> {
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let deleted = self.objects.delete_stream(paths).filter_map(|result| async {
            match result {
                Err(Error::NotFound { .. }) | Ok(_) => None,
                Err(error) => Some(Err::<(), _>(error)),
            }
        });
        self.bounded(deleted.try_collect::<()>()).await
    }
}

fn meaning(error: &Error) -> Failure {
    match error {
        Error::NotFound { .. } => Failure::Missing,
        // A stale `If-None-Match: *` has several names among object stores.
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => Failure::Exists,
        Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => Failure::Denied(describe(error)),
        _ => Failure::Failed(describe(error)),
    }
}

/// A description that holds no secret: a query of a URL may have a signature.
pub(crate) fn describe(error: &Error) -> String {
    let text = error.to_string();
    let words = text.split(' ').map(|word| match word.split_once('?') {
        Some((before, _)) if word.contains("://") => before,
        _ => word,
    });
    words
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MESSAGE_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_holds_no_signature() {
        let source = "PUT https://a.blob.core.windows.net/c/x?sig=secret failed: why?".into();
        let text = describe(&Error::Generic { store: "azure", source });
        assert!(!text.contains("secret") && text.contains("/c/x failed: why?"), "{text}");
    }
}
