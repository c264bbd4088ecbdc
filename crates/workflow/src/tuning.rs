//! Every constant that one might tune, with the reason for its value.

use std::time::Duration;

// Polling a shared store.

/// Shortest time between two polls, while other processes bring work: what a workflow may wait for at each of its steps that
/// another process does.
pub const POLL_BUSY_MS: u64 = 25;

/// Longest time between two polls, at first: an idle process notices new work within about a second.
pub const POLL_IDLE_MS: u64 = 1_050;

/// Longest time between two polls after a long time without work: within five seconds, at a fifth of the cost.
pub const POLL_ASLEEP_MS: u64 = 4_600;

/// How long there must be no work before polls become that rare.
pub const POLL_FALL_ASLEEP_MS: u64 = 45_000;

/// Pages fetched ahead to preserve the order of arrival.
pub const POLL_PAGES_AHEAD: usize = 4;

/// How old a poll may be for an activity to be taken that another process is preferred for: two polls of a busy process.
pub const POLL_FRESH_MS: u64 = 50;

/// Records per poll: small, because a poll returns whole records and its page grows old while it is worked off.
pub const POLL_PAGE: usize = 64;

/// How much unclaimed work may be known before polling stops to bound the memory.
pub const POLL_ENOUGH: usize = 2_048;

// Chores.

/// How often chores are queried for on a shared store: what a dead process left need not be done sooner.
pub const CHORES_EVERY_MS: u64 = 15_000;

/// When they are first queried for: soon after the chores of a process that died just before are due; and how far this is
/// spread, so that processes that start together do not all query at once.
pub const CHORES_FIRST_MS: (u64, u64) = (5_500, 1_000);

/// When they are queried for again: processes that started together have all announced themselves by then.
pub const CHORES_SECOND_MS: u64 = 1_500;

/// How often they are queried for on a store of one process: none is urgent there, because opening the store does them all.
pub const CHORES_EXCLUSIVE_EVERY: Duration = Duration::from_secs(30);

/// Chores per query.
pub const CHORES_PAGE: usize = 100;

/// How long the process that committed a turn has to roll it forward before another process does: longer than its retries of a
/// store that fails for a moment.
pub const REDO_TAKE_OVER_MS: u64 = 5_000;

/// How long the process that wrote an intent has to deliver it before another process does; as for a turn.
pub const INTENT_TAKE_OVER_MS: u64 = 5_000;

/// How long a process has to finish its deletion before another one does: a deletion takes many commits.
pub const DELETION_TAKE_OVER_MS: u64 = 10_000;

/// How long a tombstone stays: longer than any process can take to deliver an intent that it has read.
pub const TOMBSTONE_MS: u64 = 3_600_000;

/// How long after its end a session is checked for removal: a worker that still runs has renewed it by then.
pub const SESSION_LINGER_MS: u64 = 60_000;

/// How long after the end of its lease a phantom is checked for removal: its own process removes it sooner.
pub const PHANTOM_LEASE_LINGER_MS: u64 = 60_000;

/// When a phantom is checked again whose messages wait to be claimed: only a start for them changes anything.
pub const PHANTOM_LEASE_RECHECK_MS: u64 = 600_000;

// Leases and claims.

/// How much longer a lease lasts for other processes than for its holder: what is claimed before it is handed out may wait that
/// long.
pub const LEASE_SLACK: Duration = Duration::from_secs(1);

/// How often a claim on an instance is tried when its head is not as expected.
pub const TURN_CLAIM_TRIES: usize = 8;

/// How often a session is tried for when its record is not as expected.
pub const SESSION_CLAIM_TRIES: usize = 8;

/// How long an activity waits for its worker before other processes may have it too: a worker that will be back soon is.
pub const UNUSED_CLAIM_AFTER: Duration = Duration::from_millis(300);

/// Instances claimed ahead for each dispatcher: turns are short.
pub const TURNS_AHEAD: usize = 8;

/// Activities claimed ahead for each worker that will be back soon: an estimate may be wrong.
pub const ACTIVITIES_AHEAD: usize = 4;

/// Activities that take no longer are short: claiming the next one ahead saves a wait of about that length.
pub const SHORT_ACTIVITY_MS: u64 = 25;

/// How far into the queue to search for the next activity of an instance: the search holds the board's lock.
pub const NEXT_ACTIVITY_WITHIN: usize = 64;

/// How long work waits whose record another task is just writing: the outcome is known in a moment.
pub const PUT_OFF_MS: u64 = 10;

/// How long an instance is left alone that another process works on: a second query within that time seldom finds more.
pub const LEASED_ELSEWHERE_MS: u64 = 1_000;

/// How long it is remembered that another process works on an instance: it exists, so a claim need not try to create it.
pub const LEASED_ELSEWHERE_KNOWN_MS: u64 = 30_000;

/// How many such instances are remembered before expired entries are dropped to bound the memory.
pub const LEASED_ELSEWHERE_MOST: usize = 4_096;

// Affinity.

/// How long after a turn its process polls so often that it is worth deferring to.
pub const RECENT_TURN_MS: u64 = 2_000;

/// How long a process defers to each of those that are preferred to it: eight polls of a busy process.
pub const DEFER_MS: u64 = 200;

/// To how many of them at most, so that work whose owners are all gone waits less than a second.
pub const DEFER_TO_MOST: u64 = 3;

/// How long it defers while there is more to do than one poll returns: it has work of its own then.
pub const DEFER_BACKLOG_MS: u64 = 5_000;

/// How many records that other processes are preferred for are remembered before the oldest are forgotten
/// to bound the memory.
pub const SIGHTS_MOST: usize = 4_096;

/// For how long: far longer than any deferral.
pub const SIGHT_MS: u64 = 60_000;

/// How often a process announces itself: one write each time.
pub const ANNOUNCE_EVERY_MS: u64 = 30_000;

/// How long a process counts as alive after its last announcement: longer than two of them are apart.
pub const MEMBER_LIFE_MS: u64 = 75_000;

// Turns and messages.

/// The largest message that is stored in a head, which every later write of the head would carry along.
pub const INLINE_BYTES: usize = 1 << 13;

/// The operations of a turn's first commit besides the messages that it consumes: the head, the record of the rest, and some
/// room for what else must be in it.
pub const FIRST_COMMIT_ROOM: usize = 8;

/// How long a mailbox waits for more results, at most: a turn must not become noticeably slower.
pub const COALESCE_MS: u64 = 2;

/// The same on a shared store, where every turn costs one more request, and requests take longer.
pub const COALESCE_SHARED_MS: u64 = 12;

/// How many more activities must be under way: for fewer, waiting saves less than it costs.
pub const COALESCE_IF_UNDER_WAY: usize = 8;

/// How many results are enough: replaying the history for each such batch is cheap.
pub const COALESCE_AT_MOST: usize = 64;

/// How many records that are gone are remembered, to bound the memory.
pub const GONE_REMEMBERED: usize = 4_096;

/// How long a consumed message is remembered after it was sent: longer than any client tries.
pub const CONSUMED_REMEMBERED_MS: u64 = 120_000;

/// How many at most, so that the head stays small.
pub const CONSUMED_REMEMBERED: usize = 32;

/// Messages per read of a mailbox: about as many as a turn can consume in one commit of a database.
pub const MAILBOX_PAGE: usize = 100;

/// From this many activities of one execution on, one scan of all that it has replaces a scan for each.
pub const CANCELLED_SCAN_FROM: usize = 5;

/// How long a fetch that does not wait for new work still waits for messages on their way from other instances.
pub const DELIVERY_WAIT: Duration = Duration::from_secs(1);

/// Longest wait of a worker without room for a session: it may have room soon, but only a new fetch says so.
pub const SESSION_ROOM_WAIT: Duration = Duration::from_secs(1);

/// Targets that a sender's messages are delivered to concurrently: a wide fan-out must not occupy all connections.
pub const DELIVERIES_AT_ONCE: usize = 16;

/// How long a turn waits for the outcome of the intents of its messages: longer than a commit, which saves a tombstone.
pub const INTENT_OUTCOME_WAIT: Duration = Duration::from_millis(100);

// Failures and retries.

/// Pause after a failure before the next attempt, so that a dead store is not called in a tight loop.
pub const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// How long transient failures of the store are retried: less than the runtime's shortest lease.
pub const RETRY_FOR: Duration = Duration::from_secs(4);

/// How often a deletion is tried when turns of the same instances overtake it.
pub const DELETE_TRIES: usize = 16;

/// How long a deletion waits for commits that are under way before it tries again.
pub const DELETE_RETRY_AFTER: Duration = Duration::from_millis(20);

/// How often the removal of an instance is tried before it is left to housekeeping: the deletion is decided,
/// and will be carried out in any case.
pub const REMOVE_TRIES: usize = 64;

/// How long to wait for the commit that came in between.
pub const REMOVE_RETRY_AFTER: Duration = Duration::from_millis(20);

// Reading and counting.

/// How long a snapshot that this process wrote counts as the newest on a shared store: as long as a client that waits in the
/// process that runs its workflow polls for it.
pub const TRUST_OWN_MS: u64 = 1_000;

/// How long a confirmed snapshot does: concurrent queries cost one request.
pub const TRUST_CONFIRMED_MS: u64 = 5;

/// A wait on a shared store reads the instance again after this time, in case another process ends it, and then after twice as
/// long each time. As long as a poll for work of a busy process.
pub const WAIT_FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The longest such pause: each read is a request, and a workflow that has run for seconds is not in a hurry.
pub const WAIT_LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A wait for a workflow of a store that another process owns reads the instance again after this time, and then after twice
/// as long each time. What it reads is some hundred milliseconds old at best.
pub const REMOTE_WAIT_FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause: the view of the store is not made anew more often.
pub const REMOTE_WAIT_LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long to wait before an instance is read again that changed while it was read, or whose last turn is not complete: only
/// a new view of the store shows another state.
pub const REMOTE_READ_AGAIN: Duration = Duration::from_millis(250);

/// How many instances a process remembers that only reads, so that one that has not changed costs a look at its head.
pub const REMOTE_REMEMBERED: usize = 32;

/// How large each may be, in bytes.
pub const REMOTE_REMEMBERED_BYTES: u64 = 1 << 20;

/// Queued records per request when they are counted.
pub const REMOTE_COUNT_PAGE: usize = 10_000;

/// Records per request when all of a kind are read: few requests, and pages that fit into memory.
pub const READ_PAGE: usize = 1_000;

/// Instances per request of a listing.
pub const LIST_PAGE: usize = 1_000;

/// Parents remembered during a bulk operation, to bound the memory.
pub const PARENTS_REMEMBERED: usize = 10_000;

/// Roots that a bulk operation works on if the caller sets no limit.
pub const BULK_ROOTS: usize = 1_000;

/// A count is shown for this many times as long as it took, so that counting takes at most a twentieth of the time.
pub const COUNT_SHOWN_TIMES: u64 = 20;

/// While other processes work, so that the next count could not replace the totals either, it is shown at least this long.
pub const COUNT_SHOWN_MS: u64 = 60_000;

/// A query waits for a count no longer than this. The count continues, and later queries show it.
pub const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Instances per request of a count: each takes further reads.
pub const COUNT_PAGE: usize = 500;

/// Intents per request when an outbox is flushed.
pub const INTENTS_PAGE: usize = 1_000;

/// Queued records per request when a store is opened.
pub const RECOVER_PAGE: usize = 1_000;

/// How many acknowledgements may be given before they are durable: after a crash as many activities may run again. More than
/// any group of commits that fills a sync.
pub const OUTSTANDING_ACKS: usize = 256;
/// How many bytes they may have: that much is lost with the process and must be done again.
pub const OUTSTANDING_BYTES: usize = 8 * 1024 * 1024;
