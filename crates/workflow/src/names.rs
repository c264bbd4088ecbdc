//! How long the id of an instance may be: everything that is named after it must fit into the store, too.
//!
//! | record | bytes of its key |
//! |---|---|
//! | messages, activities, pages and all others of an instance | its id, and less than [`AROUND`] |
//! | the listing of an instance under its parent | both ids, and less than [`AROUND`] |
//!
//! A child is named after its parent unless the workflow names it, so its id is longer by a [`GENERATION`]. The longest id that
//! a client may start leaves room for [`GENERATIONS`] of them.

use crate::workflows::Workflows;
use duroxide::providers::{ProviderError, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails};
use perennial_store::{Error, Limits, Result};

/// What is added to ids in the longest key.
const AROUND: usize = 256;
/// What the runtime adds to the id of a parent for that of a child: `::sub::<execution>_<event>`.
const GENERATION: usize = 48;
/// How many generations of children always have room.
const GENERATIONS: usize = 16;
/// The longest key on any store: what runs in memory must run on disk.
const LONGEST_KEY: usize = 65_535;

impl Workflows {
    /// The longest id that an instance may be started with, in bytes. Children that the runtime names after it have room for
    /// 16 generations; a child whose id would be too long fails, and its parent gets the failure.
    pub fn longest_instance_id(&self) -> usize {
        longest(&self.engine().store.limits())
    }
}

fn key_limit(limits: &Limits) -> usize {
    limits.bytes_per_key.min(LONGEST_KEY)
}

/// The longest id that a client may start.
pub fn longest(limits: &Limits) -> usize {
    key_limit(limits).saturating_sub(AROUND + (2 * GENERATIONS - 1) * GENERATION) / 2
}

/// The bytes that an id takes in a key.
fn stored(id: &str) -> usize {
    id.len() + id.bytes().filter(|byte| *byte == 0).count()
}

/// Whether a child of this parent, if it has one, can be stored.
fn fits(limits: &Limits, parent: Option<&str>, child: &str) -> bool {
    stored(child) + parent.map_or(0, stored) + AROUND <= key_limit(limits)
}

fn too_long(actual: usize, limit: usize) -> Error {
    Error::TooLarge {
        what: "the id of the instance in bytes",
        actual,
        limit,
    }
}

/// Refuses to start an instance from outside whose id leaves no room for the names derived from it.
pub fn check(operation: &'static str, limits: &Limits, item: &WorkItem) -> Result<(), ProviderError> {
    let WorkItem::StartOrchestration {
        instance,
        parent_instance,
        ..
    } = item
    else {
        return Ok(());
    };
    let (actual, limit) = (stored(instance), longest(limits));
    let allowed = match parent_instance {
        None => actual <= limit,
        Some(parent) => fits(limits, Some(parent), instance),
    };
    match allowed {
        true => Ok(()),
        false => Err(ProviderError::permanent(
            operation,
            format!(
                "the id of the instance takes {actual} bytes, and at most {limit} leave room for what is named after it: choose a \
                 shorter one"
            ),
        )),
    }
}

/// A message that a turn sends, or its replacement: the start of a child whose id is too long becomes the failure of that
/// child. A detached start with such an id is refused, and the turn with it.
pub fn possible(limits: &Limits, item: WorkItem) -> Result<WorkItem> {
    let WorkItem::StartOrchestration {
        instance,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &item
    else {
        return Ok(item);
    };
    if fits(limits, parent_instance.as_deref(), instance) {
        return Ok(item);
    }
    let room = key_limit(limits).saturating_sub(AROUND + parent_instance.as_deref().map_or(0, stored));
    let error = too_long(stored(instance), room);
    match (parent_instance, parent_id) {
        (Some(parent), Some(parent_id)) => Ok(WorkItem::SubOrchFailed {
            parent_instance: parent.clone(),
            parent_execution_id: parent_execution_id.unwrap_or(duroxide::INITIAL_EXECUTION_ID),
            parent_id: *parent_id,
            details: ErrorDetails::Application {
                kind: AppErrorKind::OrchestrationFailed,
                message: format!("the sub-orchestration could not be started: {error}"),
                retryable: false,
            },
        }),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(instance: usize, parent: Option<usize>) -> WorkItem {
        WorkItem::StartOrchestration {
            instance: "c".repeat(instance),
            orchestration: "Flow".to_owned(),
            input: String::new(),
            version: None,
            parent_instance: parent.map(|length| "p".repeat(length)),
            parent_id: parent.map(|_| 7),
            parent_execution_id: parent.map(|_| 3),
            execution_id: 1,
        }
    }

    const LIMITS: Limits = Limits {
        bytes_per_key: 8_192,
        ..Limits::NONE
    };

    #[test]
    fn a_start_that_is_allowed_has_room_for_generations_and_one_byte_more_is_refused() {
        for limits in [LIMITS, Limits::NONE] {
            let longest = longest(&limits);
            assert!(check("start", &limits, &start(longest, None)).is_ok());
            let refused = check("start", &limits, &start(longest + 1, None)).unwrap_err();
            assert!(
                !refused.is_retryable() && refused.message.contains(&longest.to_string()),
                "{refused}"
            );
            let mut parent = longest;
            for generation in 0..GENERATIONS {
                let child = start(parent + GENERATION, Some(parent));
                assert_eq!(
                    possible(&limits, child.clone()).unwrap(),
                    child,
                    "generation {generation}"
                );
                parent += GENERATION;
            }
        }
        assert_eq!((longest(&LIMITS), longest(&Limits::NONE)), (3_224, 31_895));
    }

    #[test]
    fn a_child_that_is_too_long_fails_and_one_byte_less_does_not() {
        let most = 8_192 - AROUND - 1_000;
        let fine = start(most, Some(1_000));
        assert_eq!(possible(&LIMITS, fine.clone()).unwrap(), fine);
        let WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            parent_id,
            details,
        } = possible(&LIMITS, start(most + 1, Some(1_000))).unwrap()
        else {
            panic!("it should have failed");
        };
        assert_eq!((parent_instance.len(), parent_execution_id, parent_id), (1_000, 3, 7));
        assert!(details.display_message().contains(&most.to_string()), "{details:?}");
        assert!(!details.is_retryable());
    }

    #[test]
    fn a_start_that_nobody_waits_for_is_refused_when_it_cannot_be_stored() {
        let most = 8_192 - AROUND;
        assert!(possible(&LIMITS, start(most, None)).is_ok());
        assert!(matches!(
            possible(&LIMITS, start(most + 1, None)),
            Err(Error::TooLarge { .. })
        ));
    }

    #[test]
    fn a_nul_counts_twice() {
        assert_eq!(stored("a\0b\0"), 6);
    }
}
