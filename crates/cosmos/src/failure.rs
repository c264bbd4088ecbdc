//! What a failed request means to a caller of the store.

use azure_data_cosmos::CosmosError;
use azure_data_cosmos::diagnostics::DiagnosticsContext;
use perennial_store::Error;
use std::time::Duration;

/// How long to wait where the service asks for a pause and does not say how long.
const DEFAULT_PAUSE: Duration = Duration::from_millis(100);

/// The longest part of a message of the service that is passed on.
const MESSAGE_CHARS: usize = 300;

/// There is no such container.
const OWNER_NOT_FOUND: u16 = 1003;
/// The partition holds as much as one may.
const PARTITION_FULL: u16 = 1014;

/// What a failed request means, where nothing of it happened.
pub(crate) fn meaning(error: &CosmosError) -> Error {
    let status = error.status();
    let detail = status.sub_status().map_or(0, |detail| detail.value());
    match u16::from(status.status_code()) {
        429 => Error::Throttled {
            retry_after: asked_pause(error),
        },
        code @ (401 | 403 | 404) => refused(code, detail, || describe(error)),
        code @ (400 | 405 | 413) => {
            Error::Invalid(format!("Cosmos DB refuses the request ({code}): {}", describe(error)))
        }
        _ => Error::Unavailable(describe(error)),
    }
}

/// What a refusal means that no waiting mends.
fn refused(code: u16, detail: u16, describe: impl FnOnce() -> String) -> Error {
    match (code, detail) {
        // Nothing of what the service says here is passed on: it repeats parts of the signature.
        (401, _) => Error::Invalid(
            "Cosmos DB does not accept the credentials (401); check that the account key is the account's, or that \
             the identity has a token for it, and that this machine's clock is right"
                .to_owned(),
        ),
        (403, PARTITION_FULL) => Error::Invalid(
            "the partition has reached the size that Cosmos DB allows (20 GB); delete or prune what is in it"
                .to_owned(),
        ),
        (403, _) => Error::Invalid(format!(
            "Cosmos DB forbids the request (403/{detail}); give the identity the role \"Cosmos DB Built-in Data \
             Contributor\" on the account, and check the account's firewall"
        )),
        (_, OWNER_NOT_FOUND | 0) => Error::Invalid(
            "the database or the container does not exist (any more); make it with `perennial cosmos init URL`"
                .to_owned(),
        ),
        _ => Error::Unavailable(describe()),
    }
}

/// What the status of one operation of a batch means, where that is not a condition that failed.
pub(crate) fn meaning_of_status(code: u16, detail: u32, pause: Option<Duration>) -> Error {
    let detail = u16::try_from(detail).unwrap_or(0);
    let text = format!("Cosmos DB answered {code}/{detail} to an operation of the batch");
    match code {
        429 => Error::Throttled {
            retry_after: pause.unwrap_or(DEFAULT_PAUSE),
        },
        401 | 403 => refused(code, detail, || text),
        400 | 413 => Error::Invalid(text),
        _ => Error::Unavailable(text),
    }
}

fn asked_pause(error: &CosmosError) -> Duration {
    let asked = error.response().and_then(|response| response.headers().retry_after_ms);
    asked.map_or(DEFAULT_PAUSE, Duration::from_millis)
}

/// What happened, in a line that holds no secret.
pub(crate) fn describe(error: &CosmosError) -> String {
    let status = error.status();
    let detail = status.sub_status().map_or(0, |detail| detail.value());
    let message: String = error.to_string().chars().take(MESSAGE_CHARS).collect();
    format!("{}/{detail}: {message}", u16::from(status.status_code()))
}

/// Whether the request may have happened although it failed.
pub(crate) fn may_have_happened(error: &CosmosError) -> bool {
    match error.diagnostics() {
        Some(told) => {
            happened_before(&told)
                || told.requests().last().is_some_and(|last| {
                    last.request_sent().may_have_been_sent() && !is_refusal(u16::from(last.status().status_code()))
                })
        }
        // Nothing is known: only what this side made up itself was surely not sent.
        None => !matches!(u16::from(error.status().status_code()), 400 | 401 | 403 | 404 | 429),
    }
}

/// Whether an earlier try of the same request may have happened: the SDK tries writes again, and that cannot be
/// switched off.
pub(crate) fn happened_before(told: &DiagnosticsContext) -> bool {
    let requests = told.requests();
    let Some((last, earlier)) = requests.split_last() else {
        return told.request_count() > 0;
    };
    told.request_count() > requests.len()
        || last.local_shard_retry_count() > 0
        || earlier.iter().any(|request| {
            request.local_shard_retry_count() > 0
                || request.request_sent().may_have_been_sent() && !is_refusal(u16::from(request.status().status_code()))
        })
}

/// Whether this answer says that nothing happened.
fn is_refusal(code: u16) -> bool {
    matches!(code, 400 | 401 | 403 | 404 | 409 | 412 | 413 | 429 | 449)
}
