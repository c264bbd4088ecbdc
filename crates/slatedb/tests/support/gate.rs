//! A client that holds, fails or refuses the requests that a test chooses.

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// What happens to the requests whose object a gate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Open,
    /// They wait until the gate is opened.
    Hold,
    /// They fail.
    Fail,
    /// They are refused, as with a wrong key.
    Deny,
    /// Writes take effect, but their reply is lost.
    LoseReply,
}

/// A client with a gate before every object whose name holds a text.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<dyn ObjectStore>,
    name: String,
    mode: watch::Sender<Mode>,
    /// How many requests have come to the gate.
    arrived: watch::Sender<usize>,
    sent: Arc<AtomicUsize>,
}

impl Gate {
    /// A gate before the objects whose names hold `name`.
    pub fn new(inner: Arc<dyn ObjectStore>, name: &str) -> Self {
        Self {
            inner,
            name: name.to_owned(),
            mode: watch::channel(Mode::Open).0,
            arrived: watch::channel(0).0,
            sent: Arc::default(),
        }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
        self.arrived.send_replace(0);
    }

    /// Waits until a request has come to the gate since it was set.
    pub async fn arrival(&self) {
        let mut arrived = self.arrived.subscribe();
        arrived.wait_for(|arrived| *arrived > 0).await.unwrap();
    }

    /// How many requests of any kind were made.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    async fn pass(&self, location: &Path) -> Result<Mode> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        if !location.as_ref().contains(&self.name) {
            return Ok(Mode::Open);
        }
        self.arrived.send_modify(|arrived| *arrived += 1);
        let mut mode = self.mode.subscribe();
        let mode = *mode.wait_for(|mode| *mode != Mode::Hold).await.unwrap();
        match mode {
            Mode::Fail => Err(failure()),
            Mode::Deny => Err(Error::PermissionDenied {
                path: location.to_string(),
                source: "the key is wrong".into(),
            }),
            mode => Ok(mode),
        }
    }
}

fn failure() -> Error {
    Error::Generic {
        store: "test",
        source: "the network is down".into(),
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate({:?})", self.name)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate({:?})", self.name)
    }
}

#[async_trait]
impl ObjectStore for Gate {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mode = self.pass(location).await?;
        let written = self.inner.put_opts(location, payload, opts).await;
        match mode {
            Mode::LoseReply => Err(failure()),
            _ => written,
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.pass(location).await?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.pass(location).await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
