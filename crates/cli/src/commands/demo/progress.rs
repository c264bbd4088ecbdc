//! The progress of the demo: a bar with a live count at a terminal, a plain line a second elsewhere.

use super::histories::Ending;
use crate::output::Output;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use perennial_bench::Counts;
use std::io;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// How many orders have ended, and how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Delivered orders.
    pub delivered: u32,
    /// Orders that were undone.
    pub compensated: u32,
    /// Orders that failed.
    pub failed: u32,
}

impl Counters {
    /// Counts endings.
    pub fn of<'a>(endings: impl Iterator<Item = &'a Ending>) -> Self {
        let mut counters = Self::default();
        for ending in endings {
            match ending {
                Ending::Delivered => counters.delivered += 1,
                Ending::Compensated => counters.compensated += 1,
                Ending::Failed(_) => counters.failed += 1,
            }
        }
        counters
    }

    /// All that ended.
    pub fn ended(self) -> u32 {
        self.delivered + self.compensated + self.failed
    }
}

/// The display.
pub struct Progress {
    bar: Option<ProgressBar>,
    shown: Instant,
    counted: (Instant, u64),
    commits_per_s: f64,
}

impl Progress {
    /// A bar if `output` is a terminal.
    pub fn new(output: &Output) -> Self {
        let now = Instant::now();
        let bar = output
            .is_terminal()
            .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        Self {
            bar,
            shown: now,
            counted: (now, 0),
            commits_per_s: 0.0,
        }
    }

    /// Shows the state of things.
    pub fn show(&mut self, output: &mut Output, total: u32, counters: Counters, counts: Counts) -> io::Result<()> {
        self.count(counts.commits());
        let Counters {
            delivered,
            compensated,
            failed,
        } = counters;
        let running = total.saturating_sub(counters.ended());
        let rate = self.commits_per_s;
        let activities = counts.activities;
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(total));
            bar.set_position(u64::from(counters.ended()));
            let parts = [
                format!("{}/{total} orders", counters.ended()),
                format!("{running} running"),
                format!("{delivered} delivered"),
                format!("{compensated} compensated"),
                format!("{activities} activities"),
                format!("{rate:.0} commits/s"),
            ];
            let (template, message) = layout(&parts, usize::from(Term::stderr().size().1));
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(message);
            return Ok(());
        }
        if self.shown.elapsed() < LINE_EVERY {
            return Ok(());
        }
        self.shown = Instant::now();
        output.line(format!(
            "progress running={running} delivered={delivered} compensated={compensated} failed={failed} \
             activities={activities} commits_per_s={rate:.0}"
        ))
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The rate over the last half second or more: shorter windows only flicker.
    fn count(&mut self, commits: u64) {
        let (since, before) = self.counted;
        let elapsed = since.elapsed();
        if elapsed >= Duration::from_millis(500) {
            self.commits_per_s = commits.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            self.counted = (Instant::now(), commits);
        }
    }
}

/// Columns that the bar takes, with the space behind it.
const BAR: usize = 21;

/// The bar with as many of the parts behind it as fit whole; without the bar where not even the first would.
fn layout(parts: &[String], columns: usize) -> (&'static str, String) {
    let beside = fitting(parts, columns.saturating_sub(BAR));
    match beside.is_empty() {
        true => ("{msg}", fitting(parts, columns)),
        false => ("{bar:20.green} {msg}", beside),
    }
}

/// As many of the parts as fit whole: half a number is worse than none.
fn fitting(parts: &[String], columns: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let longer = match line.is_empty() {
            true => part.clone(),
            false => format!("{line}, {part}"),
        };
        if longer.chars().count() > columns {
            break;
        }
        line = longer;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_width_no_part_is_cut() {
        let parts = ["123/300 orders", "45 running", "6789 activities"].map(str::to_owned);
        for columns in 0..120 {
            let (template, message) = layout(&parts, columns);
            let bar = if template.contains("{bar") { BAR } else { 0 };
            assert!(bar + message.chars().count() <= columns, "{columns}: {message}");
            let shown = message.split(", ").filter(|part| !part.is_empty()).count();
            assert_eq!(message, parts[..shown].join(", "), "{columns}");
        }
        assert_eq!(layout(&parts, 14), ("{msg}", "123/300 orders".to_owned()));
        assert_eq!(layout(&parts, 120).1, parts.join(", "));
    }
}
