//! How much one commit may hold.

/// The limits of a store. The engine obeys them; the store checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations in one commit. On a store that is shared, an [`Op::Absent`](crate::Op::Absent) may count as two.
    pub ops_per_commit: usize,
    /// Bytes of all bodies in one commit.
    pub bytes_per_commit: usize,
    /// Bytes of one body.
    pub bytes_per_record: usize,
    /// Partitions that one commit may touch: 1 on databases whose transactions end at a partition.
    pub partitions_per_commit: usize,
    /// Bytes of a record's partition and id together, including the parent that its listing names and whatever the
    /// store adds to them. A NUL may count as two.
    pub bytes_per_key: usize,
}

impl Limits {
    /// No limit but memory.
    pub const NONE: Limits = Limits {
        ops_per_commit: usize::MAX,
        bytes_per_commit: usize::MAX,
        bytes_per_record: usize::MAX,
        partitions_per_commit: usize::MAX,
        bytes_per_key: usize::MAX,
    };
}
