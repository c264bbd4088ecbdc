//! `perennial cosmos emulator`: an emulated account in this process.

use super::{account, refused};
use crate::error::{CliError, EXIT_CODES};
use crate::output::{Output, fact};
use crate::stop;
use clap::Args;
use perennial_cosmos::{Settings, Throughput};
use perennial_cosmos_server::{Options, Server};

/// The port of every Cosmos DB emulator.
const PORT: u16 = 8081;

const EXAMPLES: &str = "\
It is Microsoft's in-memory emulator behind a front that is as strict as the service; it needs no Docker and keeps
nothing. Request units are estimates. It gets slower with every document that it holds: count requests on it, never time.
RUST_BACKTRACE=1 makes it several times slower.

Examples:
  In one terminal:
      perennial cosmos emulator
  In another, with the URL that it prints:
      perennial demo --store cosmos+http://127.0.0.1:8081/perennial/workflows
      perennial cosmos cost cosmos+http://127.0.0.1:8081/perennial/workflows --per-minute 600

Ctrl-C ends it, with exit code 0: that is how it ends.
";

/// Serve an emulated Cosmos DB account on this machine until Ctrl-C; its data is gone then
#[derive(Debug, Args)]
#[command(after_help = "More: perennial cosmos emulator --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Arguments {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = PORT)]
    port: u16,

    /// Physical partitions of each container. With more, batches are faster and every query for work takes more
    /// requests
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    partitions: u32,
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    // Requested before anything is printed, so that a stop right after the URL was read is not missed.
    let mut stop = std::pin::pin!(stop::requested());
    let server = tokio::select! {
        server = serve(&arguments) => server?,
        () = &mut stop => return Ok(()),
    };
    output.facts(
        "Cosmos DB emulator",
        &[
            fact("endpoint", "endpoint", server.endpoint()),
            fact("key", "key (published, no secret)", server.key()),
            fact("url", "a store that is ready", url(&server)),
        ],
    )?;
    if output.is_terminal() {
        output.line("Ctrl-C ends it, and its data is gone.")?;
    }
    stop.await;
    server.shutdown();
    Ok(())
}

/// A server with a store on it that is ready.
async fn serve(arguments: &Arguments) -> Result<Server, CliError> {
    let options = Options {
        port: arguments.port,
        partitions: arguments.partitions,
        ..Options::default()
    };
    let server = Server::start(options).await.map_err(|error| {
        let advice = "name another one with --port, or 0 for any that is free";
        CliError::Failed(format!("could not serve on port {}: {error}; {advice}", arguments.port))
    })?;
    let account = account(&url(&server))?.with_key(server.key());
    perennial_cosmos::init(&account, Throughput::Serverless, &Settings::default())
        .await
        .map_err(refused)?;
    Ok(server)
}

fn url(server: &Server) -> String {
    let endpoint = server.endpoint();
    let address = endpoint.strip_prefix("http://").unwrap_or(&endpoint);
    format!("cosmos+http://{address}perennial/workflows")
}
