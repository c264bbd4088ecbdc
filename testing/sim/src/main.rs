//! Runs seeds, the sweep, or the hunt for broken engines.

use perennial_sim::hunt::{Broken, MUTATIONS, hunt};
use perennial_sim::sweep::{scenarios, sweep};
use perennial_sim::{Config, Kind, Report, run, shrink};
use perennial_store::{Clock, SystemClock};
use std::ops::Range;
use std::process::ExitCode;

fn value(args: &[String], name: &str) -> Option<String> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1).cloned()
}

fn one(config: &Config, trace: bool) -> ExitCode {
    let outcome = run(config, trace);
    for line in &outcome.trace {
        println!("{line}");
    }
    for violation in &outcome.violations {
        println!("VIOLATION {violation}");
    }
    println!(
        "seed {}: {} violations, {} processes, {} calls, {} faults",
        config.seed,
        outcome.violations.len(),
        outcome.processes,
        outcome.calls,
        outcome.counters.total()
    );
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn many(kinds: &[Kind], seeds: Range<u64>, threads: usize, most: usize) -> ExitCode {
    let report = Report::of_seeds(kinds, seeds, threads, most);
    println!("{report}");
    for (kind, seed, violations) in &report.failed {
        let kind = kind.name();
        println!(
            "\nseed {seed} failed; replay: cargo run -p perennial-sim --release -- --{kind} --seed {seed} --trace"
        );
        violations
            .iter()
            .take(3)
            .for_each(|violation| println!("  {violation:.600}"));
    }
    if let Some((kind, seed, _)) = report.failed.first() {
        let small = shrink(&kind.of_seed(*seed));
        println!("\nthe smallest run that fails like seed {seed}; replay: --config FILE --trace");
        println!("{}", serde_json::to_string_pretty(&small).unwrap_or_default());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn every_fault(kind: Kind, only: &str, threads: usize) -> ExitCode {
    let mut scenarios = scenarios(kind);
    scenarios.retain(|scenario| scenario.name.contains(only));
    let swept = sweep(&scenarios, threads, 5);
    for (scenario, runs) in &swept.runs {
        println!("{runs:>6} {scenario}");
    }
    println!(
        "{:>6} runs, {} failed\n{}",
        swept.total(),
        swept.failed.len(),
        swept.counters
    );
    for (what, violation) in &swept.failed {
        println!("{what}: {violation:.600}");
    }
    match &swept.first {
        None => ExitCode::SUCCESS,
        Some(config) => {
            println!("\nthe first of them; replay: --config FILE --trace");
            println!("{}", serde_json::to_string(config).unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn every_mutation(kinds: &[Kind], only: &str, seeds: &Range<u64>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let is_asked = |(mutation, kind, _): &&Broken| kinds.contains(kind) && format!("{mutation:?}").contains(only);
    for (mutation, kind, _) in MUTATIONS.iter().filter(is_asked) {
        match hunt((*mutation, *kind, seeds.start), seeds.clone()) {
            Some(found) => println!("{mutation:?}: {}: {:.160}", found.by, found.violation),
            None => {
                println!("{mutation:?}: not found");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

const USAGE: &str = "usage: perennial-sim [--shared] --seed N [--trace]
       perennial-sim --config FILE [--trace]
       perennial-sim [--alone] [--shared] --seeds A..B [--threads T] [--failures N]
       perennial-sim [--alone] [--shared] --fresh N [--threads T] [--failures N]
       perennial-sim [--alone] [--shared] --sweep [--only SCENARIO] [--threads T]
       perennial-sim [--alone] [--shared] --mutations [--only MUTATION] [--seeds A..B]

--fresh   N seeds of each kind that were never run before, counted from the time in milliseconds
--alone   one process after another, on a store that belongs to it
--shared  several processes at once, on a store that they share";

/// The kinds given on the command line; both, if none was.
fn kinds(args: &[String]) -> Vec<Kind> {
    let is_asked = |kind: &Kind| args.iter().any(|arg| arg.strip_prefix("--") == Some(kind.name()));
    let both = [Kind::Alone, Kind::Shared];
    let asked: Vec<Kind> = both.into_iter().filter(is_asked).collect();
    if asked.is_empty() { both.to_vec() } else { asked }
}

/// Seeds from one to another: `A..B`.
fn range(seeds: &str) -> Option<Range<u64>> {
    let (from, to) = seeds.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

/// This many seeds that were never run before: no machine runs a thousand in a second, so a range that begins with the time
/// in milliseconds is beyond those of all earlier runs. Seeds that were worked on until they were clean prove little.
fn fresh(count: u64) -> Range<u64> {
    let from = SystemClock.now_ms();
    let seeds = from..from.saturating_add(count);
    println!("fresh seeds {}..{}", seeds.start, seeds.end);
    seeds
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let trace = args.iter().any(|arg| arg == "--trace");
    let kinds = kinds(&args);
    if let (Some(seed), Some(kind)) = (value(&args, "--seed").and_then(|seed| seed.parse().ok()), kinds.first()) {
        return one(&kind.of_seed(seed), trace);
    }
    if let Some(path) = value(&args, "--config") {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        return match serde_json::from_str(&text) {
            Ok(config) => one(&config, trace),
            Err(why) => {
                eprintln!("{path} holds no run: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let threads = value(&args, "--threads")
        .and_then(|count| count.parse().ok())
        .unwrap_or(2);
    let only = value(&args, "--only").unwrap_or_default();
    let is_asked = |name: &str| args.iter().any(|arg| arg == name);
    if is_asked("--sweep") {
        let codes: Vec<ExitCode> = kinds.iter().map(|kind| every_fault(*kind, &only, threads)).collect();
        let failed = codes.into_iter().find(|code| *code != ExitCode::SUCCESS);
        return failed.unwrap_or(ExitCode::SUCCESS);
    }
    let most = value(&args, "--failures")
        .and_then(|count| count.parse().ok())
        .unwrap_or(1);
    let range = match value(&args, "--fresh") {
        Some(count) => count.parse().ok().map(fresh),
        None => range(&value(&args, "--seeds").unwrap_or_else(|| "0..1000".to_owned())),
    };
    match range {
        Some(range) if is_asked("--mutations") => every_mutation(&kinds, &only, &range),
        Some(range) => many(&kinds, range, threads, most),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
