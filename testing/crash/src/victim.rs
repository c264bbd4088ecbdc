//! The process that is killed.

use crate::Failure;
use crate::driver::Driver;
use crate::ledger::{Ledger, Lines};
use crate::line::Line;
use crate::witness::Witness;
use crate::{report, workflows};
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The line that the victim prints on its standard output once its runtime runs.
pub const READY: &str = "ready";

/// The arguments of a victim.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The URL of the store.
    pub url: String,
    /// The ledger, outside the store.
    pub ledger: PathBuf,
    /// Whether to begin nothing new, and to leave once everything has ended.
    pub finish: bool,
    /// How large the inputs of the [naps](crate::case::Kind::Nap) are, in bytes: more fills the store's tables faster.
    pub input_bytes: usize,
}

/// Opens the store, writes down what it finds, and runs workflows until it is killed or has finished.
pub async fn live(orders: Orders) -> Result<(), Failure> {
    let ledger = Arc::new(Ledger::open(&orders.ledger)?);
    let past = Lines::read(&orders.ledger)?;
    let store = perennial::open(&orders.url).await?;
    ledger.append(&Line::Opened);
    let admin = store
        .as_management_capability()
        .ok_or("the store cannot be administered")?;
    report::completed(admin, &past, &ledger).await?;

    let witness = Witness::new(store.clone(), Arc::clone(&ledger));
    let activities = workflows::activities(&ledger);
    let runtime = Runtime::start_with_options(witness.clone(), activities, workflows::workflows(), options()).await;
    println!("{READY}");
    let driver = Driver::new(witness, ledger, &past, orders.input_bytes);
    driver.run(orders.finish).await?;
    runtime.shutdown(None).await;
    store.close().await?;
    Ok(())
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(10),
        orchestration_concurrency: 3,
        worker_concurrency: 4,
        // Work that runs at a kill counts as attempted. Here any attempt may end in a kill that the item did not
        // cause.
        max_attempts: 10_000,
        ..RuntimeOptions::default()
    }
}
