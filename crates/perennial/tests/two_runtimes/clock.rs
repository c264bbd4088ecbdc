//! Time that passes faster, on any runtime.

use async_trait::async_trait;
use perennial_store::{Clock, SystemClock};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How many seconds pass in one.
const SPEED: u32 = 20;

/// A sleep to be notified of.
pub type Awaited = (Duration, mpsc::Sender<()>);

/// A fast clock, which can report when a sleep of a given length begins.
pub struct Quick {
    began: Instant,
    awaited: Mutex<Option<Awaited>>,
}

impl Quick {
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            awaited: Mutex::default(),
        })
    }

    /// Reports when a sleep of exactly this length begins.
    pub fn tell(&self, awaited: Awaited) {
        *self.awaited.lock().unwrap() = Some(awaited);
    }
}

#[async_trait]
impl Clock for Quick {
    fn now_ms(&self) -> u64 {
        1_800_000_000_000 + (self.began.elapsed() * SPEED).as_millis() as u64
    }

    async fn sleep(&self, duration: Duration) {
        let mut told = false;
        let mut sleep = SystemClock.sleep(duration / SPEED);
        std::future::poll_fn(|context| {
            let polled = sleep.as_mut().poll(context);
            if !std::mem::replace(&mut told, true) {
                let mut awaited = self.awaited.lock().unwrap();
                if let Some((_, tell)) = awaited.take_if(|(wanted, _)| *wanted == duration) {
                    tell.send(()).ok();
                }
            }
            polled
        })
        .await;
    }

    fn outlives_runtime(&self) -> bool {
        true
    }
}
