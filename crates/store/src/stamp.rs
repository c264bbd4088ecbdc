//! Marks what a commit writes, so that it can be told from what any other commit writes.

use crate::{Commit, Op};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The property of a body that names the commit which wrote it.
const PROPERTY: &str = "$commit";

/// Gives every commit of a process an id, and writes it into every record that the commit writes.
///
/// Where many processes share a store, two of them can have reason to write the very same record. So a record that is what a
/// commit was to write says nothing of that commit, unless the record names it. The id is made of the name of the process
/// and a number: no other process and no other commit has it.
///
/// It is a property of its own in the JSON of a body: who reads the body need not know of it. A body that is no JSON object
/// stays as it is.
#[derive(Debug)]
pub struct Stamps {
    process: Arc<str>,
    made: AtomicU64,
}

impl Stamps {
    /// The stamps of a process with a name that no other process has, now or later.
    pub fn new(process: Arc<str>) -> Self {
        Self {
            process,
            made: AtomicU64::new(0),
        }
    }

    /// Writes a new id into every record that a commit writes.
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

/// The body with this id; `None` if it has no place for one.
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

/// A body that was read from the store, without the id of the commit that wrote it; `None` if there is none in it.
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
        // Inside, it is somebody's own.
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
