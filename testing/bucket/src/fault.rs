//! What can go wrong with a request.

use crate::Request;
use object_store::Error;
use std::time::Duration;

/// What goes wrong with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and the store never sees it.
    Fail,
    /// It takes effect, and the reply is lost: the client is told of a connection that broke.
    LoseReply,
    /// The store never sees it, and it never returns.
    Hang,
    /// It takes effect and never returns.
    HangAfter,
    /// It reaches the store so much later.
    Delay(Duration),
    /// It takes effect at once, and returns so much later.
    DelayReply(Duration),
    /// It fails at once, and takes effect so much later: it was stuck somewhere on its way.
    Late(Duration),
    /// The client's own library loses the first reply and repeats the request: the client gets the second reply. A conditional
    /// write that succeeded is then reported as refused.
    Twice,
    /// The store refuses it, because there are too many requests.
    Throttle,
    /// The store refuses it for want of permission.
    Deny,
    /// A listing lacks the objects that were written within this time. Other requests are not harmed.
    StaleList(Duration),
}

impl Fault {
    /// One fault of every kind, for sweeps. Delays are as long as `delay`.
    pub fn all(delay: Duration) -> Vec<Self> {
        vec![
            Self::Fail,
            Self::LoseReply,
            Self::Hang,
            Self::HangAfter,
            Self::Delay(delay),
            Self::DelayReply(delay),
            Self::Late(delay),
            Self::Twice,
            Self::Throttle,
            Self::Deny,
            Self::StaleList(delay),
        ]
    }
}

const STORE: &str = "FaultyBucket";

/// The connection broke, before or after the request took effect: the client cannot tell.
pub(crate) fn broken(request: &Request) -> Error {
    Error::Generic {
        store: STORE,
        source: format!(
            "injected fault: connection reset by peer ({:?} {}, request {})",
            request.method, request.path, request.index
        )
        .into(),
    }
}

/// What the client of S3 returns when its own retries have ended.
pub(crate) fn throttled() -> Error {
    Error::Generic {
        store: STORE,
        source: "injected fault: Server returned non-2xx status code: 503 Service Unavailable: \
                 <Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            .into(),
    }
}

pub(crate) fn denied(request: &Request) -> Error {
    Error::PermissionDenied {
        path: request.path.to_string(),
        source: "injected fault: 403 Forbidden".into(),
    }
}
