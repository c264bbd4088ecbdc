//! Why a store could not be opened, and what to do about it.

use azure_data_cosmos::CosmosError;
use perennial_store::Error;

/// Why a store could not be opened or created. None of these ever holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL does not say where the store is.
    #[error("the URL is not one of a Cosmos DB store: {why}; use \"cosmos://ACCOUNT/DATABASE/CONTAINER\"")]
    BadUrl {
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are no credentials.
    #[error(
        "there are no credentials for Cosmos DB: {why}; set PERENNIAL_COSMOS_KEY to the account's key, or give this \
         program an identity of Entra ID (managed identity, workload identity, or `az login`)"
    )]
    NoCredentials {
        /// What was tried.
        why: String,
    },
    /// There is no such database or container.
    #[error(
        "the container {container:?} of the database {database:?} at {endpoint} does not exist; \
         make it with `perennial cosmos init URL`"
    )]
    NotFound {
        /// The account.
        endpoint: String,
        /// The database.
        database: String,
        /// The container.
        container: String,
    },
    /// The container was created for something else.
    #[error(
        "the container {container:?} has the partition key {found:?} and not \"/partition\", which cannot be changed; \
         nothing was changed, name another container"
    )]
    WrongPartitionKey {
        /// The container.
        container: String,
        /// Its partition key.
        found: String,
    },
    /// The container does not have the settings that it must have.
    #[error("the container {container:?} is not ready: {why}; repair it with `perennial cosmos init URL`")]
    NotReady {
        /// The container.
        container: String,
        /// What is wrong with it.
        why: String,
    },
    /// The container must be created or changed, and this program may not do that.
    #[error(
        "the container {container:?} {why}, and identities of Entra ID may not make or change containers; set \
         PERENNIAL_COSMOS_KEY to the account's key, or do it with `az cosmosdb sql container` as docs/cosmos.md shows"
    )]
    KeyNeeded {
        /// The container.
        container: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another version of the program made the store.
    #[error(
        "the container {container:?} has format {found}, this program knows format {supported}; \
         nothing was changed, use the version of the program that fits"
    )]
    OtherFormat {
        /// The container.
        container: String,
        /// Its format.
        found: u32,
        /// The format that this program knows.
        supported: u32,
    },
    /// The service refuses, or cannot be reached.
    #[error("Cosmos DB at {endpoint} could not be used: {source}")]
    Failed {
        /// The account.
        endpoint: String,
        /// What went wrong.
        source: Error,
    },
}

impl OpenError {
    /// The meaning of a failed request for an open.
    pub(crate) fn from_request(account: &crate::Account, error: &CosmosError) -> Self {
        match u16::from(error.status().status_code()) {
            404 => account.not_found(),
            _ if is_refused(error) => account.failed(Error::Unavailable(nobody_listens(account))),
            _ => account.failed(crate::failure::meaning(error)),
        }
    }
}

/// Whether the address refuses connections.
fn is_refused(error: &CosmosError) -> bool {
    let sources = std::iter::successors(std::error::Error::source(error), |source| source.source());
    let mut causes = sources.filter_map(|source| source.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn nobody_listens(account: &crate::Account) -> String {
    match account.is_local() {
        true => {
            let port = account.url().port_or_known_default().unwrap_or_default();
            format!(
                "connection refused, nothing listens there; is the emulator running? Start it with `perennial cosmos \
                 emulator --port {port}`"
            )
        }
        false => "connection refused, nothing listens there; check the name of the account and the network".to_owned(),
    }
}
