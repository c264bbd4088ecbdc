//! Why a store in a bucket could not be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// How much of an object store's own message is repeated.
const MESSAGE_LENGTH: usize = 400;

/// Why a store in a bucket could not be opened. Nothing in the bucket was changed in a way that matters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be used.
    #[error("\"{scheme}:…\" is not a store's URL: {why}")]
    BadUrl {
        /// Its scheme, if that is a known one; the rest may hold a secret and is not repeated.
        scheme: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
    /// The program was built without the client of this object store.
    #[error("this program was built without \"{scheme}:\" stores; build perennial with the feature \"{feature}\"")]
    NotBuilt {
        /// The scheme of the URL.
        scheme: &'static str,
        /// The feature that brings the client.
        feature: &'static str,
    },
    /// The environment does not describe a client of the object store.
    #[error("no client for {place} could be made: {why}")]
    BadClient {
        /// The store.
        place: String,
        /// What is wrong, and with which variable.
        why: String,
    },
    /// The object store does not know this program, or does not let it in.
    #[error(
        "the object store refused this program at {place}: {why}; check that its credentials are right and not expired, \
         and that they may read, write, list and delete objects there"
    )]
    Denied {
        /// The store.
        place: String,
        /// What the object store said.
        why: String,
    },
    /// The bucket or container does not exist.
    #[error("there is no bucket or container for {place}: {why}; create it, or name another one")]
    NoBucket {
        /// The store.
        place: String,
        /// What the object store said.
        why: String,
    },
    /// The object store could not be reached, or failed.
    #[error(
        "the object store of {place} failed: {why}; check the network, the endpoint and the region, and that credentials \
         are configured, then open the store again: nothing is lost"
    )]
    Unavailable {
        /// The store.
        place: String,
        /// What happened.
        why: String,
    },
    /// The object store does not do what ownership and durability rest on.
    #[error(
        "the object store of {place} cannot hold a store of this program: {why}; use one with conditional writes \
         (S3, Azure Blob Storage, Google Cloud Storage, and compatible servers of recent versions)"
    )]
    NoConditions {
        /// The store.
        place: String,
        /// Which promise was broken.
        why: String,
    },
    /// The prefix holds something else.
    #[error(
        "{place} holds objects, but no store of this program (found {found:?}); nothing was changed, name a prefix that \
         is not used"
    )]
    NotAStore {
        /// The store.
        place: String,
        /// One of the objects.
        found: String,
    },
    /// A newer program wrote the store.
    #[error(
        "the store at {place} has format {found}, this program knows formats up to {supported}; nothing was changed, use \
         the newer version of the program"
    )]
    NewerFormat {
        /// The store.
        place: String,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        supported: u32,
    },
    /// A release of SlateDB wrote the store that the one in this program cannot read.
    #[error(
        "the store at {place} was written by SlateDB {found}, this program has SlateDB {ours}, which reads adjacent \
         releases only; nothing was changed, upgrade or go back one release at a time"
    )]
    Release {
        /// The store.
        place: String,
        /// The release that wrote it.
        found: String,
        /// The release in this program.
        ours: String,
    },
    /// Another process, or another handle of this one, has the directory open.
    #[error(
        "the store at {path:?} is open {}; close that one first, or give this program a directory of its own",
        open_where(*process)
    )]
    Locked {
        /// The store.
        path: PathBuf,
        /// The process that has it open, if that is known.
        process: Option<u32>,
    },
    /// Another process opened the database at the same time.
    #[error("another process opened the store at {place} at the same time; open it again, or leave it to that process")]
    Fenced {
        /// The store.
        place: String,
    },
    /// The lease could not be acquired.
    #[error(transparent)]
    Lease(#[from] crate::lease::Error),
    /// Objects of the store are missing or damaged.
    #[error(
        "the store at {place} is damaged: {why}; keep a copy of everything under the prefix, check that no lifecycle rule \
         deletes objects there, and restore a backup"
    )]
    Damaged {
        /// The store.
        place: String,
        /// What was found.
        why: String,
    },
    /// The operating system refused something.
    #[error("the store at {path:?} could not be opened: {source}; mend the cause and open it again, nothing is lost")]
    Failed {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Describes where a directory is open.
fn open_where(process: Option<u32>) -> String {
    match process {
        Some(process) if process == std::process::id() => {
            format!("in this very process ({process}) by another handle")
        }
        Some(process) => format!("in another process ({process})"),
        None => "in another process or by another handle".to_owned(),
    }
}

impl OpenError {
    pub(crate) fn failed(path: &Path, source: io::Error) -> Self {
        let path = path.into();
        Self::Failed { path, source }
    }

    /// The meaning of an object store's error for an open.
    pub(crate) fn from_objects(place: &impl ToString, error: &object_store::Error) -> Self {
        let (place, why) = (place.to_string(), brief(error));
        match is_denied(error) {
            true => Self::Denied { place, why },
            false => Self::Unavailable { place, why },
        }
    }
}

/// Whether the object store does not let this program in.
pub(crate) fn is_denied(error: &object_store::Error) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    matches!(error, PermissionDenied { .. } | Unauthenticated { .. }) || has_status(error, &["401", "403"])
}

/// Whether what was looked for does not exist.
pub(crate) fn is_missing(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) || has_status(error, &["404"])
}

/// Whether a server replied with one of these. Listings fail without a kind, and the type of the cause is not public.
fn has_status(error: &object_store::Error, statuses: &[&str]) -> bool {
    let object_store::Error::Generic { source, .. } = error else {
        return false;
    };
    let text = source.to_string();
    let status = text.split("status code: ").nth(1).and_then(|rest| rest.get(..3));
    status.is_some_and(|status| statuses.contains(&status))
}

/// An error with its causes, on one line, of bounded length, without signatures.
pub(crate) fn brief(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let more = found.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = found.source();
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(without_signature).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MESSAGE_LENGTH) {
        None => line,
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
    }
}

/// A word without the parameters of a signed URL.
fn without_signature(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let is_signed = ["sig=", "signature=", "x-amz-credential="]
        .iter()
        .any(|mark| lower.contains(mark));
    match (is_signed, word.split_once('?')) {
        (false, _) => word.to_owned(),
        (true, Some((place, _))) => format!("{place}?…"),
        (true, None) => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_short_and_holds_no_signature() {
        let text = "GET https://a.blob.core.windows.net/c/o?sv=1&sig=hunter2\n\n failed";
        assert_eq!(one_line(text), "GET https://a.blob.core.windows.net/c/o?… failed");
        assert_eq!(one_line("Signature=hunter2 was wrong"), "… was wrong");
        assert!(one_line(&"ä".repeat(2000)).len() < 2 * MESSAGE_LENGTH + 8);
    }

    #[test]
    fn the_reply_of_a_server_is_understood_without_a_kind() {
        let listing = |status: &str| object_store::Error::Generic {
            store: "S3",
            source: format!("Error performing GET x - Server returned non-2xx status code: {status}: <Error>").into(),
        };
        assert!(is_denied(&listing("403 Forbidden")) && is_denied(&listing("401 Unauthorized")));
        assert!(is_missing(&listing("404 Not Found")) && !is_denied(&listing("404 Not Found")));
        assert!(!is_denied(&listing("500 Internal")) && !is_missing(&listing("503 Slow Down")));
    }

    #[test]
    fn a_message_names_every_cause_once() {
        let inner = object_store::Error::Generic {
            store: "S3",
            source: "the network is down".into(),
        };
        let outer = io::Error::other(format!("reading failed ({inner})"));
        assert_eq!(brief(&outer), "reading failed (Generic S3 error: the network is down)");
        let outer =
            slatedb::Error::unavailable("reading failed".to_owned()).with_source(Box::new(io::Error::other(inner)));
        assert!(brief(&outer).ends_with("the network is down)"), "{}", brief(&outer));
    }
}
