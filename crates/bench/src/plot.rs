//! The report as a plot: one panel of horizontal bars per case, on a logarithmic scale.

use crate::report::{Report, Row};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LABELS: f64 = 110.0;
const BAR: f64 = 20.0;
const PANEL_HEAD: f64 = 34.0;
const COLOURS: [&str; 4] = ["#2f6f4f", "#7fb069", "#b0b0b0", "#d08c60"];

/// Renders `report` as an SVG document.
pub fn svg(report: &Report) -> String {
    let bars: usize = report.rows.iter().map(|row| row.cells.len()).sum();
    let height = 60.0 + report.rows.len() as f64 * PANEL_HEAD + bars as f64 * BAR + 20.0;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"600\">perennial bench</text>\n\
         <text x=\"16\" y=\"46\" fill=\"#555\">logarithmic bars; {} CPUs, {} rounds of {} s; latency {}</text>\n",
        report.cpus, report.rounds, report.duration_s, report.wait
    );
    let mut y = 60.0;
    for row in &report.rows {
        y = panel(&mut out, row, y);
    }
    out.push_str("</svg>\n");
    out
}

/// Draws one case from `y` downwards and returns where the next one starts.
fn panel(out: &mut String, row: &Row, mut y: f64) -> f64 {
    let by_latency = row.case.clients == 1;
    let unit = if by_latency {
        "median latency, less is better"
    } else {
        "workflows per second, more is better"
    };
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\" font-weight=\"600\">{}: {unit}</text>",
        y + 22.0,
        row.case
    );
    y += PANEL_HEAD;
    let values: Vec<f64> = row
        .cells
        .iter()
        .map(|c| {
            if by_latency {
                c.p50_us as f64 / 1_000.0
            } else {
                c.per_second
            }
        })
        .collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().filter(|v| *v > 0.0).fold(most, f64::min);
    // Half a decade of room below the least value keeps its bar visible.
    let (low, high) = ((least / 3.0).max(1e-6).log10(), most.max(1e-5).log10());
    for (i, (cell, value)) in row.cells.iter().zip(&values).enumerate() {
        let share = if *value > 0.0 {
            (value.log10() - low) / (high - low)
        } else {
            0.0
        };
        let length = (share * (WIDTH - LABELS - 160.0)).max(1.0);
        let colour = COLOURS.get(i % COLOURS.len()).copied().unwrap_or("black");
        let text = if by_latency {
            format!("{value:.2} ms")
        } else {
            format!("{value:.0} /s")
        };
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LABELS}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{text}</text>\n",
            LABELS - 8.0,
            y + 14.0,
            cell.target,
            BAR - 4.0,
            LABELS + length + 6.0,
            y + 14.0,
        );
        y += BAR;
    }
    y
}
