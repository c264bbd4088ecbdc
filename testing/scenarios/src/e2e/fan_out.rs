//! Many activities at once, and their results together.

use std::time::Duration;

use duroxide::runtime::OrchestrationStatus;

use crate::probe::Notes;
use crate::{Harness, Program};

/// The results of a join stand in the order of the calls, whatever the order of the endings.
pub async fn results_stand_in_the_order_of_the_calls(h: &Harness) {
    h.runtime(
        Program::new()
            .options(|o| o.worker_concurrency = 5)
            .activity("Late", |_, input| async move {
                let n: u64 = input.parse().unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(50 - 10 * n)).await;
                Ok(format!("r{n}"))
            })
            .workflow("FanOut", |ctx, _| async move {
                let calls = (0..5).map(|n| ctx.schedule_activity("Late", n.to_string())).collect();
                let results: Result<Vec<_>, _> = ctx.join(calls).await.into_iter().collect();
                Ok(results?.join(","))
            }),
    )
    .await;
    h.start("fan", "FanOut", "").await;
    assert_eq!(h.output("fan").await, "r0,r1,r2,r3,r4");
}

/// One failure among many leaves the others' results.
pub async fn one_failure_leaves_the_other_results(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Odd", |_, n| async move {
                if n == "3" { Err("three".to_owned()) } else { Ok(n) }
            })
            .workflow("FanOut", |ctx, _| async move {
                let calls = (0..6).map(|n| ctx.schedule_activity("Odd", n.to_string())).collect();
                let words: Vec<_> = ctx
                    .join(calls)
                    .await
                    .into_iter()
                    .map(|r| r.unwrap_or_else(|e| format!("!{e}")))
                    .collect();
                Ok(words.join(","))
            }),
    )
    .await;
    h.start("fan", "FanOut", "").await;
    assert_eq!(h.output("fan").await, "0,1,2,!three,4,5");
}

/// Different kinds of waiting join: an activity, a timer, an event.
pub async fn different_kinds_join(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Join", |ctx, _| async move {
        let activity = ctx.schedule_activity("Echo", "a");
        let timer = ctx.schedule_timer(Duration::from_millis(20));
        let event = ctx.schedule_wait("go");
        let (activity, (), event) = ctx.join3(activity, timer, event).await;
        Ok(format!("{}{event}", activity?))
    }))
    .await;
    h.start("join", "Join", "").await;
    h.until_waiting("join", "go", 1).await;
    h.raise("join", "go", "e").await;
    assert_eq!(h.output("join").await, "ae");
}

/// A thousand activities of one turn each run once and are each counted once.
pub async fn a_thousand_activities_at_once(h: &Harness) {
    let ran = Notes::default();
    let notes = ran.clone();
    h.runtime(
        Program::new()
            .options(|o| o.worker_concurrency = 8)
            .activity("Square", move |_, input| {
                notes.add(input.clone());
                async move {
                    let n: u64 = input.parse().map_err(|_| "not a number".to_owned())?;
                    Ok((n * n).to_string())
                }
            })
            .workflow("Squares", |ctx, _| async move {
                let calls = (0..1_000)
                    .map(|n| ctx.schedule_activity("Square", n.to_string()))
                    .collect();
                let mut sum = 0u64;
                for result in ctx.join(calls).await {
                    sum += result?.parse::<u64>().map_err(|e| e.to_string())?;
                }
                Ok(sum.to_string())
            }),
    )
    .await;
    h.start("squares", "Squares", "").await;
    match h.ended_within("squares", Duration::from_secs(100)).await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "332833500"),
        other => panic!("unexpected {other:?}"),
    }
    let mut ran = ran.sorted();
    ran.dedup();
    assert_eq!(ran.len(), 1_000);
    let kinds = h.kinds("squares").await;
    assert_eq!(kinds.iter().filter(|k| *k == "ActivityCompleted").count(), 1_000);
}

/// Two waves, the second built from the first.
pub async fn a_second_wave_uses_the_first(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("List", |_, n| async move {
                let n: usize = n.parse().map_err(|_| "not a number".to_owned())?;
                Ok((0..n).map(|i| format!("f{i}")).collect::<Vec<_>>().join(" "))
            })
            .activity("Size", |_, name| async move { Ok(name.len().to_string()) })
            .workflow("Waves", |ctx, n| async move {
                let list = ctx.schedule_activity("List", n).await?;
                let calls = list
                    .split(' ')
                    .map(|name| ctx.schedule_activity("Size", name))
                    .collect();
                let mut total = 0;
                for size in ctx.join(calls).await {
                    total += size?.parse::<usize>().map_err(|e| e.to_string())?;
                }
                Ok(total.to_string())
            }),
    )
    .await;
    h.start("waves", "Waves", "12").await;
    assert_eq!(h.output("waves").await, (10 * 2 + 2 * 3).to_string());
}
