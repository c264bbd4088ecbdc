//! What can be set.

/// Settings of the workflow engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much memory recent instances may take, in bytes.
    pub cache_bytes: u64,
    /// Queued items whose body is larger than this, in bytes, are read from the store when they are handed out
    /// instead of being kept in memory while they wait.
    pub held_body_bytes: usize,
    /// How much memory the bodies of all queued items may take together, in bytes. What comes when they do is read from
    /// the store when it is handed out.
    pub held_bytes: usize,
    /// What tells this process from all others that share a store; `None` draws a number. Two processes with the same
    /// one would take each other's claims for their own: set it in simulations only.
    pub process_seed: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            held_body_bytes: 16 << 10,
            held_bytes: 64 << 20,
            process_seed: None,
        }
    }
}
