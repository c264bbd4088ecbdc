//! Targets: each opens a provider on an empty store.

use async_trait::async_trait;
use duroxide::providers::Provider;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Waits for the end of workflows without polling.
#[async_trait]
pub trait Waiter: Send + Sync {
    /// Returns once the workflow has completed and that is durable; else why it did not complete within `timeout`.
    async fn completed(&self, instance: &str, timeout: Duration) -> Result<(), String>;
}

/// What is measured: a provider, and its own way to wait for the end of a workflow if it has one.
#[derive(Clone)]
pub struct Subject {
    /// The provider to run workflows on.
    pub provider: Arc<dyn Provider>,
    /// Waits for the end of its workflows. Without one, the acknowledgement of a workflow's last commit counts as its end.
    pub waiter: Option<Arc<dyn Waiter>>,
}

impl From<Arc<dyn Provider>> for Subject {
    fn from(provider: Arc<dyn Provider>) -> Self {
        Self { provider, waiter: None }
    }
}

/// A store that was opened for measuring.
#[async_trait]
pub trait Opened: Send + Sync {
    /// What to measure.
    fn subject(&self) -> Subject;

    /// Releases the store so that it can be opened again. Every clone of the provider must be gone.
    async fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// One of the sides of a comparison.
#[async_trait]
pub trait Target: Send + Sync {
    /// The name in tables: short, such as `file`.
    fn name(&self) -> &str;

    /// Opens the store as it is.
    async fn open(&self) -> Result<Box<dyn Opened>, BenchError>;

    /// Removes all that the store holds. It must not be open.
    fn wipe(&self) -> Result<(), BenchError>;
}

/// Why a measurement could not be made.
#[derive(Debug)]
pub struct BenchError {
    attempted: String,
    cause: String,
}

impl BenchError {
    /// `attempted` completes the sentence "could not …".
    pub fn new(attempted: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            attempted: attempted.into(),
            cause: cause.to_string(),
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.attempted, self.cause)
    }
}

impl std::error::Error for BenchError {}
