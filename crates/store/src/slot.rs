//! Slots: 256 buckets that spread partitions over processes.

use crate::Partition;

/// How many slots there are. This number never changes.
pub const SLOTS: usize = 256;

/// The bucket of a partition: the same on every machine and in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u8);

impl Slot {
    /// The slot of a partition.
    #[allow(clippy::cast_possible_truncation)]
    pub fn of(partition: &Partition) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(partition.as_str().as_bytes()) as u8)
    }
}

/// A set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSet([u64; 4]);

impl SlotSet {
    /// Every slot.
    pub const fn all() -> Self {
        Self([u64::MAX; 4])
    }

    /// No slot.
    pub const fn none() -> Self {
        Self([0; 4])
    }

    /// This set with one more slot.
    #[must_use]
    pub fn with(mut self, slot: Slot) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(slot.0 / 64)) {
            *word |= 1 << (slot.0 % 64);
        }
        self
    }

    /// Whether a slot is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0
            .get(usize::from(slot.0 / 64))
            .is_some_and(|word| word >> (slot.0 % 64) & 1 == 1)
    }

    /// Whether every slot is in the set.
    pub fn is_all(&self) -> bool {
        self.0 == [u64::MAX; 4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_a_partition_never_changes() {
        assert_eq!(Slot::of(&Partition::new("order-1")), Slot(118));
        assert_eq!(Slot::of(&Partition::new("")), Slot(194));
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = SlotSet::none().with(Slot(0)).with(Slot(255));
        assert!(set.contains(Slot(0)) && set.contains(Slot(255)));
        assert!(!set.contains(Slot(1)) && !set.is_all());
        assert!((0..=255).all(|n| SlotSet::all().contains(Slot(n))));
    }
}
