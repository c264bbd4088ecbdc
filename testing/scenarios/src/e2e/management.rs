//! The administrative queries: instances, executions, metrics.

use duroxide::TagFilter;

use crate::{Harness, Program};

fn program() -> Program {
    Program::new()
        .with_echo()
        .workflow("Good", |ctx, input| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .workflow("Bad", |_, _| async { Err("bad".to_owned()) })
        .workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) })
}

/// Lists by status hold each instance once, where it belongs.
pub async fn instances_are_listed_by_status(h: &Harness) {
    h.runtime(program()).await;
    for (instance, workflow) in [("g1", "Good"), ("g2", "Good"), ("b1", "Bad"), ("w1", "Wait")] {
        h.start(instance, workflow, "").await;
    }
    for instance in ["g1", "g2", "b1"] {
        h.ended(instance).await;
    }
    h.until_waiting("w1", "go", 1).await;
    let client = h.client();
    for (status, expected) in [
        ("Completed", vec!["g1", "g2"]),
        ("Failed", vec!["b1"]),
        ("Running", vec!["w1"]),
    ] {
        let mut listed = client.list_instances_by_status(status).await.unwrap();
        listed.sort_unstable();
        assert_eq!(listed, expected, "{status}");
    }
    assert_eq!(client.list_all_instances().await.unwrap().len(), 4);
    let metrics = client.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.total_executions), (4, 4));
    assert_eq!(
        (
            metrics.running_instances,
            metrics.completed_instances,
            metrics.failed_instances
        ),
        (1, 2, 1)
    );
    assert_eq!(metrics.total_events, 4 + 4 + 2 + 2);
}

/// An instance's record holds its name, version, status, output.
pub async fn an_instance_is_described(h: &Harness) {
    h.runtime(program()).await;
    h.start("g1", "Good", "out").await;
    h.output("g1").await;
    let client = h.client();
    let info = client.get_instance_info("g1").await.unwrap();
    assert_eq!(
        (info.orchestration_name.as_str(), info.orchestration_version.as_str()),
        ("Good", "1.0.0")
    );
    assert_eq!(
        (info.status.as_str(), info.output.as_deref(), info.current_execution_id),
        ("Completed", Some("out"), 1)
    );
    assert_eq!(info.parent_instance_id, None);
    let execution = client.get_execution_info("g1", 1).await.unwrap();
    assert_eq!((execution.status.as_str(), execution.event_count), ("Completed", 4));
    assert!(
        execution.completed_at.is_some_and(|at| at >= execution.started_at),
        "{execution:?}"
    );
    assert!(client.get_instance_info("nobody").await.is_err());
    assert!(client.get_execution_info("g1", 2).await.is_err());
    assert!(client.list_executions("nobody").await.unwrap().is_empty());
}

/// Queue depths count what waits.
pub async fn queue_depths_count_what_waits(h: &Harness) {
    for i in 0..3 {
        h.start(&format!("g{i}"), "Good", "").await;
    }
    assert_eq!(h.client().get_queue_depths().await.unwrap().orchestrator_queue, 3);
    let node = h
        .runtime(program().options(|o| o.worker_tag_filter = TagFilter::None))
        .await;
    h.until("three activities wait", || async {
        let depths = h.client().get_queue_depths().await.unwrap();
        (depths.orchestrator_queue, depths.worker_queue) == (0, 3)
    })
    .await;
    h.stop(node).await;
    h.runtime(program()).await;
    for i in 0..3 {
        h.output(&format!("g{i}")).await;
    }
    h.until("nothing waits", || async {
        let depths = h.client().get_queue_depths().await.unwrap();
        (depths.orchestrator_queue, depths.worker_queue) == (0, 0)
    })
    .await;
}
