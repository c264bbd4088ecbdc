//! How much was proved.

use super::Evidence;
use crate::line::{Activity, Line};
use duroxide::EventKind;
use std::collections::HashSet;
use std::fmt;

/// Counts over a whole test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Times that a process opened the store.
    pub openings: usize,
    /// Instances.
    pub workflows: usize,
    /// Executions of them.
    pub executions: usize,
    /// Events in all histories.
    pub events: usize,
    /// Turns that were acknowledged.
    pub turns: usize,
    /// Activities that were scheduled.
    pub activities: usize,
    /// Results of activities that were acknowledged.
    pub done: usize,
    /// Effects of activities.
    pub effects: usize,
    /// Effects beyond the first of their activity: it was in flight at a kill.
    pub reruns: usize,
    /// Calls of the client that were acknowledged.
    pub acked: usize,
    /// Calls of the client that a kill cut off before they were acknowledged.
    pub cut_off: usize,
    /// Lines of the ledger that a kill tore.
    pub torn: usize,
}

impl Figures {
    /// Counts.
    pub fn of(evidence: &Evidence) -> Self {
        let mut figures = Self {
            torn: evidence.ledger.torn,
            ..Self::default()
        };
        let mut ran: HashSet<&Activity> = HashSet::new();
        let mut tried = 0;
        for line in &evidence.ledger.all {
            match line {
                Line::Opened => figures.openings += 1,
                Line::Turned(_) => figures.turns += 1,
                Line::Done(_) => figures.done += 1,
                Line::Acked(_) => figures.acked += 1,
                Line::Tried(_) => tried += 1,
                Line::Effect(activity) => {
                    figures.effects += 1;
                    ran.insert(activity);
                }
                Line::Completed(_) | Line::Reported(_) | Line::Finished(_) => {}
            }
        }
        figures.reruns = figures.effects - ran.len();
        figures.cut_off = usize::saturating_sub(tried, figures.acked);
        figures.workflows = evidence.instances.len();
        let histories = evidence.instances.values().flat_map(|found| found.executions.values());
        for history in histories {
            figures.executions += 1;
            figures.events += history.len();
            let scheduled = history
                .iter()
                .filter(|e| matches!(e.kind, EventKind::ActivityScheduled { .. }));
            figures.activities += scheduled.count();
        }
        figures
    }
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.openings += other.openings;
        self.workflows += other.workflows;
        self.executions += other.executions;
        self.events += other.events;
        self.turns += other.turns;
        self.activities += other.activities;
        self.done += other.done;
        self.effects += other.effects;
        self.reruns += other.reruns;
        self.acked += other.acked;
        self.cut_off += other.cut_off;
        self.torn += other.torn;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            openings,
            workflows,
            executions,
            events,
            turns,
            activities,
            ..
        } = self;
        let Self {
            done,
            effects,
            reruns,
            acked,
            cut_off,
            torn,
            ..
        } = self;
        writeln!(f, "  openings {openings}")?;
        writeln!(
            f,
            "  workflows {workflows}, executions {executions}, events {events}, acknowledged turns {turns}"
        )?;
        writeln!(f, "  activities {activities}, acknowledged results {done}")?;
        writeln!(
            f,
            "  effects {effects}, of which re-runs of activities in flight at a kill {reruns}"
        )?;
        write!(
            f,
            "  acknowledged calls {acked}, cut off {cut_off}; torn ledger lines {torn}"
        )
    }
}
