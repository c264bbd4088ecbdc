//! Opening a store.

use crate::container::{Flaw, flaw};
use crate::core::Core;
use crate::settings::{Consistency, Timing};
use crate::{Account, CosmosStore, OpenError, Settings, format, identity};
use azure_data_cosmos::options::{
    BinaryEncodingOptions, ConnectionPoolOptions, EndToEndOperationLatencyPolicy, OperationOptions,
    ReadConsistencyStrategy, Region, ServerCertificateValidation, UserAgentSuffix,
};
use azure_data_cosmos::{ContainerClient, CosmosClient, CosmosError, CosmosRuntime, RoutingStrategy};
use futures::future::{Either, select};
use perennial_store::{Clock, Error, SystemClock};
use std::pin::pin;

/// Opening makes several requests.
const OPENING_CALLS: u32 = 4;

/// Opens the store in a container that [`init`](crate::init) has created, and verifies its settings.
pub async fn open(account: Account, settings: Settings) -> Result<CosmosStore, OpenError> {
    let container = within(&account, &settings, connect(&account, &settings)).await?;
    Ok(CosmosStore::new(
        Core::new(container, Timing::of(&settings)),
        settings.counters_interval,
    ))
}

async fn connect(account: &Account, settings: &Settings) -> Result<ContainerClient, OpenError> {
    let failed = |error: CosmosError| OpenError::from_request(account, &error);
    let database = client(account, settings)
        .await?
        .database_client(account.database().to_owned());
    let container = database.container_client(account.container().to_owned(), None);
    let container = container.await.map_err(failed)?;
    let properties = container.read(None).await.map_err(failed)?;
    let properties = properties.into_model().map_err(failed)?;
    match flaw(&properties) {
        None => {
            format::check(account, &container).await?;
            Ok(container)
        }
        Some(Flaw::PartitionKey(found)) => Err(OpenError::WrongPartitionKey {
            container: account.container().to_owned(),
            found,
        }),
        Some(Flaw::Repairable(why)) => Err(OpenError::NotReady {
            container: account.container().to_owned(),
            why,
        }),
    }
}

/// Limits the time of an open: the SDK waits long for an account that does not reply.
pub(crate) async fn within<T>(
    account: &Account,
    settings: &Settings,
    work: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let limit = settings.call_timeout * OPENING_CALLS;
    match select(pin!(work), pin!(SystemClock.sleep(limit))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(account.failed(Error::Unavailable(format!(
            "there was no reply within {} s",
            limit.as_secs()
        )))),
    }
}

/// A client of the account. Each has its own connections, so that it lives as long as the runtime that opened it.
pub(crate) async fn client(account: &Account, settings: &Settings) -> Result<CosmosClient, OpenError> {
    let failed = |error: CosmosError| OpenError::from_request(account, &error);
    let access = identity::Access::find(account)?;
    let validation = match settings.trust_local_emulator && account.is_local() {
        true => ServerCertificateValidation::RequiredUnlessEmulator,
        false => ServerCertificateValidation::Required,
    };
    let pool = ConnectionPoolOptions::builder().with_server_certificate_validation(validation);
    let runtime = CosmosRuntime::builder().with_connection_pool(pool.build().map_err(failed)?);
    let regions = settings
        .preferred_regions
        .iter()
        .map(|region| Region::from(region.clone()));
    let mut builder = CosmosClient::builder()
        .with_runtime(runtime.build().await.map_err(failed)?)
        .with_default_operation_options(options(settings))
        // Batches are text anyway, and not every emulator knows the binary form.
        .with_binary_encoding_options(BinaryEncodingOptions::new().with_enabled(false));
    if let Ok(suffix) = UserAgentSuffix::try_from("perennial") {
        builder = builder.with_user_agent_suffix(suffix);
    }
    builder
        .build(access.reference, RoutingStrategy::PreferredRegions(regions.collect()))
        .await
        .map_err(|error| {
            let no_credentials = access.chain.and_then(|chain| chain.failure());
            no_credentials.unwrap_or_else(|| failed(error))
        })
}

fn options(settings: &Settings) -> OperationOptions {
    let mut options = OperationOptions::default();
    options.end_to_end_latency_policy = Some(EndToEndOperationLatencyPolicy::new(settings.call_timeout));
    options.read_consistency_strategy = match settings.consistency {
        Consistency::Account => None,
        Consistency::Session => Some(ReadConsistencyStrategy::Session),
        Consistency::LatestCommitted => Some(ReadConsistencyStrategy::LatestCommitted),
    };
    options
}
