//! The replies of the service to queries and feeds.

mod index;
mod pages;
mod scope;
mod sql;

pub(crate) use pages::Pages;

use crate::Kind;
use crate::call::Call;
use crate::containers::Containers;
use crate::reply::Refusal;
use serde_json::Value;

/// Refuses queries that the gateway refuses.
pub(crate) fn check(call: &Call, containers: &Containers) -> Result<(), Refusal> {
    if call.kind != Kind::Query {
        return Ok(());
    }
    let Some(text) = call.json().and_then(|body| body.get("query")).and_then(Value::as_str) else {
        return Err(Refusal::bad_request("The body of the query has no text in \"query\"."));
    };
    let tokens = sql::tokens(text);
    scope::check(call, &tokens)?;
    let properties = call.container().and_then(|name| containers.properties(&name));
    match properties {
        Some(properties) => index::check(&tokens, &properties),
        None => Ok(()),
    }
}
