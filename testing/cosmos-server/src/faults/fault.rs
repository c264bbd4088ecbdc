//! The faults of one request.

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server replies with a failure.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The substatus, 0 for none.
        substatus: u32,
        /// How long the client is told to wait.
        retry_after_ms: Option<u64>,
        /// Whether the request takes effect nevertheless.
        executed: bool,
    },
    /// The request takes effect, and the client never hears of it: its connection breaks.
    LostReply,
    /// The request does not take effect, and the client's connection breaks.
    LostRequest,
    /// The client waits in vain; after this long its connection breaks.
    Hang {
        /// Whether the request takes effect, at once.
        executed: bool,
        /// How long the client waits, unless it gives up sooner.
        for_ms: u64,
    },
    /// All is well, only late. The request takes effect between the two waits.
    Delay {
        /// The wait before it takes effect.
        before_ms: u64,
        /// The wait from then to the reply.
        after_ms: u64,
    },
}

impl Fault {
    /// 429: the container's throughput is used up.
    pub const fn throttled(retry_after_ms: u64) -> Self {
        Self::Answer {
            status: 429,
            substatus: 3200,
            retry_after_ms: Some(retry_after_ms),
            executed: false,
        }
    }

    /// 449: two writes met at one document, try again.
    pub const fn retry_with() -> Self {
        Self::answer(449, 0)
    }

    /// 408: the server ran out of time. The request may have taken effect.
    pub const fn timeout(executed: bool) -> Self {
        Self::Answer {
            status: 408,
            substatus: 0,
            retry_after_ms: None,
            executed,
        }
    }

    /// 410/1002: the partition key range is gone.
    pub const fn range_gone() -> Self {
        Self::answer(410, 1002)
    }

    /// 410/1007: the partition is being split.
    pub const fn splitting() -> Self {
        Self::answer(410, 1007)
    }

    /// 500: something broke in the server.
    pub const fn internal() -> Self {
        Self::answer(500, 0)
    }

    /// 503: the service is unavailable; the request did not take effect.
    pub const fn unavailable() -> Self {
        Self::answer(503, 0)
    }

    /// A failure that did not take effect.
    pub const fn answer(status: u16, substatus: u32) -> Self {
        Self::Answer {
            status,
            substatus,
            retry_after_ms: None,
            executed: false,
        }
    }
}
