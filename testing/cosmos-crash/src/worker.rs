//! The process that is killed and frozen.

use crate::clock::Ahead;
use crate::{Failure, workflows};
use duroxide::runtime::{Runtime, RuntimeOptions};
use perennial_cosmos::Account;
use perennial_crash::ledger::Ledger;
use perennial_crash::line::Line;
use perennial_crash::witness::Witness;
use perennial_workflow::{Settings, Workflows};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The line that a worker prints on its standard output once its runtime runs.
pub const READY: &str = "ready";

/// How long a turn is claimed for. Short, so that the work of a dead worker is soon taken over.
pub const TURN_LEASE: Duration = Duration::from_secs(2);
/// How long an activity or a session is claimed for.
pub const WORK_LEASE: Duration = Duration::from_secs(4);

/// The arguments of a worker.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The URL of the store; its key is in the environment.
    pub url: String,
    /// The ledger of this worker, outside the store.
    pub ledger: PathBuf,
    /// How far its clock is ahead.
    pub ahead_ms: u64,
}

/// Opens the store on a clock that is ahead by this time.
pub async fn open(account: Account, ahead_ms: u64) -> Result<Arc<Workflows>, Failure> {
    let settings = perennial_cosmos::Settings {
        // Short, so that a dead worker's totals are soon in doubt.
        counters_interval: Duration::from_secs(1),
        counters_idle: Duration::from_secs(2),
        ..perennial_cosmos::Settings::default()
    };
    let store = perennial_cosmos::open(account, settings).await?;
    let clock = Arc::new(Ahead { by_ms: ahead_ms });
    let workflows = Workflows::open_with_clock(Arc::new(store), Settings::default(), clock).await?;
    Ok(Arc::new(workflows))
}

/// Opens the store and runs workflows until it is killed or its standard input ends.
pub async fn live(orders: Orders) -> Result<(), Failure> {
    let ledger = Arc::new(Ledger::open(&orders.ledger)?);
    let store = open(Account::parse(&orders.url)?, orders.ahead_ms).await?;
    ledger.append(&Line::Opened);
    let witness = Witness::new(store, Arc::clone(&ledger));
    let activities = perennial_crash::workflows::activities(&ledger);
    let runtime = Runtime::start_with_options(witness, activities, workflows::workflows(), options()).await;
    println!("{READY}");
    // When this ends, the process that started it is gone.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    runtime.shutdown(None).await;
    Ok(())
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        orchestrator_lock_timeout: TURN_LEASE,
        orchestrator_lock_renewal_buffer: TURN_LEASE / 2,
        worker_lock_timeout: WORK_LEASE,
        worker_lock_renewal_buffer: WORK_LEASE / 2,
        session_lock_timeout: WORK_LEASE,
        session_lock_renewal_buffer: WORK_LEASE / 2,
        session_idle_timeout: WORK_LEASE,
        session_cleanup_interval: WORK_LEASE,
        // Work that runs at a kill counts as attempted, though the item did not cause the kill.
        max_attempts: 10_000,
        ..RuntimeOptions::default()
    }
}
