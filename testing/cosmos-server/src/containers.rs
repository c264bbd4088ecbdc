//! The containers, as far as the front knows them, and their creation.

use crate::Container;
use crate::backend::Backend;
use crate::call::{Call, header};
use crate::reply::Reply;
use azure_data_cosmos_driver::in_memory_emulator::ContainerConfig;
use azure_data_cosmos_driver::models::PartitionKeyDefinition;
use bytes::Bytes;
use http::Method;
use parking_lot::RwLock;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The containers. All of them are created through the front, so it knows them all.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    properties: RwLock<HashMap<Container, Arc<Value>>>,
    /// One change of databases or containers at a time: creating one takes several steps.
    changing: tokio::sync::Mutex<()>,
}

impl Containers {
    /// The properties of a container, as its owner gave them.
    pub fn properties(&self, name: &Container) -> Option<Arc<Value>> {
        self.properties.read().get(name).cloned()
    }

    /// The version of the hash of its partition key. A container that says nothing has the first.
    pub fn key_version(&self, name: &Container) -> u64 {
        let Some(properties) = self.properties(name) else {
            return 2;
        };
        let version = properties.pointer("/partitionKey/version");
        version.and_then(Value::as_u64).unwrap_or(1)
    }

    /// Serves a request about databases and containers, and remembers its effect.
    pub async fn serve(&self, call: &Call, backend: &Backend, partitions: u32) -> Reply {
        if call.method == Method::GET {
            return backend.execute(call).await;
        }
        let _one = self.changing.lock().await;
        if creates_container(call) {
            return self.create(call, backend, partitions).await;
        }
        let reply = backend.execute(call).await;
        if reply.is_success() {
            self.learn(call);
        }
        reply
    }

    fn learn(&self, call: &Call) {
        match (&call.method, call.segments.as_slice()) {
            (&Method::PUT, [_, database, colls, container]) if colls == "colls" => {
                self.remember(Container::new(database, container), call.json());
            }
            (&Method::DELETE, [_, database, colls, container]) if colls == "colls" => {
                self.properties.write().remove(&Container::new(database, container));
            }
            (&Method::DELETE, [dbs, database]) if dbs == "dbs" => {
                self.properties.write().retain(|name, _| name.database != *database);
            }
            _ => {}
        }
    }

    fn remember(&self, name: Container, properties: Option<&Value>) {
        if let Some(properties) = properties {
            self.properties.write().insert(name, Arc::new(properties.clone()));
        }
    }

    /// Creates a container with as many physical partitions as we like.
    ///
    /// The emulator's own way always makes four; its test hook makes any number, but forgets all properties. So: the
    /// hook, then a replacement with the properties. Whatever is not in order goes the emulator's way, to be refused.
    async fn create(&self, call: &Call, backend: &Backend, partitions: u32) -> Reply {
        let Some((name, key, config)) = self.plan(call, backend, partitions).await else {
            let reply = backend.execute(call).await;
            if reply.is_success()
                && let Some(name) = new_name(call)
            {
                self.remember(name, call.json());
            }
            return reply;
        };
        backend.create_container(&name, key, config);
        let mut reply = backend.execute(&replacement(call, &name)).await;
        if reply.is_success() {
            self.remember(name, call.json());
            reply.status = 201;
            if call
                .header(header::PREFER)
                .is_some_and(|prefer| prefer.contains("return=minimal"))
            {
                reply.body = Bytes::new();
            }
        }
        reply
    }

    /// What to create, if the request is valid.
    async fn plan(
        &self,
        call: &Call,
        backend: &Backend,
        partitions: u32,
    ) -> Option<(Container, PartitionKeyDefinition, ContainerConfig)> {
        let name = new_name(call)?;
        let body = call.json()?;
        // Unique keys cannot be added by a replacement.
        if body.get("uniqueKeyPolicy").is_some_and(|policy| !policy.is_null()) {
            return None;
        }
        let key = serde_json::from_value(body.get("partitionKey")?.clone()).ok()?;
        let mut config = ContainerConfig::new().with_partition_count(partitions);
        if let Some(throughput) = call
            .header(header::THROUGHPUT)
            .and_then(|text| text.trim().parse().ok())
        {
            config = config.with_throughput(throughput);
        }
        let config = config.build().ok()?;
        let database = Call::new(
            Method::GET,
            &format!("/dbs/{}", encoded(&name.database)),
            call.headers.clone(),
            Bytes::new(),
        );
        if !backend.execute(&database).await.is_success() {
            return None;
        }
        let existing = Call::new(Method::GET, &target(&name), call.headers.clone(), Bytes::new());
        (backend.execute(&existing).await.status == 404).then_some((name, key, config))
    }
}

fn creates_container(call: &Call) -> bool {
    let [dbs, _, colls] = call.segments.as_slice() else {
        return false;
    };
    let is_query = call.says("x-ms-documentdb-isquery") || call.says("x-ms-documentdb-query");
    dbs == "dbs" && colls == "colls" && call.method == Method::POST && !is_query
}

fn new_name(call: &Call) -> Option<Container> {
    let database = call.segments.get(1)?;
    let container = call.json()?.get("id")?.as_str()?;
    Some(Container::new(database, container))
}

fn replacement(call: &Call, name: &Container) -> Call {
    Call::new(Method::PUT, &target(name), call.headers.clone(), call.body.clone())
}

fn target(name: &Container) -> String {
    format!("/dbs/{}/colls/{}", encoded(&name.database), encoded(&name.container))
}

/// One segment of a path.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
