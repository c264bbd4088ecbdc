//! Clients of the clouds, as the environment configures them.
//!
//! Credentials come by each cloud's own chain, endpoints by its own variables. Clients give up early, because what is above
//! them tries again and knows for how long that makes sense.

use super::Location;
use crate::OpenError;
use crate::error::brief;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: &str = "3 seconds";
/// How long a request may take: enough for 10 MiB at 4 Mbit/s.
const REQUEST_TIMEOUT: &str = "20 seconds";

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(5),
    }
}

/// The timeouts, unless variables of the environment set others.
fn timeouts(cloud: &str) -> Vec<(ClientConfigKey, &'static str)> {
    let all = [
        (ClientConfigKey::ConnectTimeout, "CONNECT_TIMEOUT", CONNECT_TIMEOUT),
        (ClientConfigKey::Timeout, "TIMEOUT", REQUEST_TIMEOUT),
    ];
    let is_unset = |name: &str| std::env::var_os(format!("{cloud}_{name}")).is_none();
    let unset = all.into_iter().filter(|(_, name, _)| is_unset(name));
    unset.map(|(key, _, value)| (key, value)).collect()
}

/// Whether a client may send requests without encryption: to this machine only.
fn allows_http(location: &Location, endpoint: Option<&str>) -> Result<bool, OpenError> {
    let Some(rest) = endpoint.and_then(|endpoint| endpoint.strip_prefix("http://")) else {
        return Ok(false);
    };
    match is_loopback(rest) {
        true => Ok(true),
        false => Err(bad(
            location,
            "the endpoint in the environment is not encrypted and not on this machine; use \"https:\"",
        )),
    }
}

/// Whether what follows `http://` is on this machine.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_address = |host: &str| {
        host.parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    };
    !authority.contains('@') && (host == "localhost" || is_address(host))
}

fn bad(location: &Location, why: impl Into<String>) -> OpenError {
    OpenError::BadClient {
        place: location.to_string(),
        why: why.into(),
    }
}

fn built<T: ObjectStore>(
    location: &Location,
    client: object_store::Result<T>,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    match client {
        Ok(client) => Ok(Arc::new(client)),
        Err(error) => Err(bad(location, brief(&error))),
    }
}

/// The client of a bucket of S3.
#[cfg(feature = "s3")]
pub(super) fn s3(location: &Location, bucket: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries());
    for (key, value) in timeouts("AWS") {
        builder = builder.with_config(Key::Client(key), value);
    }
    let endpoint = [Key::S3Endpoint, Key::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key));
    let allows_http = allows_http(location, endpoint.as_deref())?;
    built(location, builder.with_allow_http(allows_http).build())
}

/// The client of a container of Azure Blob Storage.
#[cfg(feature = "az")]
pub(super) fn az(location: &Location, account: &str, container: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_account(account)
        .with_container_name(container)
        .with_retry(retries());
    for (key, value) in timeouts("AZURE") {
        builder = builder.with_config(Key::Client(key), value);
    }
    let is_emulator = builder
        .get_config_value(&Key::UseEmulator)
        .is_some_and(|value| value == "true");
    let endpoint = match is_emulator {
        true => std::env::var("AZURITE_BLOB_STORAGE_URL").ok(),
        false => builder.get_config_value(&Key::Endpoint),
    };
    let allows_http = allows_http(location, endpoint.as_deref())?;
    built(location, builder.with_allow_http(allows_http).build())
}

/// The client of a bucket of Google Cloud Storage.
#[cfg(feature = "gs")]
pub(super) fn gs(location: &Location, bucket: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries());
    for (key, value) in timeouts("GOOGLE") {
        builder = builder.with_config(Key::Client(key), value);
    }
    let endpoint = builder.get_config_value(&Key::BaseUrl);
    let allows_http = allows_http(location, endpoint.as_deref())?;
    let key = Key::Client(ClientConfigKey::AllowHttp);
    built(location, builder.with_config(key, allows_http.to_string()).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_machine_is_talked_to_without_encryption() {
        let location = Location::parse("s3://bucket").unwrap();
        for endpoint in ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:9000/x"] {
            assert!(allows_http(&location, Some(endpoint)).unwrap(), "{endpoint}");
        }
        for endpoint in [
            "http://example.com",
            "http://10.0.0.1:9000",
            "http://localhost.example.com",
            "http://127.0.0.1@example.com",
        ] {
            let error = allows_http(&location, Some(endpoint)).unwrap_err();
            assert!(error.to_string().contains("not encrypted"), "{endpoint}");
        }
        for endpoint in [None, Some("https://example.com")] {
            assert!(!allows_http(&location, endpoint).unwrap());
        }
    }
}
