//! Generated workflows: their steps and their expected results.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Timers are multiples of this: the runtime counts them from the machine's clock, and a whole multiple can be recovered
/// however slow the machine is.
pub const TIMER_UNIT_MS: u64 = 10_000;

/// One step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// An activity that takes a while.
    Call {
        /// How long.
        ms: u64,
        /// The tag that its worker must serve.
        tag: Option<String>,
        /// The session that it runs in.
        session: Option<String>,
        /// The size of its input, and of its result.
        bytes: usize,
    },
    /// An activity that fails this many times before it succeeds.
    Retry(u32),
    /// This many activities side by side.
    Fan(u32),
    /// A timer of this many [`TIMER_UNIT_MS`].
    Nap(u64),
    /// An activity of this many milliseconds against a timer of this many units.
    Race(u64, u64),
    /// A sub-workflow, named by the program or by the runtime.
    Child(Option<String>, Vec<Step>),
    /// A workflow that is started and not awaited.
    Detach(String, Vec<Step>),
    /// An event from outside; its name is used once.
    Event(String),
    /// This many messages of the workflow's queue.
    Queue(u32),
    /// Continues in a new execution.
    Again,
    /// Sets a value.
    Set(String, String),
    /// Sets this many values in one turn.
    SetMany(u32),
    /// Clears a value.
    Clear(String),
    /// Clears all values.
    ClearAll,
    /// Reads all values.
    Values,
    /// Sets the status.
    Status(String),
    /// An activity that runs until it is cancelled. Nothing comes after it.
    Linger,
    /// A sub-workflow that [lingers](Step::Linger), beside an activity that does too.
    LingerBoth(String),
    /// Fails the workflow.
    Fail,
}

/// What happens to a workflow in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Nothing.
    Stay,
    /// It is cancelled where it lingers.
    Cancel,
    /// It is deleted when it has ended.
    Delete,
    /// It is deleted where it lingers.
    ForceDelete,
    /// Its earlier executions are removed, while it runs and when it has ended.
    Prune,
}

/// A workflow that a client starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Its instance.
    pub name: String,
    /// What it does.
    pub steps: Vec<Step>,
    /// What happens to it.
    pub ending: Ending,
    /// When it is started.
    pub start_ms: u64,
}

/// A workflow's input: what is left to do, and what was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// What is left.
    pub steps: Vec<Step>,
    /// The output so far.
    pub said: String,
    /// How many messages of the queue were read.
    pub read: u32,
    /// Messages that came too early, from a sender whose clock is behind.
    #[serde(default)]
    pub early: BTreeSet<u32>,
    /// The last message of each sender: its number and its attempt.
    #[serde(default)]
    pub last: BTreeMap<u32, (u32, u32)>,
}

/// The expected result of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// What it returned, or how it failed; `None` if it was cancelled.
    pub result: Option<Result<String, String>>,
    /// Its values.
    pub values: BTreeMap<String, String>,
    /// Its status.
    pub status: Option<String>,
    /// Whether it is gone.
    pub deleted: bool,
}

impl Flow {
    /// The expected results of this workflow and of everything that it starts under known names.
    pub fn fates(&self) -> BTreeMap<String, Fate> {
        let mut fates = BTreeMap::new();
        imagine(&self.name, &self.steps, &mut fates).ok();
        if matches!(self.ending, Ending::Delete | Ending::ForceDelete) {
            let own = |name: &String| *name == self.name || self.children().contains(name);
            fates
                .iter_mut()
                .filter(|(name, _)| own(name))
                .for_each(|(_, fate)| fate.deleted = true);
        }
        fates
    }

    fn children(&self) -> Vec<String> {
        fn named(steps: &[Step], names: &mut Vec<String>) {
            for step in steps {
                match step {
                    Step::Child(name, steps) => {
                        names.extend(name.clone());
                        named(steps, names);
                    }
                    Step::LingerBoth(name) => names.push(name.clone()),
                    _ => {}
                }
            }
        }
        let mut names = Vec::new();
        named(&self.steps, &mut names);
        names
    }

    /// How many messages its queue needs.
    pub fn messages(&self) -> u32 {
        let read = |step: &Step| match step {
            Step::Queue(count) => *count,
            _ => 0,
        };
        self.steps.iter().map(read).sum()
    }

    /// The events that it waits for, each with the execution that waits.
    pub fn events(&self) -> Vec<(String, u64)> {
        let mut execution = 1;
        let mut events = Vec::new();
        for step in &self.steps {
            match step {
                Step::Again => execution += 1,
                Step::Event(name) => events.push((name.clone(), execution)),
                _ => {}
            }
        }
        events
    }

    /// The child that must linger before this workflow may be cancelled.
    pub fn lingering_child(&self) -> Option<&str> {
        self.steps.iter().find_map(|step| match step {
            Step::LingerBoth(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Computes what a workflow does, without running it.
fn imagine(name: &str, steps: &[Step], fates: &mut BTreeMap<String, Fate>) -> Result<String, String> {
    let mut fate = Fate::default();
    let mut said = String::new();
    let mut read = 0;
    let mut ended = None;
    for step in steps {
        match step {
            Step::Call { bytes, .. } => said.push_str(&format!("call {bytes};")),
            Step::Retry(_) => said.push_str("retry;"),
            Step::Fan(count) => said.push_str(&format!("fan {count};")),
            Step::Nap(_) => said.push_str("nap;"),
            Step::Race(..) => said.push_str("race;"),
            Step::Child(child, steps) => {
                let outcome = imagine(child.as_deref().unwrap_or_default(), steps, fates);
                said.push_str(&format!("[{}];", outcome.unwrap_or_else(|_| "failed".to_owned())));
                // A child that the runtime names is known by its parent's result alone.
                fates.remove("");
            }
            Step::Detach(other, steps) => {
                imagine(other, steps, fates).ok();
                said.push_str("detach;");
            }
            Step::Event(event) => said.push_str(&format!("{event};")),
            Step::Queue(count) => {
                for _ in 0..*count {
                    said.push_str(&format!("m{read};"));
                    read += 1;
                }
            }
            Step::Again => said.push('|'),
            Step::Set(key, value) => {
                fate.values.insert(key.clone(), value.clone());
            }
            Step::SetMany(count) => fate.values.extend(many_values(*count)),
            Step::Clear(key) => {
                fate.values.remove(key);
            }
            Step::ClearAll => fate.values.clear(),
            Step::Values => said.push_str(&tell_values(fate.values.iter())),
            Step::Status(status) => fate.status = Some(status.clone()),
            Step::LingerBoth(child) => {
                fates.insert(child.clone(), Fate::default());
                ended = Some(None);
            }
            Step::Linger => ended = Some(None),
            Step::Fail => ended = Some(Some(Err(format!("{said}fail")))),
        }
        if ended.is_some() {
            break;
        }
    }
    fate.result = ended.unwrap_or(Some(Ok(said)));
    let result = fate.result.clone();
    fates.insert(name.to_owned(), fate);
    result.unwrap_or_else(|| Err("cancelled".to_owned()))
}

/// The values of [`Step::SetMany`].
pub fn many_values(count: u32) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|n| (format!("n{n}"), format!("v{n}")))
}

/// All values, as a workflow outputs them.
pub fn tell_values<'a>(values: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let told: Vec<String> = values.map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}};", told.join(","))
}
