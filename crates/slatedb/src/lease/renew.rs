//! The task that renews a lease, writes what its owner shows, and releases it.

use super::document::{MOST_BYTES, State};
use super::held::Shared;
use super::mutation::mutant;
use super::object::LeaseObject;
use super::writer::{Outcome, Writer};
use super::{Ended, Error, Machine, Settings, Shown};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

/// What the owner wants.
pub(super) enum Command {
    /// To be shown in the lease object.
    Show(Shown, oneshot::Sender<Result<(), Error>>),
    /// To give the lease up.
    Release(oneshot::Sender<Result<(), Error>>),
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many request timeouts a release may take.
const RELEASE_TIMEOUTS: u32 = 3;

pub(super) struct Renewal {
    pub(super) object: Arc<LeaseObject>,
    pub(super) machine: Machine,
    pub(super) settings: Settings,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Writer,
    /// When the last renewal that took effect was sent.
    pub(super) renewed: Duration,
}

/// Ends the lease with the task that renews it, as when its runtime ends.
struct StopGuard(Arc<Shared>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.end(Ended::Stopped);
    }
}

impl Renewal {
    /// Runs until the lease is released or its owner has dropped it.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let _guard = StopGuard(Arc::clone(&self.shared));
        loop {
            let command = tokio::select! {
                biased;
                command = commands.recv() => command,
                () = self.until_renewal() => {
                    self.renew(None).await.ok();
                    continue;
                }
            };
            match command {
                None => return,
                Some(Command::Release(reply)) => {
                    reply.send(self.release().await).ok();
                    return;
                }
                Some(Command::Show(shown, reply)) => {
                    reply.send(self.show(shown).await).ok();
                }
            }
        }
    }

    /// Returns when it is time to renew the lease; never, once it has ended.
    async fn until_renewal(&self) {
        if self.shared.check().is_err() {
            return std::future::pending().await;
        }
        self.machine.sleep_until(self.renewed + self.settings.renew_every).await;
    }

    async fn show(&mut self, shown: Shown) -> Result<(), Error> {
        let mut document = self.writer.document().clone();
        document.shown = shown.clone();
        let bytes = document.encode().map_or(0, |encoded| encoded.len());
        if bytes > MOST_BYTES {
            return Err(Error::TooLarge { bytes });
        }
        Ok(self.renew(Some(shown)).await?)
    }

    /// Renews the lease, with other things to be shown if there are any, or ends it if that cannot be done in time.
    async fn renew(&mut self, shown: Option<Shown>) -> Result<(), Ended> {
        let mut pause = FIRST_PAUSE;
        loop {
            self.shared.check()?;
            let outcome = {
                let mut document = self.writer.document().clone();
                document.shown = shown.clone().unwrap_or(document.shown);
                let (shared, machine) = (Arc::clone(&self.shared), &self.machine);
                let deadline = shared.deadline().unwrap_or_default();
                tokio::select! {
                    biased;
                    outcome = self.writer.write(document) => outcome,
                    ended = shared.ended() => return Err(ended),
                    () = machine.sleep_until(deadline) => Outcome::NotStored("no reply in time".to_owned()),
                }
            };
            match outcome {
                Outcome::Stored { sent } => return self.renewed(sent),
                Outcome::Earlier { sent } => {
                    self.renewed(sent)?;
                    if shown.is_none() {
                        return Ok(());
                    }
                }
                Outcome::Lost(why) => {
                    warn!(bucket = self.object.bucket(), %why, "a lease was lost");
                    self.shared.end(why.clone());
                    return Err(why);
                }
                Outcome::NotStored(why) => {
                    warn!(bucket = self.object.bucket(), why, "a lease could not be renewed yet");
                    metrics::counter!("perennial_lease_renewal_failures_total").increment(1);
                    self.shared.renewal_failed(&why);
                    self.shared.check()?;
                    self.pause(&mut pause).await;
                }
            }
        }
    }

    fn renewed(&mut self, sent: Duration) -> Result<(), Ended> {
        metrics::counter!("perennial_lease_renewals_total").increment(1);
        self.renewed = sent;
        let measured = mutant!(MeasureFromReply, self.machine.now(), sent);
        self.shared.extend(self.settings.deadline(measured));
        self.shared.check()
    }

    /// Waits before the next try, unless the lease ends.
    async fn pause(&self, pause: &mut Duration) {
        tokio::select! {
            _ = self.shared.ended() => {}
            () = self.machine.clock.sleep(*pause) => {}
        }
        *pause = (*pause * 2).min(LONGEST_PAUSE);
    }

    /// Writes that the lease is free, if it is still this owner's.
    async fn release(&mut self) -> Result<(), Error> {
        let until = self.machine.now() + self.settings.request_timeout * RELEASE_TIMEOUTS;
        let mut pause = FIRST_PAUSE;
        loop {
            let mut document = self.writer.document().clone();
            document.state = State::Released;
            match self.writer.write(document).await {
                Outcome::Stored { .. } => {
                    info!(bucket = self.object.bucket(), "a lease was released");
                    return Ok(());
                }
                Outcome::Earlier { .. } => {}
                Outcome::Lost(why) => {
                    debug!(bucket = self.object.bucket(), %why, "a lease was not this process's any more when it was released");
                    return Ok(());
                }
                Outcome::NotStored(why) if self.machine.now() >= until => {
                    let bucket = self.object.bucket();
                    return Err(Error::NotReleased { bucket, why });
                }
                Outcome::NotStored(_) => {
                    self.machine.clock.sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}
