//! The one workflow that runs every program, and its activities.
//!
//! If an activity ends at the moment in which its lease is lost, the runtime picks one of the two at random, and we cannot
//! seed that choice. So activities here never end at the moment in which leases are checked.

use crate::life::Life;
use crate::program::{Script, Step, TIMER_UNIT_MS, many_values, tell_values};
use crate::scene::Scene;
use crate::witness::split_id;
use duroxide::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide::{ActivityContext, BackoffStrategy, OrchestrationContext, RetryPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Outcome = Result<String, String>;

/// The name under which every program runs.
pub const NAME: &str = "Program";
/// The queue that a program reads.
pub const QUEUE: &str = "inbox";

/// The workflow.
pub fn workflows() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register(NAME, run).build()
}

/// Its activities.
pub fn activities(life: &Arc<Life>) -> ActivityRegistry {
    let stage = |kind: &'static str| {
        let life = Arc::clone(life);
        move |ctx: ActivityContext, input: String| act(kind, Arc::clone(&life), ctx, input)
    };
    ActivityRegistry::builder()
        .register("Echo", stage("Echo"))
        .register("Flaky", stage("Flaky"))
        .register("Linger", stage("Linger"))
        .build()
}

async fn act(kind: &'static str, life: Arc<Life>, ctx: ActivityContext, input: String) -> Outcome {
    let (id, input) = split_id(&input)?;
    let place = begin(&life.scene, &ctx, id, input);
    let (number, rest) = input.split_once(' ').unwrap_or((input, ""));
    let number: u64 = number.parse().map_err(|_| format!("{input:?} is no input"))?;
    match kind {
        "Echo" => {
            if number > 0 {
                // Leases are renewed after an even number of milliseconds: it never ends just then.
                life.pause(number | 1).await;
            }
            Ok(rest.to_owned())
        }
        "Flaky" if (place as u64) < number => Err(format!("attempt {place} fails")),
        "Flaky" => Ok("at last".to_owned()),
        _ => {
            ctx.cancelled().await;
            // The runtime gets to know it first.
            life.pause(1).await;
            Err("cancelled".to_owned())
        }
    }
}

/// An activity begins; returns how many like it were scheduled before.
fn begin(scene: &Scene, ctx: &ActivityContext, id: u64, input: &str) -> usize {
    let like = (ctx.instance_id().to_owned(), ctx.execution_id(), input.to_owned());
    let mut facts = scene.facts.lock();
    let like = facts.begun.entry(like).or_default();
    like.insert(id);
    like.range(..id).count()
}

fn echo(ctx: &OrchestrationContext, ms: u64, bytes: usize) -> duroxide::DurableFuture<Outcome> {
    ctx.schedule_activity("Echo", format!("{ms} {}", "x".repeat(bytes)))
}

async fn run(ctx: OrchestrationContext, input: String) -> Outcome {
    let mut script: Script = serde_json::from_str(&input).map_err(|why| format!("no script: {why}"))?;
    let mut steps = std::mem::take(&mut script.steps).into_iter();
    while let Some(step) = steps.next() {
        match step {
            Step::Again => {
                script.said.push('|');
                script.steps = steps.collect();
                let next = serde_json::to_string(&script).map_err(|why| why.to_string())?;
                return ctx.continue_as_new(next).await;
            }
            Step::Queue(count) => read(&ctx, &mut script, count).await,
            step => play(&ctx, step, &mut script.said).await?,
        }
    }
    Ok(script.said)
}

/// Reads messages of the queue. A client that does not know whether it sent a message sends it again, and one that moves to
/// another process may be overtaken by what it sent before; but what one process sends stays in order.
async fn read(ctx: &OrchestrationContext, script: &mut Script, count: u32) {
    let end = script.read + count;
    while script.read < end {
        if script.early.remove(&script.read) {
            script.said.push_str(&format!("m{};", script.read));
            script.read += 1;
            continue;
        }
        let message = ctx.dequeue_event(QUEUE).await;
        let mut numbers = message.split('.').map_while(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().unwrap_or(u32::MAX);
        let (number, attempt, sender) = (next(), next(), next());
        let last = script.last.insert(sender, (number, attempt));
        if last.is_some_and(|last| last >= (number, attempt)) {
            script.said.push_str(&format!("{message} after {last:?};"));
        }
        if number >= script.read {
            script.early.insert(number);
        }
    }
}

async fn play(ctx: &OrchestrationContext, step: Step, said: &mut String) -> Result<(), String> {
    match step {
        Step::Call {
            ms,
            tag,
            session,
            bytes,
        } => {
            let input = format!("{ms} {}", "x".repeat(bytes));
            let mut call = match session {
                Some(session) => ctx.schedule_activity_on_session("Echo", input, session),
                None => ctx.schedule_activity("Echo", input),
            };
            if let Some(tag) = tag {
                call = call.with_tag(tag);
            }
            said.push_str(&format!("call {};", call.await?.len()));
        }
        Step::Retry(failures) => {
            let delay = Duration::from_millis(TIMER_UNIT_MS);
            let policy = RetryPolicy::new(failures + 1).with_backoff(BackoffStrategy::Fixed { delay });
            ctx.schedule_activity_with_retry("Flaky", format!("{failures} {}", said.len()), policy)
                .await?;
            said.push_str("retry;");
        }
        Step::Fan(count) => {
            let calls = (0..count).map(|n| echo(ctx, u64::from(n % 3) * 7, 1)).collect();
            let done: Result<Vec<String>, String> = ctx.join(calls).await.into_iter().collect();
            said.push_str(&format!("fan {};", done?.len()));
        }
        Step::Nap(units) => {
            ctx.schedule_timer(Duration::from_millis(units * TIMER_UNIT_MS)).await;
            said.push_str("nap;");
        }
        Step::Race(ms, units) => {
            let timer = ctx.schedule_timer(Duration::from_millis(units * TIMER_UNIT_MS));
            ctx.select2(echo(ctx, ms, 1), timer).await;
            said.push_str("race;");
        }
        Step::Event(event) => said.push_str(&format!("{};", ctx.schedule_wait(event).await)),
        Step::Linger => {
            ctx.schedule_activity("Linger", "0").await?;
        }
        Step::LingerBoth(name) => {
            let child = ctx.schedule_sub_orchestration_with_id(NAME, name, script_of(vec![Step::Linger])?);
            let own = ctx.schedule_activity("Linger", "0");
            let (child, own) = ctx.join2(child, own).await;
            child.and(own)?;
        }
        Step::Fail => return Err(format!("{said}fail")),
        step => play_others(ctx, step, said).await?,
    }
    Ok(())
}

async fn play_others(ctx: &OrchestrationContext, step: Step, said: &mut String) -> Result<(), String> {
    match step {
        Step::Child(name, steps) => {
            let script = script_of(steps)?;
            let child = match name {
                Some(name) => ctx.schedule_sub_orchestration_with_id(NAME, name, script),
                None => ctx.schedule_sub_orchestration(NAME, script),
            };
            let outcome = child.await.unwrap_or_else(|_| "failed".to_owned());
            said.push_str(&format!("[{outcome}];"));
        }
        Step::Detach(name, steps) => {
            ctx.schedule_orchestration(NAME, name, script_of(steps)?);
            // The runtime loses a start that is made in the turn that continues as new.
            echo(ctx, 0, 1).await?;
            said.push_str("detach;");
        }
        Step::Set(key, value) => ctx.set_kv_value(key, value),
        Step::SetMany(count) => many_values(count).for_each(|(key, value)| ctx.set_kv_value(key, value)),
        Step::Clear(key) => ctx.clear_kv_value(key),
        Step::ClearAll => ctx.clear_all_kv_values(),
        Step::Values => {
            let values: BTreeMap<String, String> = ctx.get_kv_all_values().into_iter().collect();
            said.push_str(&tell_values(values.iter()));
        }
        Step::Status(status) => ctx.set_custom_status(status),
        _ => {}
    }
    Ok(())
}

/// The input of a workflow that has these steps to do.
pub fn script_of(steps: Vec<Step>) -> Result<String, String> {
    let script = Script {
        steps,
        ..Script::default()
    };
    serde_json::to_string(&script).map_err(|why| why.to_string())
}
