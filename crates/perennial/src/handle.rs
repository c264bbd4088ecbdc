//! A handle on an opened store, and the engines on it.

use crate::OpenError;
use perennial_store::{Clock, Health, Hold, Holders, Result, Store, StoreHandle};
use perennial_workflow::{Settings, Workflows};
use std::sync::{Arc, Weak};

/// A handle on an opened store. It is cheap to clone, and everything that works on the store comes from it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let perennial = perennial::connect("memory:").await?; // or "file:///var/lib/app"
/// let client = duroxide::Client::new(perennial.provider());
/// client.start_orchestration("hello-1", "Hello", "Rust").await?;
/// perennial.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Closing
///
/// [`close`](Self::close) writes down what is only in memory: the next opening then knows how often work was handed out, and
/// another process may open the store at once. Shut the runtimes down first. A program that ends without closing loses no
/// commit.
///
/// A directory that is opened in several places of a process is one store. Each [`connect`](crate::connect) gives a hold on
/// it, shared by the clones of its handle, and the store is closed with its last hold.
#[derive(Clone)]
pub struct Handle {
    store: Arc<StoreHandle>,
    workflows: Workflows,
    hold: Hold,
}

impl Handle {
    /// Starts the engines on a store.
    pub(crate) async fn start(
        store: StoreHandle,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, OpenError> {
        let store = Arc::new(store);
        let workflows = Workflows::on(Arc::clone(&store), settings, clock).await?;
        let hold = {
            let (store, workflows) = (Arc::clone(&store), workflows.clone());
            Holders::first(Box::new(move || Box::pin(close(Arc::clone(&store), workflows.clone()))))
        };
        let workflows = workflows.held_by(hold.clone());
        Ok(Self { store, workflows, hold })
    }

    /// The workflows of the store: a provider for `duroxide::runtime::Runtime` and `duroxide::Client`, and more than a
    /// provider can do, such as [waiting](Workflows::wait) without polling.
    pub fn workflows(&self) -> Workflows {
        self.workflows.clone()
    }

    /// The workflows as duroxide takes them.
    pub fn provider(&self) -> Arc<Workflows> {
        Arc::new(self.workflows())
    }

    /// The store itself, for records of the program's own, see [`Workflows::store`].
    pub fn store(&self) -> Arc<dyn Store> {
        self.workflows.store()
    }

    /// Whether the store takes requests and, if not, why and since when.
    pub fn health(&self) -> Health {
        self.workflows.health()
    }

    /// Waits until the store takes no more requests, and returns why. For programs that exit when their store breaks; others
    /// need not care, because the store is opened again once the cause has passed.
    pub async fn closed(&self) -> Health {
        self.workflows.closed().await
    }

    /// Whether the store takes no more requests: this handle was closed, or the store broke and was not opened again yet.
    pub fn is_closed(&self) -> bool {
        self.workflows.is_closed()
    }

    /// Opens a store that broke again, now. Does nothing if it works.
    pub async fn reopen(&self) -> Result<()> {
        self.workflows.reopen().await
    }

    /// Closes this handle and its clones, and the store with the last of its handles.
    pub async fn close(&self) -> Result<()> {
        self.hold.release().await
    }

    /// A reference that does not keep the store open.
    pub(crate) fn downgrade(&self) -> WeakHandle {
        WeakHandle {
            store: Arc::downgrade(&self.store),
            workflows: self.workflows.downgrade(),
            holders: Arc::downgrade(self.hold.holders()),
        }
    }
}

/// Stops all engines, then closes their store.
async fn close(store: Arc<StoreHandle>, workflows: Workflows) -> Result<()> {
    let stopped = workflows.stop().await;
    store.close().await.and(stopped)
}

/// A handle that does not keep its store open.
pub(crate) struct WeakHandle {
    store: Weak<StoreHandle>,
    workflows: perennial_workflow::WeakWorkflows,
    holders: Weak<Holders>,
}

impl WeakHandle {
    /// Whether the store may still be open.
    pub(crate) fn is_alive(&self) -> bool {
        self.holders.strong_count() > 0
    }

    /// Another hold on the store, if it is still held.
    pub(crate) fn another(&self) -> Option<Handle> {
        let hold = self.holders.upgrade()?.another()?;
        Some(Handle {
            store: self.store.upgrade()?,
            workflows: self.workflows.upgrade(hold.clone())?,
            hold,
        })
    }
}
