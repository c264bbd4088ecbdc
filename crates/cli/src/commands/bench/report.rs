//! The comparison as a table.

use super::Side;
use crate::error::CliError;
use crate::output::Output;
use crate::table::Table;
use clap::ValueEnum;
use perennial_bench::{Cell, Report, Row};
use std::path::Path;

/// Writes the table and the notes needed to read it.
pub fn write(output: &mut Output, report: &Report, against: Option<Side>) -> Result<(), CliError> {
    let baseline = against
        .and_then(|side| side.to_possible_value())
        .map(|value| value.get_name().to_owned());
    let mut head = vec![
        "workload".to_owned(),
        "slots".into(),
        "clients".into(),
        "store".into(),
        "per second".into(),
        "p50 ms".into(),
        "p90 ms".into(),
        "p99 ms".into(),
        "CPU ms each".into(),
        "CPU s".into(),
        "failed".into(),
    ];
    if let Some(baseline) = &baseline {
        head.push(format!("× {baseline}"));
    }
    let mut table = Table::new(head);
    for row in &report.rows {
        for cell in &row.cells {
            table.row(line(row, cell, baseline.as_deref()));
        }
    }
    output.table(&table)?;
    output.line(format!(
        "{} rounds of {} s on {} CPUs, stores in turn, each round on an empty store; \"per second\" is the median round.",
        report.rounds, report.duration_s, report.cpus
    ))?;
    if let Some(load) = report.load_before.filter(|load| *load > 0.5) {
        output.line(format!(
            "The machine was not idle: load average {load} before the start. Trust the ratios, not the numbers."
        ))?;
    }
    for (row, cell) in report
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
    {
        if let Some(failure) = cell.failure() {
            output.line(format!(
                "{} on {}: {} workflows failed, one with: {failure}",
                row.case, cell.target, cell.failed
            ))?;
        }
    }
    output.line(format!("Latency is measured {}.", report.wait))?;
    if let Some(baseline) = baseline {
        output.line(format!(
            "\"× {baseline}\": how many times its throughput; with one client, how many times shorter the median latency."
        ))?;
    }
    Ok(())
}

fn line(row: &Row, cell: &Cell, baseline: Option<&str>) -> Vec<String> {
    let ms = |us: u64| format!("{:.2}", us as f64 / 1_000.0);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    let mut line = vec![
        row.case.workload.name(),
        row.case.slots.to_string(),
        row.case.clients.to_string(),
        cell.target.clone(),
        if cell.per_second < 100.0 {
            format!("{:.1}", cell.per_second)
        } else {
            format!("{:.0}", cell.per_second)
        },
        ms(cell.p50_us),
        ms(cell.p90_us),
        ms(cell.p99_us),
        number(cell.cpu_ms_per_workflow),
        number(cell.cpu_s()),
        cell.failed.to_string(),
    ];
    if let Some(baseline) = baseline {
        let times = row.times_faster(&cell.target, baseline);
        line.push(times.map_or("-".to_owned(), |times| format!("{times:.1}")));
    }
    line
}

/// Writes a result file.
pub fn write_file(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|e| CliError::failed(&format!("write {}", path.display()), e))
}
