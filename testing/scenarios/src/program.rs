//! The activities, workflows and options of a scenario's runtime.

use std::future::Future;
use std::time::Duration;

use duroxide::runtime::registry::{
    ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistry, OrchestrationRegistryBuilder, VersionPolicy,
};
use duroxide::runtime::{RuntimeOptions, UnregisteredBackoffConfig};
use duroxide::{ActivityContext, OrchestrationContext};

/// Activities, workflows and options of one runtime, put together step by step.
pub struct Program {
    activities: ActivityRegistryBuilder,
    workflows: OrchestrationRegistryBuilder,
    options: RuntimeOptions,
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl Program {
    /// Nothing registered; options that let a scenario move fast.
    pub fn new() -> Self {
        let options = RuntimeOptions {
            dispatcher_min_poll_interval: Duration::from_millis(10),
            dispatcher_long_poll_timeout: Duration::from_secs(5),
            unregistered_backoff: UnregisteredBackoffConfig {
                base_delay: Duration::from_millis(20),
                max_delay: Duration::from_millis(100),
            },
            ..RuntimeOptions::default()
        };
        Self {
            activities: ActivityRegistry::builder(),
            workflows: OrchestrationRegistry::builder(),
            options,
        }
    }

    /// Adds an activity.
    pub fn activity<F, Fut>(mut self, name: &str, body: F) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.activities = self.activities.register(name, body);
        self
    }

    /// Adds a workflow in version 1.0.0.
    pub fn workflow<F, Fut>(mut self, name: &str, body: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.workflows = self.workflows.register(name, body);
        self
    }

    /// Adds a workflow in the given version, which must be later than those before.
    pub fn workflow_version<F, Fut>(mut self, name: &str, version: &str, body: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.workflows = self.workflows.register_versioned(name, version, body);
        self
    }

    /// Says which version of a workflow a start without a version gets.
    pub fn policy(mut self, name: &str, policy: VersionPolicy) -> Self {
        self.workflows = self.workflows.set_policy(name, policy);
        self
    }

    /// Changes the runtime options.
    pub fn options(mut self, change: impl FnOnce(&mut RuntimeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// An activity `Echo` that returns its input.
    pub fn with_echo(self) -> Self {
        self.activity("Echo", |_, input| async move { Ok(input) })
    }

    pub(crate) fn into_parts(self) -> (ActivityRegistry, OrchestrationRegistry, RuntimeOptions) {
        (self.activities.build(), self.workflows.build(), self.options)
    }
}
