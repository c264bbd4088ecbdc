//! Whether a store takes requests and, if not, why and since when.

use std::fmt;
use tokio::sync::watch;

/// Why a store stopped, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What happened, for people.
    pub why: String,
    /// When it happened, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// Whether a store takes requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It does.
    #[default]
    Working,
    /// A write failed. How much of it is stored is unknown, so the store takes no more commits until it is opened
    /// again.
    Broken(Outage),
    /// Another process has taken over. The store does not recover by itself.
    Fenced(Outage),
    /// Its owner closed it.
    Closed,
}

impl Health {
    /// Whether the store takes requests.
    pub fn is_working(&self) -> bool {
        *self == Self::Working
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Working => f.write_str("the store works"),
            Self::Broken(outage) => write!(f, "the store broke: {}", outage.why),
            Self::Fenced(outage) => write!(f, "another process has taken over the store: {}", outage.why),
            Self::Closed => f.write_str("the store was closed"),
        }
    }
}

/// Reports the health of a store, and waits for it to stop.
#[derive(Clone, Debug)]
pub struct HealthWatch(Option<watch::Receiver<Health>>);

impl HealthWatch {
    /// The watch of a store that cannot break: [`HealthWatch::stopped`] never returns.
    pub fn always_working() -> Self {
        Self(None)
    }

    /// The current health of the store.
    pub fn now(&self) -> Health {
        self.0
            .as_ref()
            .map_or(Health::Working, |receiver| receiver.borrow().clone())
    }

    /// Whether the store takes requests now.
    pub fn is_working(&self) -> bool {
        self.0.as_ref().is_none_or(|receiver| receiver.borrow().is_working())
    }

    /// Waits until the store takes no more requests, and returns why.
    pub async fn stopped(&mut self) -> Health {
        let Some(receiver) = &mut self.0 else {
            return std::future::pending().await;
        };
        match receiver.wait_for(|health| !health.is_working()).await {
            Ok(health) => health.clone(),
            // The store was dropped.
            Err(_) => Health::Closed,
        }
    }
}

/// The reporting end, for stores.
#[derive(Debug, Default)]
pub struct HealthReporter(watch::Sender<Health>);

impl HealthReporter {
    /// A new watch.
    pub fn watch(&self) -> HealthWatch {
        HealthWatch(Some(self.0.subscribe()))
    }

    /// Reports that the store stopped. The first report stands: what follows a failure is not its cause.
    pub fn stop(&self, health: Health) {
        self.0.send_if_modified(|current| {
            let is_first = current.is_working();
            if is_first {
                *current = health;
            }
            is_first
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn broken(why: &str) -> Health {
        Health::Broken(Outage {
            why: why.to_owned(),
            since_ms: 7,
        })
    }

    #[test]
    fn the_first_report_stands() {
        let reporter = HealthReporter::default();
        let mut watch = reporter.watch();
        assert!(watch.is_working() && watch.stopped().now_or_never().is_none());
        reporter.stop(broken("the disk is full"));
        reporter.stop(Health::Closed);
        assert_eq!(watch.now(), broken("the disk is full"));
        assert_eq!(watch.stopped().now_or_never(), Some(broken("the disk is full")));
    }

    #[test]
    fn a_store_that_is_dropped_has_stopped() {
        let reporter = HealthReporter::default();
        let mut watch = reporter.watch();
        drop(reporter);
        assert_eq!(watch.stopped().now_or_never(), Some(Health::Closed));
    }
}
