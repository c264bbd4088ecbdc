//! Why a store could not be opened.

/// Why a store could not be opened. Each says what to do; none has changed anything in a way that matters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names a kind of store that does not exist.
    #[error(
        "{url:?} names no known store; use \"memory:\", \"file:///path/to/a/directory\", \"s3://BUCKET/PREFIX\", \
         \"az://ACCOUNT/CONTAINER/PREFIX\", \"gs://BUCKET/PREFIX\" or \"cosmos://ACCOUNT/DATABASE/CONTAINER\""
    )]
    UnknownScheme {
        /// The URL, without anything that might be a secret.
        url: String,
    },
    /// The URL names a kind of store that this program was built without.
    #[error(
        "this program was built without {scheme:?} stores; add them with: cargo add perennial --features {feature}"
    )]
    NotBuilt {
        /// The kind.
        scheme: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// The URL does not say where the store is.
    #[error("{url:?} is not a store's URL: {why}")]
    BadUrl {
        /// The URL, without anything that might be a secret.
        url: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
    /// The directory could not be opened.
    #[cfg(feature = "file")]
    #[error(transparent)]
    Directory(#[from] perennial_fjall::OpenError),
    /// The container of Cosmos DB could not be opened.
    #[cfg(feature = "cosmos")]
    #[error(transparent)]
    Cosmos(#[from] perennial_cosmos::OpenError),
    /// The store in a bucket could not be opened.
    #[cfg(feature = "slatedb")]
    #[error(transparent)]
    Bucket(#[from] perennial_slatedb::OpenError),
    /// The store was opened but cannot be used.
    #[error("the store was opened but cannot be used: {0}")]
    Store(#[from] perennial_store::Error),
    /// This process has the store open, it broke, and it cannot be opened again yet.
    #[error("{why}")]
    Broken {
        /// Why it broke, and why it cannot be opened again.
        why: String,
    },
    /// The opening was interrupted.
    #[error("the store could not be opened: {0}")]
    Interrupted(String),
}
