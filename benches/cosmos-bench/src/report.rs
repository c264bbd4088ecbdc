//! The results, as a table, as JSON and as a plot.

use crate::Arguments;
use crate::measure::{Cell, Measured};
use perennial_bench::{Bar, BenchError, Panel, bars, load_average};
use serde::Serialize;
use std::fmt::Write;

/// The results, with the context needed to read them.
#[derive(Debug, Serialize)]
pub struct Report {
    seconds: u64,
    rounds: u32,
    latency_ms: u64,
    partitions: u32,
    idle_seconds: u64,
    tuned: bool,
    cpus: usize,
    load_after: Option<f64>,
    #[serde(flatten)]
    measured: Measured,
}

impl Report {
    /// The report on these results, with the arguments that they depend on.
    pub fn new(arguments: &Arguments, measured: Measured) -> Self {
        Self {
            seconds: arguments.seconds,
            rounds: arguments.rounds,
            latency_ms: arguments.latency_ms,
            partitions: arguments.partitions,
            idle_seconds: arguments.idle_seconds,
            tuned: !arguments.untuned,
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            load_after: load_average(),
            measured,
        }
    }

    /// As JSON.
    pub fn json(&self) -> Result<String, BenchError> {
        serde_json::to_string_pretty(self).map_err(|e| BenchError::new("write the numbers as JSON", e))
    }

    /// As a table in Markdown.
    pub fn table(&self) -> String {
        let mut out = String::from(
            "| workload | | requests each | of them queries | RU each | p50 ms | p99 ms | per second | done | failed |\n\
             |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for row in &self.measured.rows {
            for cell in &row.cells {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    out,
                    "| {} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.2} | {} | {} |",
                    row.case,
                    cell.side,
                    cell.requests,
                    cell.queries,
                    cell.units,
                    cell.p50_ms,
                    cell.p99_ms,
                    cell.per_second,
                    cell.workflows,
                    cell.failed
                );
            }
        }
        out.push_str("\n| idle | | requests per second | RU per second |\n|---|---|--:|--:|\n");
        for idle in &self.measured.idle {
            let _ = writeln!(
                out,
                "| {} slots | {} | {:.2} | {:.2} |",
                idle.slots, idle.side, idle.requests_per_second, idle.units_per_second
            );
        }
        for cell in self.measured.rows.iter().flat_map(|row| &row.cells) {
            if let Some(failure) = &cell.failure {
                let _ = writeln!(out, "{}: {failure}", cell.side);
            }
        }
        out
    }

    /// As a plot.
    pub fn svg(&self) -> String {
        let mut panels = Vec::new();
        for row in &self.measured.rows {
            let panel = |what: &str, value: fn(&Cell) -> f64, unit: &str| Panel {
                title: format!("{}: {what}", row.case),
                bars: row.cells.iter().map(|cell| bar(cell.side, value(cell), unit)).collect(),
            };
            panels.push(panel("requests per workflow, less is better", |cell| cell.requests, ""));
            if row.case.clients == 1 {
                panels.push(panel("median latency, less is better", |cell| cell.p50_ms, " ms"));
            } else {
                panels.push(panel(
                    "workflows per second, more is better",
                    |cell| cell.per_second,
                    " /s",
                ));
            }
        }
        for idle in self.measured.idle.chunk_by(|a, b| a.slots == b.slots) {
            let bar = |idle: &crate::measure::Idle| bar(idle.side, idle.requests_per_second, " /s");
            let slots = idle.first().map(|idle| idle.slots.to_string()).unwrap_or_default();
            panels.push(Panel {
                title: format!("idle, {slots} slots: requests per second, less is better"),
                bars: idle.iter().map(bar).collect(),
            });
        }
        let about = format!(
            "logarithmic bars; a test server with {} ms for each request, {} CPUs, {} × {} s",
            self.latency_ms, self.cpus, self.rounds, self.seconds
        );
        bars("On Azure Cosmos DB (emulated)", &about, &panels)
    }
}

fn bar(label: &str, value: f64, unit: &str) -> Bar {
    let digits = if value < 10.0 { 2 } else { 0 };
    Bar {
        label: label.to_owned(),
        value,
        text: format!("{value:.digits$}{unit}"),
    }
}
