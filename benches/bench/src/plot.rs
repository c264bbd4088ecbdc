//! The report as a plot: one panel of horizontal bars per case, on a logarithmic scale.

use crate::report::{Cell, Report, Row};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LABELS: f64 = 110.0;
const BAR: f64 = 20.0;
const PANEL_HEAD: f64 = 34.0;
const COLOURS: [&str; 4] = ["#2f6f4f", "#7fb069", "#b0b0b0", "#d08c60"];

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What stands before it.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// What stands behind it.
    pub text: String,
}

/// Bars that are compared with each other, under a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// Renders `report` as an SVG document.
pub fn svg(report: &Report) -> String {
    let about = format!(
        "logarithmic bars; {} CPUs, {} rounds of {} s; latency {}",
        report.cpus, report.rounds, report.duration_s, report.wait
    );
    let panels: Vec<Panel> = report.rows.iter().map(panel_of).collect();
    bars("perennial bench", &about, &panels)
}

fn panel_of(row: &Row) -> Panel {
    let by_latency = row.case.clients == 1;
    let unit = if by_latency {
        "median latency, less is better"
    } else {
        "workflows per second, more is better"
    };
    let bar = |cell: &Cell| {
        let (value, text) = if by_latency {
            let ms = cell.p50_us as f64 / 1_000.0;
            (ms, format!("{ms:.2} ms"))
        } else {
            (cell.per_second, format!("{:.0} /s", cell.per_second))
        };
        Bar {
            label: cell.target.clone(),
            value,
            text,
        }
    };
    Panel {
        title: format!("{}: {unit}", row.case),
        bars: row.cells.iter().map(bar).collect(),
    }
}

/// Renders panels of horizontal bars as an SVG document, each on a logarithmic scale of its own.
pub fn bars(title: &str, about: &str, panels: &[Panel]) -> String {
    let count: usize = panels.iter().map(|panel| panel.bars.len()).sum();
    let height = 60.0 + panels.len() as f64 * PANEL_HEAD + count as f64 * BAR + 20.0;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"600\">{title}</text>\n\
         <text x=\"16\" y=\"46\" fill=\"#555\">{about}</text>\n",
    );
    let mut y = 60.0;
    for panel in panels {
        y = draw(&mut out, panel, y);
    }
    out.push_str("</svg>\n");
    out
}

/// Draws one panel from `y` downwards and returns where the next one starts.
fn draw(out: &mut String, panel: &Panel, mut y: f64) -> f64 {
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\" font-weight=\"600\">{}</text>",
        y + 22.0,
        panel.title
    );
    y += PANEL_HEAD;
    let values = || panel.bars.iter().map(|bar| bar.value);
    let most = values().fold(0.0, f64::max);
    let least = values().filter(|v| *v > 0.0).fold(most, f64::min);
    // Half a decade of room below the least value keeps its bar visible.
    let (low, high) = ((least / 3.0).max(1e-6).log10(), most.max(1e-5).log10());
    for (i, bar) in panel.bars.iter().enumerate() {
        let share = if bar.value > 0.0 {
            (bar.value.log10() - low) / (high - low)
        } else {
            0.0
        };
        let length = (share * (WIDTH - LABELS - 160.0)).max(1.0);
        let colour = COLOURS.get(i % COLOURS.len()).copied().unwrap_or("black");
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LABELS}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{}</text>\n",
            LABELS - 8.0,
            y + 14.0,
            bar.label,
            BAR - 4.0,
            LABELS + length + 6.0,
            y + 14.0,
            bar.text,
        );
        y += BAR;
    }
    y
}
