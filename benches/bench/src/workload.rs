//! The workflows that are run.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

/// A workflow shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One activity.
    Hello,
    /// This many activities at once, all awaited.
    FanOut(u32),
    /// This many activities, one after the other.
    Sequential(u32),
    /// A sub-workflow with one activity.
    SubWorkflow,
}

impl Workload {
    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Hello => "hello-world".into(),
            Self::FanOut(n) => format!("fan-out {n}"),
            Self::Sequential(n) => format!("sequential {n}"),
            Self::SubWorkflow => "sub-workflow".into(),
        }
    }

    /// How many activities one workflow runs.
    pub fn activities(self) -> u32 {
        match self {
            Self::Hello | Self::SubWorkflow => 1,
            Self::FanOut(n) | Self::Sequential(n) => n,
        }
    }

    pub(crate) fn orchestration(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::FanOut(_) => "fan-out",
            Self::Sequential(_) => "sequential",
            Self::SubWorkflow => "parent",
        }
    }

    pub(crate) fn input(self) -> String {
        match self {
            Self::Hello | Self::SubWorkflow => "world".into(),
            Self::FanOut(n) | Self::Sequential(n) => n.to_string(),
        }
    }
}

pub(crate) fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build()
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("hello", hello)
        .register("fan-out", fan_out)
        .register("sequential", sequential)
        .register("parent", parent)
        .build()
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("greet", name).await
}

async fn fan_out(ctx: OrchestrationContext, width: String) -> Result<String, String> {
    let width: u32 = width.parse().map_err(|e| format!("not a width: {e}"))?;
    let branches = (0..width)
        .map(|i| ctx.schedule_activity("greet", i.to_string()))
        .collect();
    let results = ctx.join(branches).await;
    let greeted = results.into_iter().collect::<Result<Vec<_>, _>>()?.len();
    Ok(greeted.to_string())
}

async fn sequential(ctx: OrchestrationContext, length: String) -> Result<String, String> {
    let length: u32 = length.parse().map_err(|e| format!("not a length: {e}"))?;
    for i in 0..length {
        ctx.schedule_activity("greet", i.to_string()).await?;
    }
    Ok(length.to_string())
}

async fn parent(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_sub_orchestration("hello", name).await
}
