//! Large payloads and long histories.

use crate::{Harness, Program};

/// Ten megabytes as input, as activity input and output, and as result.
pub async fn ten_megabytes_come_through(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Turn", |_, input| async move { Ok(input.chars().rev().collect()) })
            .workflow("Mirror", |ctx, input| async move {
                ctx.schedule_activity("Turn", input).await
            }),
    )
    .await;
    let payload: String = (0..1_250_000).map(|i| format!("{:08}", i % 100_000_000)).collect();
    assert_eq!(payload.len(), 10_000_000);
    h.start("large", "Mirror", &payload).await;
    let expected: String = payload.chars().rev().collect();
    assert!(h.output("large").await == expected, "ten megabytes came back changed");
}

/// Many middling payloads of one turn, more than any one record or commit may hold.
pub async fn many_payloads_of_one_turn(h: &Harness) {
    h.runtime(
        Program::new()
            .options(|o| o.worker_concurrency = 4)
            .activity("Size", |_, input| async move { Ok(input.len().to_string()) })
            .workflow("Sizes", |ctx, _| async move {
                let calls = (0..40)
                    .map(|i| ctx.schedule_activity("Size", "x".repeat(100_000 + i)))
                    .collect();
                let mut sum = 0;
                for size in ctx.join(calls).await {
                    sum += size?.parse::<usize>().map_err(|e| e.to_string())?;
                }
                Ok(sum.to_string())
            }),
    )
    .await;
    h.start("sizes", "Sizes", "").await;
    assert_eq!(
        h.output("sizes").await,
        (40 * 100_000 + (0..40).sum::<usize>()).to_string()
    );
}

/// Two hundred turns in one execution.
pub async fn two_hundred_turns(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Long", |ctx, _| async move {
        let mut n = 0u32;
        while n < 200 {
            n = ctx
                .schedule_activity("Echo", (n + 1).to_string())
                .await?
                .parse()
                .map_err(|_| "?".to_owned())?;
        }
        Ok(n.to_string())
    }))
    .await;
    h.start("long", "Long", "").await;
    assert_eq!(h.output("long").await, "200");
    let ids: Vec<_> = h.history("long").await.iter().map(|e| e.event_id).collect();
    assert_eq!(ids, (1..=402).collect::<Vec<_>>());
}

/// A megabyte in an event, a message and a child's result.
pub async fn a_megabyte_in_every_kind_of_message(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Child", |_, input| async move { Ok(input) })
            .workflow("Parent", |ctx, _| async move {
                let event = ctx.schedule_wait("event").await;
                let message = ctx.dequeue_event("queue").await;
                let child = ctx.schedule_sub_orchestration("Child", message.clone()).await?;
                Ok(if event == message && message == child {
                    event.len().to_string()
                } else {
                    "differ".to_owned()
                })
            }),
    )
    .await;
    let megabyte = "m".repeat(1_000_000);
    h.start("parent", "Parent", "").await;
    h.until_waiting("parent", "event", 1).await;
    h.raise("parent", "event", &megabyte).await;
    h.enqueue("parent", "queue", &megabyte).await;
    assert_eq!(h.output("parent").await, "1000000");
}
