//! One run of the demo on an open store, from finding where the last one stopped to the closing table.

use super::activities::{self, Shop};
use super::histories::{self, Ending, Recorded};
use super::ledger::{Entries, Ledger};
use super::order::Batch;
use super::progress::{Counters, Progress};
use super::proof::{Proof, Watch};
use super::report::{self, Closing};
use super::{Arguments, fresh, workflows};
use crate::error::CliError;
use crate::output::Output;
use crate::stores::OpenStore;
use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use perennial_bench::{Finished, Observed};
use perennial_interpose::Interposed;
use perennial_store::Store;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver};

const TICK: Duration = Duration::from_millis(100);
/// After this long without an ending, the histories are read again, in case one was missed.
const STALLED: Duration = Duration::from_secs(3);
const GRACE_MS: u64 = 2_000;

/// Messages of the runtime and the activities to the demo.
enum News {
    Finished(Finished),
    Problem(String),
}

/// Where this run starts from.
struct Start {
    batch: Batch,
    recorded: Recorded,
    /// The ledger, read after the histories.
    entries: Entries,
}

/// Runs the demo.
pub async fn on_store(store: &OpenStore, arguments: &Arguments, output: &mut Output) -> Result<(), CliError> {
    let provider = store.provider();
    let records = store.records()?;
    if arguments.fresh {
        fresh::wipe(&provider, &*records, arguments.yes, output).await?;
    }
    let start = find_start(provider.as_ref(), &*records, arguments, output).await?;
    let ledger = Ledger::begin(Arc::clone(&records)).await?;
    let run = ledger.run();
    report::opening(output, &start.batch, run, &start.recorded, &start.entries)?;

    let (sender, mut news) = mpsc::unbounded_channel();
    let shop = Arc::new(Shop {
        ledger,
        step: Duration::from_millis(arguments.step_ms),
        problem: Box::new({
            let sender = sender.clone();
            move |problem| drop(sender.send(News::Problem(problem)))
        }),
    });
    let observed = Observed::new(provider, {
        // The receiver is gone when the demo is being stopped.
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
    let watched = watch(&observed, &*records, &start, &mut news, output).await;
    let elapsed = begun.elapsed();
    runtime.shutdown(Some(GRACE_MS)).await;

    let (batch, seen) = watched?;
    let recorded = histories::scan(observed_store.as_ref(), batch).await?;
    let entries = Entries::read(&*records, batch.number).await?;
    let closing = Closing {
        batch,
        run,
        before: &start.recorded,
        after: &recorded,
        entries: &entries,
        proof: Proof::new(&start.recorded.steps, &start.entries, seen, &entries),
        elapsed,
        counts: observed.counts(),
    };
    closing.write(output)
}

/// Finds the batch to continue, or the number of a new one.
async fn find_start(
    provider: &dyn Provider,
    records: &dyn Store,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<Start, CliError> {
    let mut number = 1;
    if let Some(batch) = histories::last_batch(provider).await? {
        let recorded = histories::scan(provider, batch).await?;
        if !recorded.is_complete(batch) {
            return Ok(Start {
                batch,
                recorded,
                entries: Entries::read(records, batch.number).await?,
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
        // Another process may have begun the same batch by now.
        entries: Entries::read(records, number).await?,
    })
}

/// Places the batch, if that was not done, and watches until all its orders have ended, here or in other processes.
async fn watch(
    observed: &Arc<Interposed<Observed>>,
    records: &dyn Store,
    start: &Start,
    news: &mut UnboundedReceiver<News>,
    output: &mut Output,
) -> Result<(Batch, Watch), CliError> {
    let batch = start.batch;
    let client = Client::new(Arc::clone(observed) as Arc<dyn Provider>);
    // The runtime ignores a second start, so this needs no care after a crash.
    client
        .start_orchestration_typed(Batch::instance(batch.number), workflows::PLACE_BATCH, batch)
        .await
        .map_err(|e| CliError::failed("place the orders", e))?;

    let mut progress = Progress::new(output);
    let mut watched = Watched::new(start);
    let mut stop = std::pin::pin!(crate::stop::requested());
    let mut ticks = tokio::time::interval(TICK);
    while !watched.is_complete() {
        tokio::select! {
            message = news.recv() => match message {
                Some(News::Finished(finished)) => watched.note(finished),
                Some(News::Problem(problem)) => {
                    progress.clear();
                    return Err(CliError::Failed(problem));
                }
                None => break,
            },
            _ = ticks.tick() => {
                watched.refresh(observed.as_ref(), records).await?;
                let counters = Counters::of(watched.ended.values());
                progress.show(output, watched.batch.orders, counters, observed.counts())?;
            }
            () = &mut stop => {
                progress.clear();
                report::interrupted(output, &watched.batch, watched.ended.len())?;
                return Err(CliError::Interrupted);
            }
        }
    }
    progress.clear();
    Ok((watched.batch, watched.seen))
}

/// What is known of a batch while it runs.
struct Watched {
    batch: Batch,
    placed: bool,
    ended: HashMap<String, Ending>,
    answered: HashSet<String>,
    seen: Watch,
    /// When an ending was last reported, or the histories were last read.
    heard: Instant,
}

impl Watched {
    fn new(start: &Start) -> Self {
        Self {
            batch: start.batch,
            placed: false,
            ended: start.recorded.ended.clone(),
            answered: start.recorded.answered.clone(),
            seen: Watch::new(start.recorded.steps.clone(), start.entries.clone()),
            heard: Instant::now(),
        }
    }

    fn is_complete(&self) -> bool {
        self.placed && histories::is_complete(self.batch, &self.ended, &self.answered)
    }

    /// Notes the end of a workflow.
    fn note(&mut self, finished: Finished) {
        self.heard = Instant::now();
        if self.batch.has_order(&finished.instance) {
            let ending = Ending::of(finished.completed, &finished.output);
            self.ended.insert(finished.instance, ending);
        } else if self.batch.has_courier(&finished.instance) {
            self.answered.insert(finished.instance);
        }
    }

    /// Reads from the store what was not reported.
    async fn refresh(&mut self, store: &dyn Provider, records: &dyn Store) -> Result<(), CliError> {
        if !self.placed {
            // The batch in the store counts, if an earlier run had placed it without seeing it begin.
            let found = histories::placed(store, self.batch.number).await?;
            self.placed = found.is_some();
            self.batch = found.unwrap_or(self.batch);
        }
        if self.heard.elapsed() > STALLED {
            let found = histories::scan(store, self.batch).await?;
            self.seen
                .compare(found.steps, Entries::read(records, self.batch.number).await?);
            (self.ended, self.answered) = (found.ended, found.answered);
            self.heard = Instant::now();
        }
        Ok(())
    }
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
