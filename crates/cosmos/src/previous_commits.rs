//! The commits that wrote a document before the last one.
//!
//! A commit whose reply was lost is recognised by its id in the documents that it wrote. Another process may have
//! overwritten those by then. So a commit that replaces a document records which commits it replaces: the ids of the
//! last few, which its process knows from having read or written the document.

use parking_lot::Mutex;
use std::collections::HashMap;

/// How many commits a document remembers besides the one that wrote it.
pub(crate) const REMEMBERED: usize = 8;

/// How many versions of documents a handle remembers, at least. Commits that it has forgotten are not recorded.
const KNOWN: usize = 8192;

/// The commits behind the versions that were seen last.
#[derive(Default)]
pub(crate) struct PreviousCommits(Mutex<Generations>);

/// When the younger one is full it becomes the older one, and the older one is forgotten.
#[derive(Default)]
struct Generations {
    younger: HashMap<String, Vec<String>>,
    older: HashMap<String, Vec<String>>,
}

impl PreviousCommits {
    /// Records a version: `commit` wrote it, over those of `before`, latest first.
    pub(crate) fn record(&self, etag: &str, commit: &str, before: &[String]) {
        let commits = std::iter::once(commit.to_owned()).chain(before.iter().cloned());
        let commits = commits.take(REMEMBERED).collect();
        let mut generations = self.0.lock();
        if generations.younger.len() >= KNOWN {
            generations.older = std::mem::take(&mut generations.younger);
        }
        generations.younger.insert(etag.to_owned(), commits);
    }

    /// The commits that led to a version, latest first, as far as they are known.
    pub(crate) fn of(&self, etag: &str) -> Vec<String> {
        let generations = self.0.lock();
        let found = generations.younger.get(etag).or_else(|| generations.older.get(etag));
        found.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_commits_are_known() {
        let previous_commits = PreviousCommits::default();
        for n in 0..20 {
            let before = previous_commits.of(&format!("e{n}"));
            previous_commits.record(&format!("e{}", n + 1), &format!("c{n}"), &before);
        }
        let expected: Vec<String> = (12..20).rev().map(|n| format!("c{n}")).collect();
        assert_eq!(previous_commits.of("e20"), expected);
        assert_eq!(previous_commits.of("unknown"), Vec::<String>::new());
    }

    #[test]
    fn what_was_not_seen_for_long_is_forgotten() {
        let previous_commits = PreviousCommits::default();
        for n in 0..=2 * KNOWN {
            previous_commits.record(&n.to_string(), "c", &[]);
        }
        assert!(previous_commits.of("0").is_empty());
        assert_eq!(previous_commits.of(&KNOWN.to_string()), ["c"]);
        assert!(previous_commits.0.lock().younger.len() <= KNOWN);
    }
}
