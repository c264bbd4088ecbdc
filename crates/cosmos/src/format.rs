//! The format of a container's documents, recorded in one document, so that an older program does not touch what it
//! cannot decode.

use crate::{Account, OpenError};
use azure_data_cosmos::ContainerClient;
use serde::{Deserialize, Serialize};

/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// The partition of data about the whole store. The encoded name of no partition equals it.
const PARTITION: &str = "%store";
const ID: &str = "format";

#[derive(Serialize, Deserialize)]
struct Format {
    id: String,
    partition: String,
    format: u32,
}

/// Fails unless the container is in a format that this program knows.
pub(crate) async fn check(account: &Account, container: &ContainerClient) -> Result<(), OpenError> {
    let not_ready = |why: &str| OpenError::NotReady {
        container: account.container().to_owned(),
        why: why.to_owned(),
    };
    let found = match container.read_item(PARTITION, ID, None).await {
        Ok(found) => found,
        Err(error) if error.status().is_not_found() => return Err(not_ready("its format is not recorded")),
        Err(error) => return Err(OpenError::from_request(account, &error)),
    };
    let format: Format = found.into_model().map_err(|_| not_ready("its format cannot be read"))?;
    match format.format {
        FORMAT => Ok(()),
        found => Err(OpenError::OtherFormat {
            container: account.container().to_owned(),
            found,
            supported: FORMAT,
        }),
    }
}

/// Records the format, unless it is recorded. Returns whether it was not.
#[cfg(feature = "init")]
pub(crate) async fn write(account: &Account, container: &ContainerClient) -> Result<bool, OpenError> {
    let format = Format {
        id: ID.to_owned(),
        partition: PARTITION.to_owned(),
        format: FORMAT,
    };
    match container.create_item(PARTITION, ID, format, None).await {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_conflict() => check(account, container).await.map(|()| false),
        Err(error) => Err(OpenError::from_request(account, &error)),
    }
}
