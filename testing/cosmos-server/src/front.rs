//! The path of a request: wait, check, inject a fault, serve, count.

use crate::auth::MasterKey;
use crate::backend::Backend;
use crate::call::{Call, header};
use crate::containers::Containers;
use crate::counting::{Entry, Meter, price};
use crate::faults::{Fault, Faults};
use crate::latency::Delays;
use crate::queries::Pages;
use crate::reply::{Refusal, Reply};
use crate::ttl::Lifetimes;
use crate::{Kind, Options, ids, numbers, queries, ttl};
use perennial_store::{Clock, SystemClock};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The strict front, and the emulator behind it.
pub(crate) struct Front {
    strict: bool,
    partitions: u32,
    key: MasterKey,
    clock: Arc<dyn Clock>,
    backend: Backend,
    containers: Containers,
    lifetimes: Lifetimes,
    pages: Pages,
    pub delays: Delays,
    pub faults: Faults,
    pub meter: Meter,
}

impl Front {
    pub fn new(options: &Options, endpoint: &str, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Ok(Self {
            strict: options.strict,
            partitions: options.partitions.max(1),
            key: MasterKey::decode(&options.key)?,
            backend: Backend::new(endpoint, options.replica, clock.clone())?,
            clock,
            containers: Containers::default(),
            lifetimes: Lifetimes::default(),
            pages: Pages::new(options),
            delays: Delays::new(options.latency, options.seed),
            faults: Faults::default(),
            meter: Meter::new(options.log),
        })
    }

    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Serves a request. `None` means that the client's connection is to break.
    pub async fn handle(&self, call: Call) -> Option<Reply> {
        let started_ms = self.clock.now_ms();
        self.delays.wait(self.clock.as_ref()).await;
        let container = call.container();
        let admitted = match self.strict {
            // The signature is made with the machine's clock, whatever clock the documents live by.
            true => self.key.check(&call, SystemClock.now_ms()),
            false => Ok(()),
        };
        let (outcome, fault) = match admitted {
            Ok(()) => {
                let fault = self.faults.next(call.kind, container.as_ref());
                (self.serve_or_fail(&call, fault).await, fault)
            }
            Err(refusal) => (Outcome::answered(refusal.into(), 0.0), None),
        };
        self.meter.record(Entry {
            number: 0,
            method: call.method.to_string(),
            kind: call.kind,
            container,
            partition: call.header(header::PARTITION_KEY).map(str::to_owned),
            id: call.id().unwrap_or(&call.target).to_owned(),
            status: outcome.reply.as_ref().map_or(0, |reply| reply.status),
            substatus: outcome.reply.as_ref().map_or(0, Reply::substatus),
            ru: outcome.ru,
            ms: self.clock.now_ms().saturating_sub(started_ms),
            fault,
        });
        // Counted before a hang, not after: a test may read the counts while the client still waits.
        if outcome.wait_ms > 0 {
            self.sleep(outcome.wait_ms).await;
        }
        outcome.reply.map(|reply| reply.answering(&call))
    }

    async fn serve_or_fail(&self, call: &Call, fault: Option<Fault>) -> Outcome {
        match fault {
            None => self.serve(call).await,
            Some(Fault::Answer {
                status,
                substatus,
                retry_after_ms,
                executed,
            }) => {
                let ru = if executed { self.serve(call).await.ru } else { 0.0 };
                Outcome::answered(failure(status, substatus, retry_after_ms), ru)
            }
            Some(Fault::LostReply) => self.serve(call).await.unanswered(),
            Some(Fault::LostRequest) => Outcome::lost(0.0),
            Some(Fault::Hang { executed, for_ms }) => {
                let ru = if executed { self.serve(call).await.ru } else { 0.0 };
                Outcome {
                    wait_ms: for_ms,
                    ..Outcome::lost(ru)
                }
            }
            Some(Fault::Delay { before_ms, after_ms }) => {
                self.sleep(before_ms).await;
                let outcome = self.serve(call).await;
                self.sleep(after_ms).await;
                outcome
            }
        }
    }

    async fn sleep(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    async fn serve(&self, call: &Call) -> Outcome {
        if let Err(refusal) = self.check(call) {
            return Outcome::answered(refusal.into(), 0.0);
        }
        let mut reply = self.execute(call).await;
        let ru = price::charge(call, &mut reply, self.partitions);
        Outcome::answered(reply, ru)
    }

    fn check(&self, call: &Call) -> Result<(), Refusal> {
        if !self.strict {
            return Ok(());
        }
        ids::check(call, &self.containers)?;
        numbers::check(call)?;
        ttl::check(call)?;
        queries::check(call, &self.containers)
    }

    async fn execute(&self, call: &Call) -> Reply {
        if call.kind == Kind::Metadata {
            return self.containers.serve(call, &self.backend, self.partitions).await;
        }
        if !self.strict {
            return match call.kind.is_read() {
                true => self.backend.read(call).await,
                false => self.backend.execute(call).await,
            };
        }
        self.lifetimes.purge(call, &self.backend, self.clock.now_ms()).await;
        if call.kind.is_paged() {
            return self.pages.serve(call, &self.backend).await;
        }
        if call.kind == Kind::Read {
            return self.backend.read(call).await;
        }
        let reply = self.backend.execute(call).await;
        self.lifetimes
            .learn(call, &reply, &self.containers, self.clock.now_ms());
        reply
    }
}

/// The outcome of a request.
struct Outcome {
    reply: Option<Reply>,
    ru: f64,
    /// How long the connection stays open before it breaks.
    wait_ms: u64,
}

impl Outcome {
    fn answered(reply: Reply, ru: f64) -> Self {
        Self {
            reply: Some(reply),
            ru,
            wait_ms: 0,
        }
    }

    fn lost(ru: f64) -> Self {
        Self {
            reply: None,
            ru,
            wait_ms: 0,
        }
    }

    fn unanswered(self) -> Self {
        Self::lost(self.ru)
    }
}

fn failure(status: u16, substatus: u32, retry_after_ms: Option<u64>) -> Reply {
    let code = match status {
        408 => "RequestTimeout",
        410 => "Gone",
        429 => "TooManyRequests",
        449 => "RetryWith",
        503 => "ServiceUnavailable",
        _ => "InternalServerError",
    };
    let message = "A fault of the test server, made on purpose.";
    let mut reply = Reply::from(Refusal::new(status, substatus, code, message));
    if let Some(wait_ms) = retry_after_ms {
        reply.set_header(header::RETRY_AFTER, &wait_ms.to_string());
    }
    reply
}
