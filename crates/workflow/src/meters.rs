//! Metrics, through the `metrics` facade: a program installs the recorder it likes.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// Handles of everything that the engine measures.
pub struct Meters {
    /// Turns committed.
    pub turns: Counter,
    /// Activities finished.
    pub activities: Counter,
    /// Messages sent by clients.
    pub messages: Counter,
    /// Work that went straight to a dispatcher that waited for it.
    pub handoffs: Counter,
    /// Instances found in memory.
    pub cache_hits: Counter,
    /// Instances read from the store.
    pub cache_misses: Counter,
    /// Leases that ran out before their work was done.
    pub lapses: Counter,
    /// Records set aside because they cannot be read.
    pub quarantined: Counter,
    /// Messages to other instances that left an outbox.
    pub deliveries: Counter,
    /// Messages from an outbox that left a tombstone.
    pub tombs: Counter,
    /// Turns that were larger than a commit.
    pub staged: Counter,
    /// Messages that wait.
    pub turn_depth: Gauge,
    /// Activities that wait.
    pub work_depth: Gauge,
    /// How long messages were there before they were taken.
    pub turn_wait: Histogram,
    /// How long activities were there before they were taken.
    pub work_wait: Histogram,
    /// How long the oldest message that is ready has been there.
    pub oldest_turn: Gauge,
    /// How long the oldest activity that is ready has been there.
    pub oldest_work: Gauge,
}

impl Meters {
    /// Registers all of them.
    pub fn new() -> Self {
        describe_counter!("perennial_workflow_turns_total", "Turns committed");
        describe_counter!("perennial_workflow_activities_total", "Activities finished");
        describe_counter!("perennial_workflow_messages_total", "Messages sent by clients");
        describe_counter!(
            "perennial_workflow_handoffs_total",
            "Work that went straight to a waiting dispatcher"
        );
        describe_counter!("perennial_workflow_cache_hits_total", "Instances found in memory");
        describe_counter!("perennial_workflow_cache_misses_total", "Instances read from the store");
        describe_counter!("perennial_workflow_lapses_total", "Leases that ran out");
        describe_counter!(
            "perennial_workflow_quarantined_total",
            "Queued records that cannot be read"
        );
        describe_counter!(
            "perennial_workflow_deliveries_total",
            "Messages to other instances that left an outbox"
        );
        describe_counter!(
            "perennial_workflow_tombstones_total",
            "Messages from an outbox that left a tombstone"
        );
        describe_counter!(
            "perennial_workflow_staged_turns_total",
            "Turns that were larger than a commit"
        );
        describe_gauge!(
            "perennial_workflow_queue_depth",
            "Messages (queue=turn) and activities (queue=work) that wait"
        );
        describe_histogram!(
            "perennial_workflow_wait_seconds",
            "How long work waited before it was taken, from its arrival or due time on"
        );
        describe_gauge!(
            "perennial_workflow_oldest_ready_seconds",
            "How long the oldest ready work has waited, as of the last time it was taken or asked for"
        );
        Self {
            turns: counter!("perennial_workflow_turns_total"),
            activities: counter!("perennial_workflow_activities_total"),
            messages: counter!("perennial_workflow_messages_total"),
            handoffs: counter!("perennial_workflow_handoffs_total"),
            cache_hits: counter!("perennial_workflow_cache_hits_total"),
            cache_misses: counter!("perennial_workflow_cache_misses_total"),
            lapses: counter!("perennial_workflow_lapses_total"),
            quarantined: counter!("perennial_workflow_quarantined_total"),
            deliveries: counter!("perennial_workflow_deliveries_total"),
            tombs: counter!("perennial_workflow_tombstones_total"),
            staged: counter!("perennial_workflow_staged_turns_total"),
            turn_depth: gauge!("perennial_workflow_queue_depth", "queue" => "turn"),
            work_depth: gauge!("perennial_workflow_queue_depth", "queue" => "work"),
            turn_wait: histogram!("perennial_workflow_wait_seconds", "queue" => "turn"),
            work_wait: histogram!("perennial_workflow_wait_seconds", "queue" => "work"),
            oldest_turn: gauge!("perennial_workflow_oldest_ready_seconds", "queue" => "turn"),
            oldest_work: gauge!("perennial_workflow_oldest_ready_seconds", "queue" => "work"),
        }
    }
}
