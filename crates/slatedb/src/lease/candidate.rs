//! A process that wants to own a shard.

use super::acquire::Acquisition;
use super::held::Former;
use super::object::{Found, LeaseObject, Look};
use super::{Error, Held, Machine, Settings};
use crate::{Bucket, Shard};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

/// How long to wait for a shard that another process owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// About so long. A lease's length is enough to take over from a process that has died, and for rolling deployments. A
    /// lease that runs out within [`Settings::look_every`] after that is still waited for.
    For(Duration),
    /// As long as it takes: a standby. Only a bucket that does not respond to the first requests is an error.
    Forever,
}

/// A process that wants to own a shard. Cheap to clone.
#[derive(Clone)]
pub struct Candidate(Arc<Inner>);

/// What a candidate and its acquisitions share.
pub(super) struct Inner {
    pub(super) object: Arc<LeaseObject>,
    pub(super) settings: Settings,
    pub(super) machine: Machine,
    pub(super) runtime: Runtime,
    pub(super) former: Arc<Former>,
}

/// A lease on its way to the caller. If the caller is gone, the lease is released.
pub(super) struct Delivery(pub(super) Option<Held>);

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.release_in_background();
        }
    }
}

impl Candidate {
    /// A candidate for a shard. All requests are made on the given runtime, whatever becomes of the caller's.
    pub fn new(
        bucket: &Bucket,
        shard: Shard,
        settings: Settings,
        machine: Machine,
        runtime: Runtime,
    ) -> Result<Self, Error> {
        settings.check()?;
        let object = LeaseObject::new(bucket, shard, machine.clone(), settings.request_timeout);
        Ok(Self(Arc::new(Inner {
            object: Arc::new(object),
            settings,
            machine,
            runtime,
            former: Arc::default(),
        })))
    }

    /// Takes the lease as soon as nobody holds it.
    ///
    /// May be dropped: whatever has been written by then is given up again, or runs out by itself if that fails.
    pub async fn acquire(&self, wait: Wait) -> Result<Held, Error> {
        let (reply, outcome) = oneshot::channel();
        let acquisition = Acquisition::new(Arc::clone(&self.0), wait);
        self.0.runtime.spawn(acquisition.run(reply));
        let mut delivery = outcome.await.unwrap_or(Err(Error::Stopped))?;
        delivery.0.take().ok_or(Error::Stopped)
    }

    /// The lease object as it is now, whoever holds it; `None` if there is none. One GET.
    pub async fn look(&self) -> Result<Option<Found>, Error> {
        let object = Arc::clone(&self.0.object);
        let look = self.0.runtime.spawn(async move {
            match object.read(None).await {
                Ok(Look::Found(found)) => Ok(Some(*found)),
                Ok(Look::Absent | Look::Unchanged) => Ok(None),
                Err(failure) => Err(object.error(failure)),
            }
        });
        look.await.unwrap_or(Err(Error::Stopped))
    }
}
