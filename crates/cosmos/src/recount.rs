//! Totals that may be wrong, and how a count corrects them.
//!
//! A handle that died while its document of totals was open may have counted more than it wrote. What is missing is
//! unknown, but everything can be counted anew. A count takes time, and commits of other processes meanwhile may be in
//! it or not. So it replaces the totals only if nothing was counted between two readings of the documents of totals:
//! each that is not a dead handle's was complete at the first reading and is the same at the second. A handle that
//! wants to count must open, and so write, its document first. Otherwise the count is kept in the common document with
//! its time, for queries meanwhile, and the doubt stays.
//!
//! An engine counts what is its own, by the prefix of its counters' names. So a count replaces only those totals, and the
//! common document notes that they are certain; the others stay as they are, in doubt until their own engine counts.

use crate::core::Core;
use crate::counters::{Sums, subtract};
use crate::totals::{COMMON, Common, Count, OLD_MS, Totals, add, counters};
use azure_core::http::Etag;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use parking_lot::Mutex;
use perennial_store::{Clock, Counted, Doubt, Result, SystemClock};
use std::collections::BTreeMap;

/// How many documents fit into a batch beside the common one and this handle's own.
const FOLDED: usize = 98;

/// What this handle saw when it last reported a doubt.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    token: u64,
    /// The documents of all other handles, by their ids.
    tags: BTreeMap<String, String>,
    /// Whether each of them is complete, or a dead handle's.
    quiet: bool,
    /// How many commits of this handle had counted; `None` if one was under way.
    begun: Option<u64>,
}

impl Totals {
    fn is_handle(&self) -> bool {
        self.id != COMMON
    }

    /// Whether its handle died without completing it.
    fn is_dead(&self, now_ms: u64) -> bool {
        let until_ms = self.until.unwrap_or_else(|| self.written.saturating_add(OLD_MS));
        self.is_handle() && !self.complete && until_ms < now_ms
    }

    /// Whether the totals may be wrong because of it.
    pub(crate) fn is_doubtful(&self, now_ms: u64) -> bool {
        match self.is_handle() {
            true => self.doubt || self.is_dead(now_ms),
            false => !self.complete,
        }
    }
}

impl Common {
    /// Replaces the totals that a count covers: by what it says, less what documents hold that are `kept`.
    fn apply_count<'a>(&mut self, counted: &Counted, kept: impl Iterator<Item = &'a Sums>) {
        let is_covered = |counter: &str| counter.starts_with(&*counted.prefix);
        let mut covered = sums(counted);
        for mut sums in kept.cloned() {
            sums.retain(|counter, _| is_covered(counter));
            subtract(&mut covered, &sums);
        }
        self.totals.retain(|counter, _| !is_covered(counter));
        add(&mut self.totals, &covered);
        self.certain.retain(|prefix| !is_covered(prefix));
        self.complete = counted.prefix.is_empty();
        self.certain
            .extend((!self.complete).then(|| counted.prefix.to_string()));
        self.count = None;
    }
}

impl Core {
    /// Whether totals of these documents may be wrong.
    pub(crate) fn doubt(&self, documents: &[Totals]) -> Option<Doubt> {
        let now_ms = SystemClock.now_ms();
        if !self.counters.is_doubtful() && !self.others(documents).any(|document| document.is_doubtful(now_ms)) {
            return None;
        }
        let quiet = |document: &Totals| document.complete || !document.is_handle() || document.is_dead(now_ms);
        let mut seen = self.doubts.0.lock();
        *seen = Seen {
            token: seen.token + 1,
            tags: tags(self.others(documents)),
            quiet: self.others(documents).all(quiet),
            begun: self.counters.at_rest(),
        };
        let count = common(documents).and_then(|common| common.count.clone());
        Some(Doubt {
            token: seen.token,
            quiet: seen.quiet && seen.begun.is_some(),
            certain: self.certain(documents, now_ms),
            counted: count.map(|count| Counted {
                prefix: count.prefix.into(),
                at_ms: count.at,
                took_ms: count.took,
                sums: counters(count.totals),
            }),
        })
    }

    /// The documents that are not this handle's own.
    fn others<'a>(&'a self, documents: &'a [Totals]) -> impl Iterator<Item = &'a Totals> {
        documents.iter().filter(|document| document.id != self.counters.id)
    }

    /// How the names of counters begin whose totals are right, although the totals are in doubt: those that were counted,
    /// unless a handle has died since.
    fn certain(&self, documents: &[Totals], now_ms: u64) -> Vec<String> {
        let is_dubious = |document: &Totals| document.is_handle() && document.is_doubtful(now_ms);
        match self.counters.is_doubtful() || self.others(documents).any(is_dubious) {
            true => Vec::new(),
            false => Common::of(common(documents)).certain,
        }
    }

    /// Replaces the totals that a count covers, if nothing was counted since the doubt was reported.
    pub(crate) async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        // Meanwhile nothing is written to this handle's document, and none of its commits begins to count.
        let _writing = self.counters.writing.lock().await;
        let documents = self.read_totals(Some(ReadConsistencyStrategy::LatestCommitted)).await?;
        let others: Vec<&Totals> = self.others(&documents).collect();
        let begun = {
            let seen = self.doubts.0.lock();
            let is_same = seen.token == doubt.token && seen.quiet && seen.tags == tags(others.iter().copied());
            seen.begun.filter(|_| is_same)
        };
        let is_resolved = match begun {
            Some(begun) => self.replace(begun, &documents, &others, counted).await?,
            None => false,
        };
        if !is_resolved {
            self.keep_count(&documents, counted).await?;
        }
        Ok(is_resolved)
    }

    /// Makes the count part of the common totals, and folds every other document into them. Each is deleted at the version
    /// that was seen, so nothing happens if another handle wrote one meanwhile.
    async fn replace(&self, begun: u64, documents: &[Totals], others: &[&Totals], counted: &Counted) -> Result<bool> {
        let Some(own) = self.counters.pause(begun) else {
            return Ok(false);
        };
        let handles: Vec<&&Totals> = others.iter().filter(|one| one.is_handle()).collect();
        let (folded, kept) = handles.split_at(handles.len().min(FOLDED));
        let mut content = Common::of(common(documents));
        let sources = folded.iter().map(|document| &document.totals).chain([&own.sums]);
        sources.for_each(|sums| add(&mut content.totals, sums));
        content.certain = self.certain(documents, SystemClock.now_ms());
        content.apply_count(counted, kept.iter().map(|document| &document.totals));
        let mut batch = self.batch();
        let runs = folded.iter().flat_map(|document| document.runs.clone());
        batch.write_common(common(documents), content, runs)?;
        for document in folded {
            batch.delete(&document.id, Etag::from(document.etag.clone().unwrap_or_default()));
        }
        if let Some(etag) = own.etag {
            batch.delete(&self.counters.id, etag);
        }
        match self.apply(batch.0).await {
            Ok(_) => {
                self.counters.folded(&own.sums);
                Ok(true)
            }
            Err(error) => {
                tracing::debug!(%error, "a count could not replace the totals; another will");
                if !own.was_complete {
                    self.counters.open();
                }
                Ok(false)
            }
        }
    }

    /// Keeps a count for queries while the doubt lasts. If another handle writes the common document now, it is not
    /// worth another attempt.
    async fn keep_count(&self, documents: &[Totals], counted: &Counted) -> Result<()> {
        let mut content = Common::of(common(documents));
        content.count = Some(Count {
            prefix: counted.prefix.to_string(),
            at: counted.at_ms,
            took: counted.took_ms,
            totals: sums(counted),
        });
        let mut batch = self.batch();
        batch.write_common(common(documents), content, [])?;
        if let Err(error) = self.apply(batch.0).await {
            tracing::debug!(%error, "a count could not be kept");
        }
        Ok(())
    }
}

fn common(documents: &[Totals]) -> Option<&Totals> {
    documents.iter().find(|document| document.id == COMMON)
}

fn tags<'a>(documents: impl Iterator<Item = &'a Totals>) -> BTreeMap<String, String> {
    let tag = |document: &Totals| (document.id.clone(), document.etag.clone().unwrap_or_default());
    documents.map(tag).collect()
}

fn sums(counted: &Counted) -> Sums {
    let mut sums = Sums::new();
    for (counter, sum) in &counted.sums {
        add(&mut sums, &Sums::from([(counter.0.to_string(), *sum)]));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::Counter;

    fn of(sums: &[(&str, i64)]) -> Sums {
        sums.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
    }

    #[test]
    fn a_count_replaces_what_it_covers_and_nothing_else() {
        let mut common = Common::of(None);
        common.totals = of(&[("wf.a", 5), ("wf.gone", 3), ("wfx", 1), ("jobs.a", 7)]);
        common.certain = vec!["jobs.".to_owned(), "wf.a".to_owned()];
        common.complete = false;
        let counted = Counted {
            prefix: "wf.".into(),
            sums: vec![(Counter::new("wf.a"), 9), (Counter::new("wf.b"), 2)],
            ..Counted::default()
        };
        let kept = [of(&[("wf.a", 4), ("jobs.a", 100)]), of(&[("wf.b", 2)])];
        common.apply_count(&counted, kept.iter());
        assert_eq!(common.totals, of(&[("wf.a", 5), ("wfx", 1), ("jobs.a", 7)]));
        assert_eq!(
            (common.certain.join(" "), common.complete),
            ("jobs. wf.".to_owned(), false)
        );
    }

    #[test]
    fn a_count_of_everything_leaves_no_doubt() {
        let mut common = Common::of(None);
        common.totals = of(&[("a", 5), ("b", 1)]);
        common.complete = false;
        let counted = Counted {
            sums: vec![(Counter::new("a"), 4)],
            ..Counted::default()
        };
        common.apply_count(&counted, std::iter::empty());
        assert_eq!((common.totals, common.complete), (of(&[("a", 4)]), true));
    }
}
