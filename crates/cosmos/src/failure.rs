//! The meaning of a failed request for a caller of the store.

use azure_data_cosmos::CosmosError;
use azure_data_cosmos::diagnostics::DiagnosticsContext;
use perennial_store::Error;
use std::time::Duration;

/// How long to wait where the service demands a pause and does not say how long.
const DEFAULT_PAUSE: Duration = Duration::from_millis(100);

/// The longest part of a message of the service that is passed on.
const MESSAGE_CHARS: usize = 300;

/// There is no such container.
const OWNER_NOT_FOUND: u16 = 1003;
/// The partition has reached its size limit.
const PARTITION_FULL: u16 = 1014;

/// The meaning of a failed request of which nothing happened.
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

/// The meaning of a refusal that no waiting cures.
fn refused(code: u16, detail: u16, describe: impl FnOnce() -> String) -> Error {
    match (code, detail) {
        // The service's own message is not passed on here: it repeats parts of the signature.
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

/// The meaning of the status of one operation of a batch, other than a failed condition.
pub(crate) fn meaning_of_status(code: u16, detail: u32, pause: Option<Duration>) -> Error {
    let detail = u16::try_from(detail).unwrap_or(0);
    let text = format!("Cosmos DB replied {code}/{detail} to an operation of the batch");
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

/// A one-line description that holds no secret.
pub(crate) fn describe(error: &CosmosError) -> String {
    let status = error.status();
    let detail = status.sub_status().map_or(0, |detail| detail.value());
    let message: String = error.to_string().chars().take(MESSAGE_CHARS).collect();
    format!("{}/{detail}: {message}", u16::from(status.status_code()))
}

/// What is unknown about a request that changes something. The SDK retries those by itself, and that cannot be switched
/// off: each attempt may have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uncertainty {
    /// An attempt may have happened without a reply that said so.
    pub(crate) may_have_happened: bool,
    /// One of those never got a reply, and may even happen later.
    pub(crate) may_happen_yet: bool,
}

impl Uncertainty {
    /// Nothing was sent.
    pub(crate) const NONE: Self = Self {
        may_have_happened: false,
        may_happen_yet: false,
    };
    /// Nothing is known.
    pub(crate) const FULL: Self = Self {
        may_have_happened: true,
        may_happen_yet: true,
    };

    /// What is unknown after a reply that gives the result of the last attempt.
    pub(crate) fn after_reply(diagnostics: &DiagnosticsContext) -> Self {
        let mut tries = tries(diagnostics);
        // The last one got a reply, but the connection before it may have failed.
        if let Some(last) = tries.last_mut() {
            last.itself = Self::NONE;
        }
        Self::of(diagnostics, &tries)
    }

    /// What is unknown after a failure.
    pub(crate) fn after_failure(error: &CosmosError) -> Self {
        match error.diagnostics() {
            Some(diagnostics) => Self::of(&diagnostics, &tries(&diagnostics)),
            // Raised on this side, before anything was sent, unless it says that time ran out.
            None if matches!(u16::from(error.status().status_code()), 400..=404 | 429) => Self::NONE,
            None => Self::FULL,
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            may_have_happened: self.may_have_happened || other.may_have_happened,
            may_happen_yet: self.may_happen_yet || other.may_happen_yet,
        }
    }

    fn of(diagnostics: &DiagnosticsContext, tries: &[Try]) -> Self {
        match tries.len() < diagnostics.request_count() {
            true => Self::FULL,
            false => tries.iter().fold(Self::NONE, |uncertainty, one| {
                uncertainty.and(one.itself).and(one.below)
            }),
        }
    }
}

/// One attempt of a request, from the SDK's diagnostics.
struct Try {
    itself: Uncertainty,
    /// Below its own attempts, the SDK tries another connection once.
    below: Uncertainty,
}

fn tries(diagnostics: &DiagnosticsContext) -> Vec<Try> {
    let requests = diagnostics.requests();
    let tries = requests.iter().map(|request| {
        let sent = request.request_sent();
        let is_answered = sent.definitely_sent() && request.error().is_none();
        let says_no = is_refusal(u16::from(request.status().status_code()));
        let mut shards = request.failed_transport_shards().iter();
        Try {
            itself: Uncertainty {
                may_have_happened: sent.may_have_been_sent() && !(is_answered && says_no),
                may_happen_yet: sent.may_have_been_sent() && !is_answered,
            },
            below: match shards.any(|shard| shard.request_sent().may_have_been_sent()) {
                true => Uncertainty::FULL,
                false => Uncertainty::NONE,
            },
        }
    });
    tries.collect()
}

/// Whether this status says that nothing happened.
fn is_refusal(code: u16) -> bool {
    matches!(code, 400..=404 | 409 | 412 | 413 | 429 | 449)
}
