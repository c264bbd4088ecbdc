//! A process: its own threads, its own connections, its own engine. It can be killed.

use crate::{Program, Room};
use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use perennial_store::{Clock, SystemClock};
use perennial_workflow::{Settings, Workflows};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime as Threads};

/// How long a test waits for something that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A process among those that share a container.
pub struct Process {
    threads: Option<Threads>,
    /// Its engine.
    pub workflows: Workflows,
    runtime: Option<Arc<Runtime>>,
}

impl Process {
    /// One that runs workflows.
    pub async fn start(room: &Room, program: &Program) -> Self {
        Self::start_with_clock(room, program, SystemClock::shared()).await
    }

    /// One that runs workflows, by this clock.
    pub async fn start_with_clock(room: &Room, program: &Program, clock: Arc<dyn Clock>) -> Self {
        let mut process = Self::client_with_clock(room, clock).await;
        process.serve(program).await;
        process
    }

    /// Runs workflows from now on.
    pub async fn serve(&mut self, program: &Program) {
        let (provider, program) = (self.provider(), program.clone());
        let start = async move {
            let (activities, workflows) = (program.activities(), program.workflows());
            Runtime::start_with_options(provider, activities, workflows, program.options).await
        };
        self.runtime = Some(self.run(start).await);
    }

    /// One that runs none.
    pub async fn client(room: &Room) -> Self {
        Self::client_with_clock(room, SystemClock::shared()).await
    }

    /// One that runs none, by this clock.
    pub async fn client_with_clock(room: &Room, clock: Arc<dyn Clock>) -> Self {
        let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let threads = threads.expect("threads");
        let (account, settings) = (room.account.clone(), room.settings.clone());
        let open = async move {
            let store = perennial_cosmos::open(account, settings)
                .await
                .expect("the store opens");
            Workflows::open_with_clock(Arc::new(store), Settings::default(), clock).await
        };
        let workflows = threads.spawn(open).await.expect("no panic").expect("workflows open");
        Self {
            threads: Some(threads),
            workflows,
            runtime: None,
        }
    }

    /// Its provider.
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.workflows.clone())
    }

    /// Does something in this process.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let threads = self.threads.as_ref().expect("it lives");
        threads.spawn(work).await.expect("no panic")
    }

    /// Calls the provider in this process.
    pub async fn call<T, F>(&self, call: impl FnOnce(Workflows) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.run(call(self.workflows.clone())).await
    }

    /// Uses a client in this process.
    pub async fn ask<T, F>(&self, call: impl FnOnce(Client) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.run(call(Client::new(self.provider()))).await
    }

    /// Starts a workflow.
    pub async fn begin(&self, instance: &str, workflow: &str, input: &str) {
        let (instance, workflow, input) = (instance.to_owned(), workflow.to_owned(), input.to_owned());
        let begin = |client: Client| async move { client.start_orchestration(instance, workflow, input).await };
        self.ask(begin).await.expect("it starts");
    }

    /// Puts a message into the queue `inbox` of an instance.
    pub async fn enqueue(&self, instance: &str, message: &str) {
        let (instance, message) = (instance.to_owned(), message.to_owned());
        let enqueue = |client: Client| async move { client.enqueue_event(instance, "inbox", message).await };
        self.ask(enqueue).await.expect("the message is sent");
    }

    /// Waits for a workflow to complete and returns its output.
    pub async fn output(&self, instance: &str) -> String {
        self.output_within(instance, TIMEOUT).await
    }

    /// The same, with this timeout.
    pub async fn output_within(&self, instance: &str, timeout: Duration) -> String {
        let name = instance.to_owned();
        let wait = |client: Client| async move { client.wait_for_orchestration(&name, timeout).await };
        match self.ask(wait).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => output,
            Ok(other) => panic!("{instance:?} should have completed, but is {other:?}"),
            Err(error) => panic!("{instance:?} did not end: {error}"),
        }
    }

    /// Stops the runtime, if there is one, and closes the store.
    pub async fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            self.run(async move { runtime.shutdown(Some(1_000)).await }).await;
        }
        self.call(|workflows| async move { workflows.close().await })
            .await
            .expect("it closes");
    }

    /// Ends the process where it stands: nothing that it was about to do happens.
    pub fn kill(mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}
