//! The workflows that the tests run.

use crate::Effects;
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// The workflows that a process runs, and its options.
#[derive(Clone)]
pub struct Program {
    /// Records the effects of its activities.
    pub effects: Effects,
    /// How its runtime is set up.
    pub options: RuntimeOptions,
}

impl Default for Program {
    fn default() -> Self {
        Self::new(2)
    }
}

impl Program {
    /// With this many dispatchers of each kind.
    pub fn new(dispatchers: usize) -> Self {
        Self {
            effects: Effects::default(),
            options: RuntimeOptions {
                orchestration_concurrency: dispatchers,
                worker_concurrency: dispatchers,
                ..RuntimeOptions::default()
            },
        }
    }

    /// With locks that end soon, so that a process that takes over need not wait long.
    pub fn brief(mut self) -> Self {
        self.options.orchestrator_lock_timeout = Duration::from_millis(1_500);
        self.options.orchestrator_lock_renewal_buffer = Duration::from_millis(700);
        self.options.worker_lock_timeout = Duration::from_millis(1_500);
        self.options.worker_lock_renewal_buffer = Duration::from_millis(700);
        self.options.session_lock_timeout = Duration::from_millis(1_500);
        self.options.session_lock_renewal_buffer = Duration::from_millis(700);
        self
    }

    /// The activities. Each notes the instance and what it was given.
    pub fn activities(&self) -> ActivityRegistry {
        let effects = self.effects.clone();
        let greet = move |ctx: ActivityContext, name: String| {
            effects.add(format!("{}:{name}", ctx.instance_id()));
            async move { Ok(format!("Hello, {name}!")) }
        };
        let effects = self.effects.clone();
        let nap = move |ctx: ActivityContext, ms: String| {
            effects.add(format!("{}:{ms}", ctx.instance_id()));
            async move {
                let ms = ms.parse().map_err(|_| "no number")?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(ms.to_string())
            }
        };
        ActivityRegistry::builder()
            .register("Greet", greet)
            .register("Nap", nap)
            .register("Big", |_: ActivityContext, bytes: String| async move {
                Ok("x".repeat(bytes.parse().map_err(|_| "no number")?))
            })
            .build()
    }

    /// The workflows.
    pub fn workflows(&self) -> OrchestrationRegistry {
        OrchestrationRegistry::builder()
            .register("Hello", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity("Greet", name).await
            })
            .register("Nap", |ctx: OrchestrationContext, ms: String| async move {
                ctx.schedule_activity("Nap", ms).await
            })
            .register("Parent", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_sub_orchestration("Hello", name).await
            })
            .register("Parents", |ctx: OrchestrationContext, count: String| async move {
                let count: usize = count.parse().map_err(|_| "no number")?;
                let mut all = Vec::new();
                for n in 0..count {
                    all.push(ctx.schedule_sub_orchestration("Hello", n.to_string()).await?);
                }
                Ok(all.join(" "))
            })
            .register("Fan", fan)
            .register("Loop", collect_and_continue)
            .register("Values", values)
            .register("Wait", |ctx: OrchestrationContext, event: String| async move {
                Ok(ctx.schedule_wait(event).await)
            })
            .register("Collect", |ctx: OrchestrationContext, count: String| async move {
                let count: usize = count.parse().map_err(|_| "no number")?;
                let mut all = Vec::new();
                for _ in 0..count {
                    all.push(ctx.dequeue_event("inbox").await);
                }
                Ok(all.join(","))
            })
            .register("Large", |ctx: OrchestrationContext, bytes: String| async move {
                ctx.schedule_activity("Big", bytes).await
            })
            .build()
    }
}

/// As many activities at once as its input says.
async fn fan(ctx: OrchestrationContext, width: String) -> Result<String, String> {
    let width: usize = width.parse().map_err(|_| "no number")?;
    let all = (0..width)
        .map(|n| ctx.schedule_activity("Greet", n.to_string()))
        .collect();
    let greetings = ctx.join(all).await;
    Ok(greetings.into_iter().filter(Result::is_ok).count().to_string())
}

/// One message of its queue in each execution, three in all.
async fn collect_and_continue(ctx: OrchestrationContext, so_far: String) -> Result<String, String> {
    let message = ctx.dequeue_event("inbox").await;
    let all = format!("{so_far}{message}");
    if all.len() < 3 {
        return ctx.continue_as_new(all).await;
    }
    Ok(all)
}

/// Values, and activities in a session.
async fn values(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.set_kv_value("name", name.clone());
    for n in 0..3 {
        let greeting = ctx
            .schedule_activity_on_session("Greet", format!("{name}-{n}"), format!("session of {name}"))
            .await?;
        ctx.set_kv_value(format!("greeting-{n}"), greeting);
    }
    ctx.clear_kv_value("greeting-0");
    let mut keys = ctx.get_kv_all_keys();
    keys.sort_unstable();
    Ok(keys.join(","))
}
