//! Old executions that are thrown away.

use duroxide::{EventKind, InstanceFilter, PruneOptions};

use crate::{Harness, Program};

/// A workflow `Hops` that runs `input` executions and then waits for `go`.
fn hops() -> Program {
    Program::new().with_echo().workflow("Hops", |ctx, input| async move {
        ctx.set_kv_value(format!("execution-{}", ctx.execution_id()), "was here");
        let to: u64 = input.parse().map_err(|_| "not a number".to_owned())?;
        if ctx.execution_id() < to {
            ctx.continue_as_new(input).await
        } else {
            Ok(ctx.schedule_wait("go").await)
        }
    })
}

async fn hopped(h: &Harness, instance: &str, executions: u64) {
    h.start(instance, "Hops", &executions.to_string()).await;
    h.until("the last execution waits", || async {
        let history = h.history(instance).await;
        history
            .iter()
            .any(|e| e.execution_id == executions && matches!(e.kind, EventKind::ExternalSubscribed { .. }))
    })
    .await;
}

/// The newest are kept, the running instance goes on, its values stay.
pub async fn the_newest_executions_are_kept(h: &Harness) {
    h.runtime(hops()).await;
    hopped(h, "hops", 5).await;
    let client = h.client();
    let options = PruneOptions {
        keep_last: Some(2),
        completed_before: None,
    };
    let pruned = client.prune_executions("hops", options).await.unwrap();
    assert_eq!((pruned.instances_processed, pruned.executions_deleted), (1, 3));
    assert_eq!(client.list_executions("hops").await.unwrap(), [4, 5]);
    assert!(client.read_execution_history("hops", 1).await.unwrap().is_empty());
    assert_eq!(client.get_kv_all_values("hops").await.unwrap().len(), 5);
    h.raise("hops", "go", "on").await;
    assert_eq!(h.output("hops").await, "on");
}

/// The current execution is never pruned, whatever the options.
pub async fn the_current_execution_is_never_pruned(h: &Harness) {
    h.runtime(hops()).await;
    hopped(h, "hops", 3).await;
    let client = h.client();
    let options = PruneOptions {
        keep_last: Some(0),
        completed_before: None,
    };
    assert_eq!(
        client
            .prune_executions("hops", options.clone())
            .await
            .unwrap()
            .executions_deleted,
        2
    );
    assert_eq!(client.list_executions("hops").await.unwrap(), [3]);
    assert_eq!(
        client
            .prune_executions("hops", options)
            .await
            .unwrap()
            .executions_deleted,
        0
    );
    assert!(
        client
            .prune_executions("nobody", PruneOptions::default())
            .await
            .is_err()
    );
    h.raise("hops", "go", "on").await;
    assert_eq!(h.output("hops").await, "on");
}

/// Many instances are pruned in one call.
pub async fn many_instances_are_pruned_at_once(h: &Harness) {
    h.runtime(hops()).await;
    for i in 0..3 {
        hopped(h, &format!("hops-{i}"), 3).await;
    }
    let filter = InstanceFilter {
        instance_ids: Some(vec!["hops-0".into(), "hops-2".into()]),
        ..InstanceFilter::default()
    };
    let options = PruneOptions {
        keep_last: Some(1),
        completed_before: None,
    };
    let pruned = h.client().prune_executions_bulk(filter, options).await.unwrap();
    assert_eq!((pruned.instances_processed, pruned.executions_deleted), (2, 4));
    assert_eq!(h.client().list_executions("hops-1").await.unwrap(), [1, 2, 3]);
    assert_eq!(h.client().list_executions("hops-2").await.unwrap(), [3]);
}

/// An eternal workflow can tidy up behind itself.
pub async fn a_workflow_prunes_itself(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Tidy", |ctx, _| async move {
                let options = PruneOptions {
                    keep_last: Some(1),
                    completed_before: None,
                };
                let pruned = ctx.get_client().prune_executions(ctx.instance_id(), options).await;
                pruned
                    .map(|p| p.executions_deleted.to_string())
                    .map_err(|e| e.to_string())
            })
            .workflow("Eternal", |ctx, input| async move {
                let pruned = ctx.schedule_activity("Tidy", "").await?;
                let all = format!("{input}{pruned}");
                if ctx.execution_id() < 5 {
                    ctx.continue_as_new(all).await
                } else {
                    Ok(all)
                }
            }),
    )
    .await;
    h.start("eternal", "Eternal", "").await;
    assert_eq!(h.output("eternal").await, "01111");
    assert_eq!(h.client().list_executions("eternal").await.unwrap(), [5]);
}
