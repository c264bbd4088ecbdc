//! The workflows and activities that the victim runs.

use crate::case::{APPROVALS, END, FAN, NOTES, QUEUE, named_child};
use crate::ledger::Ledger;
use crate::line::{Activity, Line};
use crate::witness::told;
use duroxide::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide::{ActivityContext, BackoffStrategy, Either2, OrchestrationContext, RetryPolicy};
use std::sync::Arc;
use std::time::Duration;

type Outcome = Result<String, String>;

/// Attempts of a flaky activity fail while the event that scheduled them is below this: the first two attempts.
const FLAKY_BELOW: u64 = 8;

/// All activities. Each leaves one line in the ledger, somewhere in the middle of its run.
pub fn activities(ledger: &Arc<Ledger>) -> ActivityRegistry {
    let (work, flaky, slow) = (Arc::clone(ledger), Arc::clone(ledger), Arc::clone(ledger));
    ActivityRegistry::builder()
        .register("Work", move |ctx, input| run(Arc::clone(&work), ctx, input))
        .register("Flaky", move |ctx, input| fail_at_first(Arc::clone(&flaky), ctx, input))
        .register("Slow", move |ctx, input| linger(Arc::clone(&slow), ctx, input))
        .build()
}

fn leave(ledger: &Ledger, ctx: &ActivityContext, id: u64) {
    let instance = ctx.instance_id().to_owned();
    let execution = ctx.execution_id();
    ledger.append(&Line::Effect(Activity {
        instance,
        execution,
        id,
    }));
}

async fn run(ledger: Arc<Ledger>, ctx: ActivityContext, input: String) -> Outcome {
    let (id, input) = told(&input)?;
    // Some take a moment before their effect, some after it, some none: kills fall on either side.
    tokio::time::sleep(Duration::from_millis(id % 3 * 3)).await;
    leave(&ledger, &ctx, id);
    tokio::time::sleep(Duration::from_millis(id % 4 * 2)).await;
    Ok(input.to_owned())
}

async fn fail_at_first(ledger: Arc<Ledger>, ctx: ActivityContext, input: String) -> Outcome {
    let (id, input) = told(&input)?;
    leave(&ledger, &ctx, id);
    if id < FLAKY_BELOW {
        Err(format!("attempt {id} fails"))
    } else {
        Ok(input.to_owned())
    }
}

async fn linger(ledger: Arc<Ledger>, ctx: ActivityContext, input: String) -> Outcome {
    let (id, input) = told(&input)?;
    leave(&ledger, &ctx, id);
    tokio::select! {
        () = ctx.cancelled() => Err("cancelled".to_owned()),
        () = tokio::time::sleep(Duration::from_millis(40)) => Ok(input.to_owned()),
    }
}

/// All workflows.
pub fn workflows() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Retry", retry)
        .register("Fan", fan)
        .register("Nap", nap)
        .register("Race", race)
        .register("Parent", parent)
        .register("Approve", approve)
        .register("Inbox", inbox)
        .register("Notes", notes)
        .register("Cancel", cancel)
        .register("Hang", hang)
        .register("Detach", detach)
        .build()
}

async fn retry(ctx: OrchestrationContext, _: String) -> Outcome {
    let backoff = BackoffStrategy::Fixed {
        delay: Duration::from_millis(5),
    };
    let policy = RetryPolicy::new(3).with_backoff(backoff);
    ctx.schedule_activity_with_retry("Flaky", "at last", policy).await
}

async fn fan(ctx: OrchestrationContext, _: String) -> Outcome {
    let parts = (0..FAN).map(|n| ctx.schedule_activity("Work", n.to_string())).collect();
    let parts: Result<Vec<String>, String> = ctx.join(parts).await.into_iter().collect();
    Ok(parts?.join(","))
}

async fn nap(ctx: OrchestrationContext, _: String) -> Outcome {
    let before = ctx.schedule_activity("Work", "before").await?;
    ctx.schedule_timer(Duration::from_millis(15)).await;
    let after = ctx.schedule_activity("Work", "after").await?;
    Ok(format!("{before},{after}"))
}

async fn race(ctx: OrchestrationContext, _: String) -> Outcome {
    let slow = ctx.schedule_activity("Slow", "activity");
    let timer = ctx.schedule_timer(Duration::from_millis(40));
    match ctx.select2(slow, timer).await {
        Either2::First(result) => result,
        Either2::Second(()) => Ok("timer".to_owned()),
    }
}

async fn parent(ctx: OrchestrationContext, _: String) -> Outcome {
    let one = ctx.schedule_sub_orchestration("Nap", "");
    let other = ctx.schedule_sub_orchestration_with_id("Fan", named_child(&ctx.instance_id()), "");
    let (one, other) = ctx.join2(one, other).await;
    ctx.schedule_activity("Work", format!("{}+{}", one?, other?)).await
}

async fn approve(ctx: OrchestrationContext, _: String) -> Outcome {
    let mut approvals = Vec::new();
    for event in APPROVALS {
        let approval = ctx.schedule_wait(event).await;
        approvals.push(ctx.schedule_activity("Work", approval).await?);
    }
    Ok(approvals.join(","))
}

/// Reads two messages per execution; what it has read goes on to the next one.
async fn inbox(ctx: OrchestrationContext, read: String) -> Outcome {
    let mut read: Vec<String> = read
        .split(',')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    for _ in 0..2 {
        let message = ctx.dequeue_event(QUEUE).await;
        read.push(ctx.schedule_activity("Work", message.clone()).await?);
        if message.starts_with(END) {
            return Ok(read.join(","));
        }
    }
    ctx.continue_as_new(read.join(",")).await
}

/// Writes one value per execution, and takes one back at the end.
async fn notes(ctx: OrchestrationContext, _: String) -> Outcome {
    let round = ctx.execution_id();
    let note = ctx.schedule_activity("Work", format!("note {round}")).await?;
    ctx.set_kv_value(format!("round-{round}"), note);
    ctx.set_custom_status(format!("round {round}"));
    if round < NOTES {
        return ctx.continue_as_new("").await;
    }
    ctx.clear_kv_value("round-2");
    let mut kept = ctx.get_kv_all_keys();
    kept.sort_unstable();
    Ok(kept.join(","))
}

async fn cancel(ctx: OrchestrationContext, _: String) -> Outcome {
    let child = ctx.schedule_sub_orchestration_with_id("Hang", named_child(&ctx.instance_id()), "");
    let slow = ctx.schedule_activity("Slow", "in vain");
    let (child, slow) = ctx.join2(child, slow).await;
    Ok(format!("{}+{}", child?, slow?))
}

async fn hang(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_activity("Work", "before").await?;
    Ok(ctx.schedule_wait("never").await)
}

async fn detach(ctx: OrchestrationContext, _: String) -> Outcome {
    let done = ctx.schedule_activity("Work", "done").await?;
    ctx.schedule_orchestration("Nap", named_child(&ctx.instance_id()), "");
    Ok(done)
}
