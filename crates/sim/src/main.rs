//! Runs seeds, the sweep, or the hunt for broken engines.

use perennial_sim::hunt::{MUTATIONS, hunt};
use perennial_sim::sweep::sweep;
use perennial_sim::{Config, Report, run, shrink};
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
        outcome.tally.total()
    );
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn many(from: u64, to: u64, threads: usize, most: usize) -> ExitCode {
    let report = Report::of_seeds(from..to, threads, most);
    println!("{report}");
    for (seed, violations) in &report.failed {
        println!("\nseed {seed} failed; replay: cargo run -p perennial-sim --release -- --seed {seed} --trace");
        violations
            .iter()
            .take(3)
            .for_each(|violation| println!("  {violation:.600}"));
    }
    if let Some((seed, _)) = report.failed.first() {
        let small = shrink(&Config::of_seed(*seed));
        println!("\nthe smallest run that fails like seed {seed}; replay: --config FILE --trace");
        println!("{}", serde_json::to_string_pretty(&small).unwrap_or_default());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn every_fault(threads: usize) -> ExitCode {
    let swept = sweep(threads, 5);
    for (scenario, runs) in &swept.runs {
        println!("{runs:>6} {scenario}");
    }
    println!(
        "{:>6} runs, {} failed\n{}",
        swept.total(),
        swept.failed.len(),
        swept.tally
    );
    for (what, violation) in &swept.failed {
        println!("{what}: {violation:.600}");
    }
    if swept.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn every_mutation() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (mutation, _) in MUTATIONS {
        match hunt(mutation, Some(0), 2_000) {
            Some(found) => println!("{mutation:?}: {}: {:.160}", found.by, found.violation),
            None => {
                println!("{mutation:?}: not found");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

const USAGE: &str = "usage: perennial-sim --seed N [--trace]
       perennial-sim --config FILE [--trace]
       perennial-sim --seeds A..B [--threads T] [--failures N]
       perennial-sim --sweep
       perennial-sim --mutations";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let trace = args.iter().any(|arg| arg == "--trace");
    if let Some(seed) = value(&args, "--seed").and_then(|seed| seed.parse().ok()) {
        return one(&Config::of_seed(seed), trace);
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
    match args.first().map(String::as_str) {
        Some("--sweep") => return every_fault(threads),
        Some("--mutations") => return every_mutation(),
        _ => {}
    }
    let seeds = value(&args, "--seeds").unwrap_or_else(|| "0..1000".to_owned());
    let most = value(&args, "--failures")
        .and_then(|count| count.parse().ok())
        .unwrap_or(1);
    let range = seeds
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match range {
        Some((from, to)) => many(from, to, threads, most),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
