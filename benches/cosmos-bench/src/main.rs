//! `cosmos-bench`: perennial on Azure Cosmos DB, side by side with duroxide-cdb, on a test server that counts.
//!
//! ```sh
//! cargo run --release -p perennial-cosmos-bench --features incumbent
//! ```

#![allow(clippy::disallowed_methods, reason = "measuring wall time is this program's purpose")]

mod idle;
mod measure;
mod report;
mod sides;

use clap::Parser;
use perennial_bench::{BenchError, Case, Slots, Workload};
use perennial_cosmos_server::{Latency, Options, Server};
use std::path::PathBuf;
use std::time::Duration;

/// The emulator copies documents all the time, for both sides; the benchmark would measure the machine's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures perennial on Azure Cosmos DB, side by side with duroxide-cdb where that was built in
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Seconds that clients go on starting workflows in one round
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Rounds of each case on each side, in turn
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Seconds that an idle runtime is watched
    #[arg(long, default_value_t = 20)]
    idle_seconds: u64,
    /// Milliseconds that the server adds to each request
    #[arg(long, default_value_t = 5)]
    latency_ms: u64,
    /// Physical partitions of each container: the emulator copies a whole one for every batch
    #[arg(long, default_value_t = 1)]
    partitions: u32,
    /// Dispatcher slots: turns and activities at once
    #[arg(long, value_delimiter = ',', default_value = "2+2,16+16")]
    slots: Vec<Slots>,
    /// Leave duroxide-cdb's own slots at their default of 1 instead of telling it those of the runtime
    #[arg(long)]
    untuned: bool,
    /// Where to write the numbers as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to write the plot
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        let shapes = [(Workload::Hello, 1), (Workload::Hello, 20), (Workload::FanOut(100), 1)];
        let of_shape = |(workload, clients)| {
            self.slots.iter().map(move |slots| Case {
                workload,
                slots: *slots,
                clients,
            })
        };
        shapes.into_iter().flat_map(of_shape).collect()
    }
}

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), BenchError> {
    let arguments = Arguments::parse();
    let server = start(arguments.partitions).await?;
    server.set_latency(Latency {
        base_ms: arguments.latency_ms,
        jitter_ms: 0,
    });
    let plan = measure::Plan {
        cases: arguments.cases(),
        rounds: arguments.rounds,
        duration: Duration::from_secs(arguments.seconds),
        idle: Duration::from_secs(arguments.idle_seconds),
        idle_slots: arguments.slots.clone(),
        tuned: !arguments.untuned,
    };
    let measured = measure::all(&server, &plan, |what| eprintln!("{what}")).await?;
    let report = report::Report::new(&arguments, measured);
    print!("{}", report.table());
    if let Some(path) = &arguments.json {
        write(path, &report.json()?)?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &report.svg())?;
    }
    Ok(())
}

async fn start(partitions: u32) -> Result<Server, BenchError> {
    let options = Options {
        partitions,
        ..Options::default()
    };
    let server = Server::start(options).await;
    server.map_err(|e| BenchError::new("start the test server", e))
}

fn write(path: &PathBuf, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|e| BenchError::new(format!("write {}", path.display()), e))
}
