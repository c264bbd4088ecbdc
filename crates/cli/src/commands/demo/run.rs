//! One run of the demo on an open store, from finding out where the last one stopped to the closing table.

use super::activities::{self, Shop};
use super::histories::{self, Ending, Recorded};
use super::ledger::{Entries, Ledger};
use super::order::{Batch, Order};
use super::progress::{Progress, Tally};
use super::report::{self, Closing};
use super::{Arguments, courier, fresh, workflows};
use crate::error::CliError;
use crate::output::Output;
use crate::stores::OpenStore;
use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use perennial_bench::{Finished, Observed};
use perennial_interpose::Interposed;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;

const TICK: Duration = Duration::from_millis(100);
/// After so long without an ending, the histories are read again, in case one was missed.
const STALLED: Duration = Duration::from_secs(3);
const GRACE_MS: u64 = 2_000;

/// What the runtime and the courier tell the demo.
enum News {
    Finished(Finished),
    Problem(String),
}

/// Where this run starts from.
struct Start {
    batch: Batch,
    recorded: Recorded,
    entries: Entries,
    run: u32,
}

/// Runs the demo.
pub async fn on_store(
    store: &OpenStore,
    ledger_path: &Path,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), CliError> {
    let provider = store.provider();
    if arguments.fresh {
        fresh::wipe(&provider, ledger_path, arguments.yes, output).await?;
    }
    let start = find_start(provider.as_ref(), ledger_path, arguments, output).await?;
    report::opening(output, &start.batch, start.run, &start.recorded, &start.entries)?;

    let (couriers, bookings) = mpsc::unbounded_channel();
    for order in &start.recorded.unanswered {
        // The receiver is still here.
        let _ = couriers.send(*order);
    }
    let shop = Arc::new(Shop {
        ledger: Ledger::begin(ledger_path, start.run)?,
        couriers,
        step: Duration::from_millis(arguments.step_ms),
    });

    let (sender, mut news) = mpsc::unbounded_channel();
    let observed = Observed::new(provider, {
        let sender = sender.clone();
        // Nobody listens any more when the demo is being stopped.
        move |finished| drop(sender.send(News::Finished(finished)))
    });
    let observed_store: Arc<dyn Provider> = observed.clone();
    let begun = Instant::now();
    let runtime = Runtime::start_with_options(
        Arc::clone(&observed_store),
        activities::registry(&shop),
        workflows::registry(),
        options(),
    )
    .await;
    let courier = tokio::spawn(courier::run(
        Client::new(Arc::clone(&observed_store)),
        bookings,
        move |problem| {
            drop(sender.send(News::Problem(problem)));
        },
    ));
    let watched = watch(&observed, &start, &mut news, output).await;
    let elapsed = begun.elapsed();
    runtime.shutdown(Some(GRACE_MS)).await;
    drop(shop);
    stop(courier).await;

    let batch = watched?;
    let recorded = histories::scan(observed_store.as_ref(), batch).await?;
    let entries = Entries::read(ledger_path)?;
    let closing = Closing {
        batch,
        run: start.run,
        before: &start.recorded,
        after: &recorded,
        entries: &entries,
        elapsed,
        counts: observed.counts(),
    };
    closing.write(output)
}

/// Finds the batch to go on with, or the number of a new one.
async fn find_start(
    store: &dyn Provider,
    ledger_path: &Path,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<Start, CliError> {
    let last = histories::last_batch(store).await?;
    let mut entries = Entries::read(ledger_path)?;
    if last.is_none() && entries.runs() > 0 {
        output.line(format!(
            "the store holds no demo; the ledger {} of another one is begun anew",
            ledger_path.display()
        ))?;
        std::fs::remove_file(ledger_path)
            .map_err(|e| CliError::failed(&format!("remove the ledger {}", ledger_path.display()), e))?;
        entries = Entries::default();
    }
    let run = entries.runs() + 1;
    let mut number = 1;
    if let Some(batch) = last {
        let recorded = histories::scan(store, batch).await?;
        if recorded.ended.len() < batch.orders as usize {
            return Ok(Start {
                batch,
                recorded,
                entries,
                run,
            });
        }
        output.line(format!(
            "batch {} is complete ({} orders): starting a new one",
            batch.number, batch.orders
        ))?;
        number = batch.number + 1;
    }
    let batch = Batch {
        number,
        orders: arguments.workflows,
        pause_ms: 10 * arguments.step_ms,
    };
    Ok(Start {
        batch,
        recorded: Recorded::default(),
        entries,
        run,
    })
}

/// Places the batch, if that was not done, and watches until all its orders have ended.
async fn watch(
    observed: &Arc<Interposed<Observed>>,
    start: &Start,
    news: &mut UnboundedReceiver<News>,
    output: &mut Output,
) -> Result<Batch, CliError> {
    let mut batch = start.batch;
    let client = Client::new(Arc::clone(observed) as Arc<dyn Provider>);
    // A start that is already there is ignored by the runtime, so this needs no care after a crash.
    client
        .start_orchestration_typed(Batch::instance(batch.number), workflows::PLACE_BATCH, batch)
        .await
        .map_err(|e| CliError::failed("place the orders", e))?;

    let mut placed = false;
    let mut progress = Progress::new(output);
    let mut ended = start.recorded.ended.clone();
    let mut heard = Instant::now();
    let mut stop = std::pin::pin!(crate::stop::requested());
    let mut ticks = tokio::time::interval(TICK);
    while !placed || ended.len() < batch.orders as usize {
        tokio::select! {
            told = news.recv() => match told {
                Some(News::Finished(finished)) => {
                    heard = Instant::now();
                    if Order::is_instance(&finished.instance) {
                        ended.insert(finished.instance, Ending::of(finished.completed, &finished.output));
                    }
                }
                Some(News::Problem(problem)) => {
                    progress.clear();
                    return Err(CliError::Failed(problem));
                }
                None => break,
            },
            _ = ticks.tick() => {
                if !placed {
                    // The batch in the store counts, if an earlier run had placed it without seeing it begin.
                    let found = histories::placed(observed.as_ref(), batch.number).await?;
                    placed = found.is_some();
                    batch = found.unwrap_or(batch);
                }
                if heard.elapsed() > STALLED {
                    heard = Instant::now();
                    ended = histories::scan(observed.as_ref(), batch).await?.ended;
                }
                progress.show(output, batch.orders, Tally::of(ended.values()), observed.counts())?;
            }
            () = &mut stop => {
                progress.clear();
                report::interrupted(output, &batch, ended.len())?;
                return Err(CliError::Interrupted);
            }
        }
    }
    progress.clear();
    Ok(batch)
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 16,
        // Steps are short, so that a shared store hands out the work of a dead process soon.
        worker_lock_timeout: Duration::from_secs(10),
        worker_lock_renewal_buffer: Duration::from_secs(3),
        ..RuntimeOptions::default()
    }
}

async fn stop(task: JoinHandle<()>) {
    task.abort();
    // It was told to end; how it did so does not matter.
    let _ = task.await;
}
