//! Durable workflows for Rust, on a store that is picked by URL.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use duroxide::runtime::{Runtime, registry::ActivityRegistry};
//! use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
//! use std::time::Duration;
//!
//! let perennial = perennial::connect("memory:").await?; // or "file:///var/lib/app"
//! let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
//! let activities = ActivityRegistry::builder().register("Greet", greet).build();
//! let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
//! let workflows = OrchestrationRegistry::builder().register("Hello", hello).build();
//! let runtime = Runtime::start_with_store(perennial.provider(), activities, workflows).await;
//! Client::new(perennial.provider()).start_orchestration("hello-1", "Hello", "Rust").await?;
//! let greeting: String = perennial.workflows().result("hello-1", Duration::from_secs(5)).await??;
//! assert_eq!(greeting, "Hello, Rust!");
//! runtime.shutdown(None).await;
//! perennial.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | URL | store |
//! |---|---|
//! | `memory:` | in this process, gone with it: tests |
//! | `file:///var/lib/app`, `file://./data` | a directory that this process owns; every step is on disk before it counts |
//! | `cosmos://ACCOUNT/DATABASE/CONTAINER` | a container of Azure Cosmos DB that many processes share (feature `cosmos`) |
//! | `cosmos+http://127.0.0.1:PORT/DATABASE/CONTAINER` | the same, of an emulator on this machine |
//! | `s3://BUCKET/PREFIX`, `az://ACCOUNT/CONTAINER/PREFIX`, `gs://BUCKET/PREFIX` | a bucket, with one owner at a time (features `s3`, `az`, `gs`) |
//! | `slatedb+file:///DIR`, `slatedb+memory:NAME` | the same on this machine, to try it (feature `slatedb`) |
//!
//! A container is created once, with `perennial cosmos init URL`. The program authenticates with the account's key in the
//! environment variable `PERENNIAL_COSMOS_KEY`, or else with an identity of Entra ID: a managed identity, a workload identity,
//! or `az login`. A URL holds no secret, because URLs are logged; one that does is refused.
//!
//! # When the disk fails
//!
//! A store whose disk becomes full or fails reports it, and opens itself again once the cause has passed. Programs need not care;
//! one that would rather exit awaits [`Handle::closed`]:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let perennial = perennial::connect("memory:").await?;
//! let watched = perennial.clone();
//! let broken = tokio::spawn(async move { eprintln!("{}", watched.closed().await) });
//! # perennial.close().await?;
//! # broken.await?;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "slatedb")]
mod bucket;
mod builder;
#[cfg(feature = "cosmos")]
mod cosmos;
mod error;
mod handle;
mod opened;
mod url;

pub use builder::Builder;
pub use error::OpenError;
pub use handle::Handle;
pub use perennial_store::{Clock, Health, Outage, SystemClock};
pub use perennial_workflow::Workflows;
pub use url::{directory_of, url_of};

/// The runtime that runs workflows. Programs may use it from here: its version is the one that this crate was made for.
pub use duroxide;
/// The contract of all stores, for programs that keep records of their own beside their workflows, see [`Handle::store`].
pub use perennial_store as store;

/// The settings that a [`Builder`] takes.
pub mod settings {
    #[cfg(feature = "cosmos")]
    pub use azure_core::credentials::TokenCredential;
    #[cfg(feature = "cosmos")]
    pub use perennial_cosmos::Settings as CosmosSettings;
    #[cfg(feature = "file")]
    pub use perennial_fjall::Settings as DirectorySettings;
    #[cfg(feature = "slatedb")]
    pub use perennial_slatedb::{Settings as BucketSettings, lease::Settings as LeaseSettings};
    pub use perennial_workflow::Settings as WorkflowSettings;
}

use std::sync::Arc;

/// Opens the store that a URL names, with default settings, and starts the engines on it.
///
/// A directory is opened once per process: opening it again gives another hold on the same store. A container of Cosmos DB is
/// shared by nature: opening it again gives another handle on it, as another process would have.
pub async fn connect(url: &str) -> Result<Handle, OpenError> {
    Builder::new(url).connect().await
}

/// Opens the store that a URL names as a provider for `duroxide::runtime::Runtime` and `duroxide::Client`, with default
/// settings: the workflows of [`connect`].
pub async fn open(url: &str) -> Result<Arc<Workflows>, OpenError> {
    Builder::new(url).open().await
}

/// Compiles the program of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
