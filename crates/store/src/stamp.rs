//! Marks the records that a commit writes, so that they can be told from those of any other commit.

use crate::{Commit, Op};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The property of a body that names the commit that wrote it.
const PROPERTY: &str = "$commit";

/// Gives every commit of a process an id, and writes it into every record of the commit.
///
/// Where many processes share a store, two of them may have reason to write the very same record. A record with the
/// expected content is then no evidence for a commit, unless the record names that commit. The id consists of the name
/// of the process and a number, so that no other process and no other commit has it.
///
/// The id is a separate property in the JSON of a body, which readers of the body may ignore. A body that is not a JSON
/// object stays as it is.
#[derive(Debug)]
pub struct Stamps {
    process: Arc<str>,
    made: AtomicU64,
}

impl Stamps {
    /// The stamps of a process whose name no other process has, now or later.
    pub fn new(process: Arc<str>) -> Self {
        Self {
            process,
            made: AtomicU64::new(0),
        }
    }

    /// Writes a new id into every record of a commit.
    pub fn mark(&self, commit: &mut Commit) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number:x}", self.process);
        for op in &mut commit.ops {
            if let Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) = op
                && let Some(body) = marked(&draft.body, &id)
            {
                draft.body = body;
            }
        }
    }
}

/// The body with this id; `None` if it cannot hold one.
fn marked(body: &[u8], id: &str) -> Option<Bytes> {
    let plain = without_mark(body);
    let open = plain.as_deref().unwrap_or(body).strip_suffix(b"}")?;
    let comma = match open {
        [b'{'] => "",
        [b'{', ..] => ",",
        _ => return None,
    };
    let mark = format!("{comma}\"{PROPERTY}\":\"{id}\"}}");
    Some(Bytes::from([open, mark.as_bytes()].concat()))
}

/// A body that was read from the store, without the id of the commit that wrote it; `None` if it holds no id.
pub(crate) fn without_mark(body: &[u8]) -> Option<Vec<u8>> {
    let is_there = body.windows(PROPERTY.len()).any(|part| part == PROPERTY.as_bytes());
    let mut value: serde_json::Value = serde_json::from_slice(is_there.then_some(body)?).ok()?;
    value.as_object_mut()?.remove(PROPERTY)?;
    serde_json::to_vec(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, Key, Partition, RecordId};

    fn stamped(stamps: &Stamps, body: &'static str) -> String {
        let key = Key::new(Partition::new("p"), RecordId::of("a"));
        let mut commit = Commit::new(vec![Op::Put(Draft::new(key, body))]);
        stamps.mark(&mut commit);
        String::from_utf8(commit.ops[0].draft().unwrap().body.to_vec()).unwrap()
    }

    #[test]
    fn no_two_commits_write_the_same() {
        let (one, other) = (Stamps::new(Arc::from("a")), Stamps::new(Arc::from("b")));
        assert_eq!(stamped(&one, r#"{"x":1}"#), r#"{"x":1,"$commit":"a-0"}"#);
        assert_eq!(stamped(&one, r#"{"x":1}"#), r#"{"x":1,"$commit":"a-1"}"#);
        assert_eq!(stamped(&other, "{}"), r#"{"$commit":"b-0"}"#);
    }

    #[test]
    fn what_another_commit_wrote_is_marked_anew() {
        let stamps = Stamps::new(Arc::from("a"));
        assert_eq!(
            stamped(&stamps, r#"{"$commit":"b-7","x":"y"}"#),
            r#"{"x":"y","$commit":"a-0"}"#
        );
        // A nested property of this name belongs to the caller.
        let inner = r#"{"x":{"$commit":"b-7"},"y":"\"$commit\""}"#;
        assert_eq!(
            stamped(&stamps, inner),
            r#"{"x":{"$commit":"b-7"},"y":"\"$commit\"","$commit":"a-1"}"#
        );
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        let stamps = Stamps::new(Arc::from("a"));
        for body in ["", "[1]", "no json", "}", "\"{}\""] {
            assert_eq!(stamped(&stamps, body), body);
        }
    }
}
