//! Reading one record.

use crate::core::Core;
use crate::{failure, names};
use perennial_store::{Error, Key, Record, Result};
use serde_json::value::RawValue;

impl Core {
    /// One point read.
    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let partition = names::partition(key.partition.as_str()).encoded;
        let id = names::id(key.id.as_str()).encoded;
        let response = match self.container.read_item(partition, &id, None).await {
            Ok(response) => response,
            Err(error) if is_missing(&error) => {
                self.meter.add("get", error.diagnostics().as_deref());
                return Ok(None);
            }
            Err(error) => return Err(self.failed("get", &error)),
        };
        self.meter.add("get", Some(&response.diagnostics()));
        let json: Box<RawValue> = response.into_model().map_err(|error| {
            Error::Corrupt(format!(
                "the record {key} cannot be read: {}",
                failure::describe(&error)
            ))
        })?;
        let record = self.read(&json, true)?;
        match record.key == *key {
            true => Ok(Some(record)),
            false => Err(Error::Corrupt(format!(
                "under {key} there is the record {}",
                record.key
            ))),
        }
    }
}

/// Whether the document is missing, and not the whole container.
fn is_missing(error: &azure_data_cosmos::CosmosError) -> bool {
    let status = error.status();
    let detail = status.sub_status().map_or(0, |detail| detail.value());
    u16::from(status.status_code()) == 404 && detail == 0
}
