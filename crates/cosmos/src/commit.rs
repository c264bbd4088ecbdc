//! Commits: one transactional batch each, and never a guess about its outcome.

use crate::core::Core;
use crate::failure::{self, Uncertainty};
use crate::outcome::Outcome;
use crate::prepare::{Action, Prepared};
use azure_core::http::Etag;
use azure_data_cosmos::CosmosError;
use azure_data_cosmos::models::TransactionalBatchOperationResult;
use perennial_store::{Clock, Committed, Error, Result, SystemClock, Version};
use std::time::Duration;

/// How often a batch with an unknown outcome is sent, before the caller gets the error.
const MAX_TRIES: u32 = 2;
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The result of sending a batch.
enum Sent {
    /// Everything happened; the tag of each step that wrote.
    Applied(Vec<Option<Etag>>),
    /// Nothing happened, because of this step.
    Refused { step: usize, status: u16, why: Error },
    /// No reply says what happened.
    Failed(Error),
}

/// The result of a batch, and what is unknown about earlier attempts of it.
struct Reply {
    sent: Sent,
    uncertainty: Uncertainty,
}

impl Core {
    /// Sends a commit until its outcome is known, or cannot be known.
    pub(crate) async fn apply(&self, mut commit: Prepared) -> Result<Committed> {
        // An earlier attempt may have happened: an apparent conflict may be with this commit itself.
        let mut uncertainty = Uncertainty::NONE;
        // A record to be removed was gone then: the attempt may have removed it, or another process.
        let mut gone_in_doubt = false;
        let mut tries = 0;
        while !commit.steps.is_empty() {
            let reply = self.send(&commit).await;
            uncertainty = uncertainty.and(reply.uncertainty);
            let why = match reply.sent {
                Sent::Applied(tags) => return Ok(self.committed(&commit, tags, gone_in_doubt && !commit.changes())),
                Sent::Refused { step, status, why } => match refusal(&mut commit, step, status) {
                    Refusal::Dropped => {
                        gone_in_doubt |= uncertainty.may_have_happened;
                        self.drop_missing(&mut commit).await;
                        continue;
                    }
                    Refusal::Conflict(conflict) if !uncertainty.may_have_happened => return Err(conflict),
                    Refusal::Conflict(conflict) => return self.resolve_conflict(&commit, step, conflict).await,
                    Refusal::Other => why,
                },
                Sent::Failed(why) => why,
            };
            tries += 1;
            if !uncertainty.may_have_happened || tries >= MAX_TRIES || !why.is_transient() {
                return self.give_up(&commit, why, uncertainty).await;
            }
            SystemClock.sleep(FIRST_WAIT * 2_u32.pow(tries)).await;
        }
        // Only removals of records that are not there.
        Ok(self.committed(&commit, Vec::new(), gone_in_doubt))
    }

    /// The condition of a step failed, but an earlier attempt may be the reason.
    async fn resolve_conflict(&self, commit: &Prepared, step: usize, conflict: Error) -> Result<Committed> {
        match self.outcome(commit).await {
            Ok(Outcome::Happened { tags, inferred }) => Ok(self.committed(commit, tags, inferred)),
            // The conflicting record is gone again: it may have been the one that this commit created.
            Ok(Outcome::NoTrace { gone }) if gone.contains(&step) => Err(unknown(&conflict)),
            Ok(Outcome::NoTrace { .. }) => Err(conflict),
            Err(why) => Err(unknown(&why)),
        }
    }

    /// The batch will not be sent again.
    async fn give_up(&self, commit: &Prepared, why: Error, uncertainty: Uncertainty) -> Result<Committed> {
        if !uncertainty.may_have_happened {
            return Err(why);
        }
        match self.outcome(commit).await {
            Ok(Outcome::Happened { tags, inferred }) => Ok(self.committed(commit, tags, inferred)),
            // Every attempt got a reply, and none has left a trace.
            Ok(Outcome::NoTrace { .. }) if !uncertainty.may_happen_yet => Err(why),
            Ok(Outcome::NoTrace { .. }) => Err(unknown(&why)),
            Err(also) => Err(unknown(&also)),
        }
    }

    /// The result of a commit whose steps wrote these tags. A step without a tag was overwritten before it could be read.
    fn committed(&self, commit: &Prepared, tags: Vec<Option<Etag>>, inferred: bool) -> Committed {
        let mut versions = vec![None; commit.ops];
        for (step, tag) in commit.steps.iter().zip(tags) {
            let version = versions.get_mut(step.op).filter(|_| step.writes());
            let Some((version, tag)) = version.zip(tag.map(|tag| tag.to_string())) else {
                continue;
            };
            self.previous_commits.record(&tag, &commit.commit, &step.before);
            *version = Some(Version::text(tag));
        }
        Committed { versions, inferred }
    }

    async fn send(&self, commit: &Prepared) -> Reply {
        let batch = match commit.batch() {
            Ok(batch) => batch,
            Err(error) => return Reply::failed(Error::Invalid(failure::describe(&error)), Uncertainty::NONE),
        };
        let response = match self.container.execute_transactional_batch(batch, None).await {
            Ok(response) => response,
            Err(error) => {
                self.meter.add(commit.operation, error.diagnostics().as_deref());
                let uncertainty = Uncertainty::after_failure(&error);
                return match refused_whole(commit, &error) {
                    Some(sent) => Reply { sent, uncertainty },
                    None => Reply::failed(failure::meaning(&error), uncertainty),
                };
            }
        };
        let diagnostics = response.diagnostics();
        self.meter.add(commit.operation, Some(&diagnostics));
        let uncertainty = Uncertainty::after_reply(&diagnostics);
        let sent = match response.into_model() {
            Ok(model) => read(commit, model.results()),
            Err(error) => {
                let why = format!("the reply to the batch cannot be read: {}", failure::describe(&error));
                return Reply::failed(Error::Unavailable(why), Uncertainty::FULL);
            }
        };
        match sent {
            Sent::Failed(why) => Reply::failed(why, Uncertainty::FULL),
            sent => Reply { sent, uncertainty },
        }
    }
}

impl Reply {
    fn failed(why: Error, uncertainty: Uncertainty) -> Self {
        Self {
            sent: Sent::Failed(why),
            uncertainty,
        }
    }
}

fn unknown(why: &Error) -> Error {
    Error::UnknownOutcome(format!(
        "the reply of Cosmos DB was lost and the outcome of the commit could not be determined: {why}"
    ))
}

enum Refusal {
    /// The step was not needed; the rest is to be sent again.
    Dropped,
    Conflict(Error),
    Other,
}

fn refusal(commit: &mut Prepared, step: usize, status: u16) -> Refusal {
    let Some(found) = commit.steps.get(step) else {
        return Refusal::Other;
    };
    // A batch fails when it deletes a missing document; a removal allows that.
    if status == 404 && matches!(found.action, Action::Remove) {
        commit.steps.remove(step);
        return Refusal::Dropped;
    }
    match found.conflict(status) {
        Some(reason) => Refusal::Conflict(Error::Conflict { op: found.op, reason }),
        None => Refusal::Other,
    }
}

/// The meaning of a failed condition, where the service replies for the whole batch and not operation by operation.
fn refused_whole(commit: &Prepared, error: &CosmosError) -> Option<Sent> {
    let status = u16::from(error.status().status_code());
    let is_detailed = error.status().sub_status().is_some_and(|detail| detail.value() != 0);
    let [only] = commit.steps.as_slice() else {
        return None;
    };
    let is_about_it = status == 404 && matches!(only.action, Action::Remove) || only.conflict(status).is_some();
    (is_about_it && !is_detailed && error.is_from_wire()).then(|| Sent::Refused {
        step: 0,
        status,
        why: failure::meaning(error),
    })
}

/// The meaning of the results of a batch. In a failed batch one result has the reason; the others only say that it
/// failed.
fn read(commit: &Prepared, results: &[TransactionalBatchOperationResult]) -> Sent {
    const FAILED_DEPENDENCY: u16 = 424;
    let mut tags = Vec::with_capacity(commit.steps.len());
    let mut rest = results.iter();
    let mut is_failed = false;
    for (step, planned) in commit.steps.iter().enumerate() {
        for part in 0..planned.width() {
            let Some(result) = rest.next() else {
                return Sent::Failed(Error::Unavailable("the reply to the batch is incomplete".to_owned()));
            };
            let status = result.status_code();
            is_failed |= !result.is_success();
            if !result.is_success() && status != FAILED_DEPENDENCY {
                let detail = result.substatus_code().unwrap_or(0);
                let why = failure::meaning_of_status(status, detail, result.retry_after());
                return Sent::Refused { step, status, why };
            }
            if part == 0 {
                tags.push(
                    result
                        .etag()
                        .filter(|_| planned.writes())
                        .map(|tag| Etag::from(tag.to_owned())),
                );
            }
        }
    }
    match is_failed {
        true => Sent::Failed(Error::Unavailable(
            "the batch failed and no operation says why".to_owned(),
        )),
        false => Sent::Applied(tags),
    }
}
