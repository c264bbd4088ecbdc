//! The workflows that meet faults: hello, a sub-workflow, a fan-out, values and sessions, continuing with queued messages.

use perennial_cosmos_tests::{Process, Program};

/// This many workflows share a container: the more one holds, the slower is the emulator.
pub const SHARED_BY: usize = 10;

#[derive(Clone, Copy)]
pub struct Scenario {
    pub workflow: &'static str,
    input: &'static str,
    messages: &'static [&'static str],
    output: &'static str,
    /// How many activities it has.
    activities: usize,
}

/// All that are wanted; without the feature `full` those that are over soon.
pub fn scenarios() -> Vec<Scenario> {
    let width = match std::env::var("SWEEP").as_deref() {
        Ok("full") => ("100", 100),
        _ => ("10", 10),
    };
    let scenario = |workflow, input, output, activities| Scenario {
        workflow,
        input,
        messages: &[],
        output,
        activities,
    };
    let all = vec![
        scenario("Hello", "you", "Hello, you!", 1),
        scenario("Parent", "you", "Hello, you!", 1),
        scenario("Fan", width.0, width.0, width.1),
        scenario("Values", "you", "greeting-1,greeting-2,name", 3),
        Scenario {
            messages: &["a", "b", "c"],
            ..scenario("Loop", "", "abc", 0)
        },
    ];
    let only = std::env::var("SWEEP_ONLY").ok();
    let is_wanted = |scenario: &Scenario| match &only {
        Some(only) => only == scenario.workflow,
        None => cfg!(feature = "full") || !["Fan", "Parent"].contains(&scenario.workflow),
    };
    all.into_iter().filter(is_wanted).collect()
}

impl Scenario {
    /// Whether all that it needs is its start.
    #[cfg(feature = "full")]
    pub fn is_alone(&self) -> bool {
        self.messages.is_empty()
    }

    /// Starts it and sends what it waits for.
    pub async fn run(&self, process: &Process, instance: &str) {
        process.begin(instance, self.workflow, self.input).await;
        for message in self.messages {
            process.enqueue(instance, message).await;
        }
    }

    /// Checks the end. This many activities may have run a second time: those during which their process died.
    pub async fn check(&self, process: &Process, program: &Program, instance: &str, again: usize) {
        let output = process.output(instance).await;
        assert_eq!(output, self.output, "{instance}");
        let effects = program.effects.of(&format!("{instance}:"));
        let children = program.effects.of(&format!("{instance}::"));
        let effects = if effects.is_empty() { children } else { effects };
        assert_eq!(effects.len(), self.activities, "{instance}: {effects:?}");
        let twice = effects.values().filter(|times| **times == 2).count();
        let more = effects.values().any(|times| *times > 2);
        assert!(
            !more && twice <= again,
            "{instance} did something once too often: {effects:?}"
        );
    }
}
