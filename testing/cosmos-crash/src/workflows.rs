//! The workflows of a worker. Their activities are those of [`perennial_crash::workflows`].

use crate::case::{EVENT, FAN, MESSAGES, NOTES, QUEUE};
use duroxide::OrchestrationContext;
use duroxide::runtime::OrchestrationRegistry;
use std::time::Duration;

type Outcome = Result<String, String>;

/// The activity that all of them call: it writes down that it ran, and returns its input.
const WORK: &str = "Work";

/// All workflows.
pub fn workflows() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Hello", hello)
        .register("Parent", parent)
        .register("Fan", fan)
        .register("Nap", nap)
        .register("Approve", approve)
        .register("Notes", notes)
        .register("Session", session)
        .register("Inbox", inbox)
        .build()
}

async fn hello(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_activity(WORK, "hello").await
}

async fn parent(ctx: OrchestrationContext, _: String) -> Outcome {
    let child = ctx.schedule_sub_orchestration("Hello", "").await?;
    let own = ctx.schedule_activity(WORK, "parent").await?;
    Ok(format!("{child}+{own}"))
}

async fn fan(ctx: OrchestrationContext, _: String) -> Outcome {
    let parts = (0..FAN).map(|n| ctx.schedule_activity(WORK, n.to_string())).collect();
    let parts: Result<Vec<String>, String> = ctx.join(parts).await.into_iter().collect();
    Ok(parts?.join(","))
}

async fn nap(ctx: OrchestrationContext, _: String) -> Outcome {
    let before = ctx.schedule_activity(WORK, "before").await?;
    ctx.schedule_timer(Duration::from_millis(200)).await;
    let after = ctx.schedule_activity(WORK, "after").await?;
    Ok(format!("{before},{after}"))
}

async fn approve(ctx: OrchestrationContext, _: String) -> Outcome {
    let approval = ctx.schedule_wait(EVENT).await;
    ctx.schedule_activity(WORK, approval).await
}

/// Writes one value per execution, and takes one back at the end.
async fn notes(ctx: OrchestrationContext, _: String) -> Outcome {
    let round = ctx.execution_id();
    let note = ctx.schedule_activity(WORK, format!("note {round}")).await?;
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

async fn session(ctx: OrchestrationContext, _: String) -> Outcome {
    let session = format!("session of {}", ctx.instance_id());
    let one = ctx.schedule_activity_on_session(WORK, "one", &session).await?;
    let two = ctx.schedule_activity_on_session(WORK, "two", &session).await?;
    Ok(format!("{one},{two}"))
}

/// Reads two messages per execution; what it has read goes on to the next one.
async fn inbox(ctx: OrchestrationContext, read: String) -> Outcome {
    let words = read.split(',').filter(|word| !word.is_empty());
    let mut read: Vec<String> = words.map(str::to_owned).collect();
    for _ in 0..2 {
        let message = ctx.dequeue_event(QUEUE).await;
        read.push(ctx.schedule_activity(WORK, message).await?);
        if read.len() == MESSAGES.len() {
            return Ok(read.join(","));
        }
    }
    ctx.continue_as_new(read.join(",")).await
}
