//! The commits that stand in line for records: one line for each record that a commit waits to read.
//!
//! A commit that must read records before it can be accepted takes a place for every record that it names, all at once. Until
//! it leaves, a commit that names one of them takes its places behind. So nothing changes what a commit has read before it is
//! accepted, commits that share a record keep their order, and no two ever wait for each other.

use bytes::Bytes;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// A record, by a hash of its key. Two records of the same hash share a line, and so may wait for nothing.
pub(crate) type Record = u64;

/// A commit in line: grows in the order of arrival.
type Number = u64;

/// Takes a record's hash as it is.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The commits that stand in line for one record.
struct Queue {
    first: Number,
    behind: VecDeque<Number>,
}

/// The places of a commit that stands first for all its records. They must be given back by [`Line::leave`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Places {
    number: Number,
    records: Vec<Record>,
}

/// A commit that stands behind others.
struct Waiting<T> {
    places: Places,
    /// For how many of its records others stand before it.
    behind: usize,
    commit: T,
}

/// All lines.
pub(crate) struct Line<T> {
    hasher: RandomState,
    queues: HashMap<Record, Queue, BuildHasherDefault<AsIs>>,
    waiting: HashMap<Number, Waiting<T>>,
    last: Number,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            queues: HashMap::default(),
            waiting: HashMap::new(),
            last: 0,
        }
    }
}

impl<T> Line<T> {
    /// Whether a commit stands in line for one of these records.
    pub(crate) fn is_taken<'a>(&self, mut keys: impl Iterator<Item = &'a Bytes>) -> bool {
        !self.queues.is_empty() && keys.any(|key| self.queues.contains_key(&self.hasher.hash_one(key)))
    }

    /// The records of these keys.
    pub(crate) fn records<'a>(&self, keys: impl Iterator<Item = &'a Bytes>) -> Vec<Record> {
        keys.map(|key| self.hasher.hash_one(key)).collect()
    }

    /// Takes the first place for all these records. None of them may be [taken](Self::is_taken).
    pub(crate) fn enter(&mut self, records: Vec<Record>) -> Places {
        let (places, behind) = self.take(records);
        debug_assert_eq!(behind, 0, "a place that is taken is not the first");
        places
    }

    /// Takes the next place for all these records, some of which are [taken](Self::is_taken). The commit is returned by
    /// [`leave`](Self::leave) when it stands first for all of them.
    pub(crate) fn wait(&mut self, records: Vec<Record>, commit: T) {
        let (places, behind) = self.take(records);
        debug_assert_ne!(behind, 0, "a commit that stands first never waits");
        let waiting = Waiting { places, behind, commit };
        self.waiting.insert(waiting.places.number, waiting);
    }

    /// Takes places; returns them with the number of records for which they are not the first.
    fn take(&mut self, mut records: Vec<Record>) -> (Places, usize) {
        self.last += 1;
        let number = self.last;
        let mut behind = 0;
        records.retain(|record| match self.queues.entry(*record) {
            Entry::Vacant(vacant) => {
                let behind = VecDeque::new();
                vacant.insert(Queue { first: number, behind });
                true
            }
            // Two records of one commit with the same hash have one place.
            Entry::Occupied(queue) if queue.get().last() == number => false,
            Entry::Occupied(mut queue) => {
                queue.get_mut().behind.push_back(number);
                behind += 1;
                true
            }
        });
        (Places { number, records }, behind)
    }

    /// Gives places back. Returns the commits that stand first for all their records now, in the order of their arrival.
    pub(crate) fn leave(&mut self, places: Places) -> Vec<(Places, T)> {
        let mut ready = Vec::new();
        for record in places.records {
            let Entry::Occupied(mut queue) = self.queues.entry(record) else {
                continue;
            };
            debug_assert_eq!(queue.get().first, places.number, "only the first leaves");
            let Some(next) = queue.get_mut().behind.pop_front() else {
                queue.remove();
                continue;
            };
            queue.get_mut().first = next;
            let Entry::Occupied(mut waiting) = self.waiting.entry(next) else {
                continue;
            };
            waiting.get_mut().behind -= 1;
            if waiting.get().behind == 0 {
                let waiting = waiting.remove();
                ready.push((waiting.places, waiting.commit));
            }
        }
        ready.sort_unstable_by_key(|(places, _)| places.number);
        ready
    }
}

impl Queue {
    fn last(&self) -> Number {
        self.behind.back().copied().unwrap_or(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Names = Line<&'static str>;

    fn is_empty(line: &Names) -> bool {
        line.queues.is_empty() && line.waiting.is_empty()
    }

    fn names(ready: &[(Places, &'static str)]) -> Vec<&'static str> {
        ready.iter().map(|(_, commit)| *commit).collect()
    }

    #[test]
    fn the_next_goes_on_when_the_first_leaves() {
        let mut line = Names::default();
        let first = line.enter(vec![1, 2]);
        line.wait(vec![2, 3], "second");
        line.wait(vec![3], "third");
        let mut ready = line.leave(first);
        assert_eq!(names(&ready), ["second"]);
        let mut ready = line.leave(ready.remove(0).0);
        assert_eq!(names(&ready), ["third"], "it waited for a commit that itself waited");
        assert!(line.leave(ready.remove(0).0).is_empty());
        assert!(is_empty(&line));
    }

    #[test]
    fn a_commit_waits_until_it_is_first_for_all_its_records() {
        let mut line = Names::default();
        let one = line.enter(vec![1]);
        let two = line.enter(vec![2]);
        line.wait(vec![1, 2], "both");
        assert!(line.leave(two).is_empty());
        let mut ready = line.leave(one);
        assert_eq!(names(&ready), ["both"]);
        line.leave(ready.remove(0).0).clear();
        assert!(is_empty(&line));
    }

    #[test]
    fn several_go_on_at_once_in_the_order_in_which_they_came() {
        let mut line = Names::default();
        let first = line.enter(vec![3, 2, 1]);
        for (commit, record) in [("a", 1), ("b", 2), ("c", 3)] {
            line.wait(vec![record], commit);
        }
        let ready = line.leave(first);
        assert_eq!(names(&ready), ["a", "b", "c"]);
        for (places, _) in ready {
            assert!(line.leave(places).is_empty());
        }
        assert!(is_empty(&line));
    }

    #[test]
    fn two_records_of_the_same_hash_do_not_wait_for_each_other() {
        let mut line = Names::default();
        let first = line.enter(vec![7, 7]);
        line.wait(vec![7, 8, 7, 8], "second");
        let mut ready = line.leave(first);
        assert_eq!(names(&ready), ["second"]);
        assert!(line.leave(ready.remove(0).0).is_empty());
        assert!(is_empty(&line));
    }

    #[test]
    fn keys_are_taken_until_their_commit_leaves() {
        let mut line: Line<()> = Line::default();
        let keys = ["a", "b", "c"].map(Bytes::from);
        let places = line.enter(line.records(keys[..2].iter()));
        assert!(line.is_taken(keys.iter()) && line.is_taken(keys[1..].iter()));
        assert!(!line.is_taken(keys[2..].iter()));
        assert!(line.leave(places).is_empty());
        assert!(!line.is_taken(keys.iter()));
    }
}
