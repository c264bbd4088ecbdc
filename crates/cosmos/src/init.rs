//! Creates the database and the container of a store.

use crate::container::{Flaw, flaw, properties};
use crate::open::{client, within};
use crate::{Account, OpenError, Settings, format, identity};
use azure_data_cosmos::models::ThroughputProperties;
use azure_data_cosmos::options::CreateContainerOptions;
use azure_data_cosmos::{ContainerClient, CosmosError};

/// The throughput of a new container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Throughput {
    /// Set by the account: a serverless account is billed by use.
    #[default]
    Serverless,
    /// This many request units per second, always; at least 400.
    Manual(u64),
    /// Up to this many request units per second, by demand; at least 1000.
    Autoscale(u64),
}

/// What [`init`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Made {
    /// The container is new.
    Created,
    /// The container existed, and its settings were repaired.
    Repaired,
    /// The container existed, with the right settings.
    Nothing,
}

/// Creates the database and the container of a store, or repairs the container's settings, and does nothing where all
/// is well. The service allows this with the account's key only; without one, the container is [adopted](adopt).
pub async fn init(account: &Account, throughput: Throughput, settings: &Settings) -> Result<Made, OpenError> {
    match identity::has_key(account) {
        true => within(account, settings, make(account, throughput, settings)).await,
        false => adopt(account, settings).await,
    }
}

/// Turns an existing container, created for it by `az` for example, into a store. It must have the right settings: an
/// identity of Entra ID that may write documents may do this, but may not change a container.
pub async fn adopt(account: &Account, settings: &Settings) -> Result<Made, OpenError> {
    within(account, settings, check_and_adopt(account, settings)).await
}

async fn check_and_adopt(account: &Account, settings: &Settings) -> Result<Made, OpenError> {
    let failed = |error: CosmosError| OpenError::from_request(account, &error);
    let key_needed = |why: &str| OpenError::KeyNeeded {
        container: account.container().to_owned(),
        why: why.to_owned(),
    };
    let client = client(account, settings).await?;
    let database = client.database_client(account.database().to_owned());
    let container = match database.container_client(account.container().to_owned(), None).await {
        Ok(container) => container,
        Err(error) if error.status().is_not_found() => return Err(key_needed("does not exist")),
        Err(error) => return Err(failed(error)),
    };
    let found = container.read(None).await.map_err(failed)?;
    match flaw(&found.into_model().map_err(failed)?) {
        None => {}
        Some(Flaw::PartitionKey(found)) => {
            return Err(OpenError::WrongPartitionKey {
                container: account.container().to_owned(),
                found,
            });
        }
        Some(Flaw::Repairable(why)) => return Err(key_needed(&format!("is not ready: {why}"))),
    }
    match format::write(account, &container).await? {
        true => Ok(Made::Repaired),
        false => Ok(Made::Nothing),
    }
}

async fn make(account: &Account, throughput: Throughput, settings: &Settings) -> Result<Made, OpenError> {
    let failed = |error: CosmosError| OpenError::from_request(account, &error);
    let client = client(account, settings).await?;
    let created = client.create_database(account.database(), None).await;
    is_new(created).map_err(failed)?;
    let database = client.database_client(account.database().to_owned());
    let mut options = CreateContainerOptions::default();
    match throughput {
        Throughput::Serverless => {}
        Throughput::Manual(units) => options = options.with_throughput(ThroughputProperties::manual(units)),
        Throughput::Autoscale(units) => options = options.with_throughput(ThroughputProperties::autoscale(units, None)),
    }
    let created = database
        .create_container(properties(account.container()), Some(options))
        .await;
    let is_new = is_new(created).map_err(failed)?;
    let container = database.container_client(account.container().to_owned(), None);
    let container = container.await.map_err(failed)?;
    let made = match is_new {
        true => Made::Created,
        false => repair(account, &container).await?,
    };
    format::write(account, &container).await?;
    Ok(made)
}

/// Gives an existing container the settings that it must have.
async fn repair(account: &Account, container: &ContainerClient) -> Result<Made, OpenError> {
    let failed = |error: CosmosError| OpenError::from_request(account, &error);
    let found = container
        .read(None)
        .await
        .map_err(failed)?
        .into_model()
        .map_err(failed)?;
    match flaw(&found) {
        None => Ok(Made::Nothing),
        Some(Flaw::PartitionKey(found)) => Err(OpenError::WrongPartitionKey {
            container: account.container().to_owned(),
            found,
        }),
        Some(Flaw::Repairable(_)) => {
            let mut wanted = properties(account.container());
            wanted.partition_key = found.partition_key;
            container.replace(wanted, None).await.map_err(failed)?;
            Ok(Made::Repaired)
        }
    }
}

/// Whether this call created something, and it did not exist before.
fn is_new<T>(created: azure_data_cosmos::Result<T>) -> azure_data_cosmos::Result<bool> {
    match created {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}
