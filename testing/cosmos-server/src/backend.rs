//! Microsoft's emulator, and the replica of it that may lag behind.

use crate::Container;
use crate::call::{Call, header};
use crate::replica::Replica;
use crate::reply::{Refusal, Reply};
use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{Method, Request, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    ContainerConfig, InMemoryEmulatorHttpClient, ReplicationConfig, VirtualAccountConfig, VirtualRegion,
};
use azure_data_cosmos_driver::models::PartitionKeyDefinition;
use bytes::Bytes;
use http::HeaderMap;
use perennial_store::Clock;
use serde_json::Value;
use std::io;
use std::sync::Arc;

const PRIMARY: &str = "East US";
const SECONDARY: &str = "Replica";
/// The address of the replica. Nothing ever connects to it: the emulator distinguishes regions by their address.
const SECONDARY_URL: &str = "http://replica.invalid/";

/// Microsoft's emulator.
pub(crate) struct Backend {
    emulator: InMemoryEmulatorHttpClient,
    endpoint: String,
    replica: Option<Arc<Replica>>,
}

impl Backend {
    /// An empty account at this address, with one replica or two.
    pub fn new(endpoint: &str, with_replica: bool, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut regions = vec![VirtualRegion::new(PRIMARY, url(endpoint)?)];
        if with_replica {
            regions.push(VirtualRegion::new(SECONDARY, url(SECONDARY_URL)?));
        }
        // Replication is immediate or paused as a whole: delays of the emulator's own would apply each document of a
        // batch at another moment.
        let replication = ReplicationConfig::immediate().with_max_buffered_replications(usize::MAX - 1);
        let config = VirtualAccountConfig::new(regions)
            .map_err(io::Error::other)?
            .with_replication_config(replication);
        let emulator = InMemoryEmulatorHttpClient::try_new(config).map_err(io::Error::other)?;
        let replica = with_replica.then(|| Arc::new(Replica::new(emulator.store(), SECONDARY, clock)));
        Ok(Self {
            emulator,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            replica,
        })
    }

    pub fn replica(&self) -> Option<&Arc<Replica>> {
        self.replica.as_ref()
    }

    /// Serves a request from the replica that accepts writes.
    pub async fn execute(&self, call: &Call) -> Reply {
        let _gate = match &self.replica {
            Some(replica) => Some(replica.share().await),
            None => None,
        };
        let reply = self.execute_at(&self.endpoint, call).await;
        if call.segments.is_empty() {
            return self.without_replica(reply);
        }
        reply
    }

    /// Serves a read from whichever replica a gateway might use: the lagging one, unless the request's session token is
    /// ahead of it or it requests the latest state.
    pub async fn read(&self, call: &Call) -> Reply {
        let lagging = self.replica.as_ref().filter(|replica| replica.lags());
        let Some(replica) = lagging.filter(|_| !wants_latest(call)) else {
            return self.execute(call).await;
        };
        replica.stay_within_lag().await;
        let reply = {
            let _gate = replica.share().await;
            self.execute_at(SECONDARY_URL.trim_end_matches('/'), call).await
        };
        if reply.status == 404 && reply.substatus() == 1002 {
            return self.execute(call).await;
        }
        replica.count_answer();
        reply
    }

    pub fn create_container(&self, name: &Container, key: PartitionKeyDefinition, config: ContainerConfig) {
        let store = self.emulator.store();
        store.create_container_with_config(&name.database, &name.container, key, config);
    }

    async fn execute_at(&self, base: &str, call: &Call) -> Reply {
        match self.try_execute(base, call).await {
            Ok(reply) => reply,
            Err(message) => Refusal::new(500, 0, "InternalServerError", message).into(),
        }
    }

    async fn try_execute(&self, base: &str, call: &Call) -> Result<Reply, String> {
        let address = Url::parse(&format!("{base}{}", call.target)).map_err(|error| error.to_string())?;
        let mut request = Request::new(address, method(&call.method)?);
        for (name, value) in &call.headers {
            if let Ok(value) = value.to_str() {
                let name = HeaderName::from(name.as_str().to_owned());
                request.headers_mut().insert(name, HeaderValue::from(value.to_owned()));
            }
        }
        request.set_body(call.body.to_vec());
        let response = self
            .emulator
            .execute_request(&request)
            .await
            .map_err(|error| error.to_string())?;
        let response = response
            .try_into_raw_response()
            .await
            .map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        for (name, value) in response.headers().iter() {
            let name = http::HeaderName::try_from(name.as_str());
            let value = http::HeaderValue::try_from(value.as_str());
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.insert(name, value);
            }
        }
        Ok(Reply {
            status: u16::from(response.status()),
            headers,
            body: Bytes::copy_from_slice(response.body()),
        })
    }

    /// The account as clients see it: one region.
    fn without_replica(&self, mut reply: Reply) -> Reply {
        if self.replica.is_none() {
            return reply;
        }
        let Ok(mut account) = serde_json::from_slice::<Value>(&reply.body) else {
            return reply;
        };
        for list in ["readableLocations", "writableLocations"] {
            if let Some(Value::Array(regions)) = account.get_mut(list) {
                regions.retain(|region| region.get("name").and_then(Value::as_str) != Some(SECONDARY));
            }
        }
        reply.body = account.to_string().into();
        reply
    }
}

fn wants_latest(call: &Call) -> bool {
    let strategy = call.header(header::CONSISTENCY_STRATEGY).unwrap_or_default();
    let level = call.header(header::CONSISTENCY).unwrap_or_default();
    ["LatestCommitted", "GlobalStrong"]
        .iter()
        .any(|latest| strategy.eq_ignore_ascii_case(latest))
        || ["Strong", "BoundedStaleness"]
            .iter()
            .any(|latest| level.eq_ignore_ascii_case(latest))
}

fn url(text: &str) -> io::Result<Url> {
    Url::parse(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn method(method: &http::Method) -> Result<Method, String> {
    match method.as_str() {
        "GET" => Ok(Method::Get),
        "POST" => Ok(Method::Post),
        "PUT" => Ok(Method::Put),
        "PATCH" => Ok(Method::Patch),
        "DELETE" => Ok(Method::Delete),
        "HEAD" => Ok(Method::Head),
        other => Err(format!("the emulator does not know the method {other}")),
    }
}
