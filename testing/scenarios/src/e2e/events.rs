//! Events raised from outside.

use std::time::Duration;

use duroxide::Either2;

use crate::{Harness, Program};

/// An event resumes the workflow that waits for it, and only that one.
pub async fn an_event_resumes_its_workflow_only(h: &Harness) {
    h.runtime(Program::new().workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) }))
        .await;
    for instance in ["one", "two"] {
        h.start(instance, "Wait", "").await;
        h.until_waiting(instance, "go", 1).await;
    }
    h.raise("one", "go", "for one").await;
    assert_eq!(h.output("one").await, "for one");
    assert!(matches!(
        h.status("two").await,
        duroxide::OrchestrationStatus::Running { .. }
    ));
    h.raise("two", "go", "for two").await;
    assert_eq!(h.output("two").await, "for two");
}

/// Several events of one name arrive in the order in which they were raised.
pub async fn events_of_one_name_arrive_in_order(h: &Harness) {
    h.runtime(Program::new().workflow("Collect", |ctx, _| async move {
        let waits = (0..5).map(|_| ctx.schedule_wait("part")).collect();
        Ok(ctx.join(waits).await.join(""))
    }))
    .await;
    h.start("collect", "Collect", "").await;
    h.until_waiting("collect", "part", 5).await;
    for part in ["p", "a", "r", "t", "s"] {
        h.raise("collect", "part", part).await;
    }
    assert_eq!(h.output("collect").await, "parts");
}

/// Events of other names do not disturb a wait.
pub async fn events_of_other_names_do_not_disturb(h: &Harness) {
    h.runtime(Program::new().workflow("Picky", |ctx, _| async move {
        let (a, b) = ctx.join2(ctx.schedule_wait("a"), ctx.schedule_wait("b")).await;
        Ok(format!("{a} {b}"))
    }))
    .await;
    h.start("picky", "Picky", "").await;
    h.until_waiting("picky", "b", 1).await;
    h.raise("picky", "c", "noise").await;
    h.raise("picky", "b", "B").await;
    h.raise("picky", "a", "A").await;
    assert_eq!(h.output("picky").await, "A B");
}

/// Typed events round-trip.
pub async fn typed_events_round_trip(h: &Harness) {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Approval {
        by: String,
        amount: i64,
    }
    h.runtime(Program::new().workflow("Approve", |ctx, _| async move {
        let approval: Approval = ctx.schedule_wait_typed("approval").await;
        Ok(format!("{}:{}", approval.by, approval.amount))
    }))
    .await;
    h.start("approve", "Approve", "").await;
    h.until_waiting("approve", "approval", 1).await;
    let approval = Approval {
        by: "Grace".into(),
        amount: -7,
    };
    h.client()
        .raise_event_typed("approve", "approval", &approval)
        .await
        .unwrap();
    assert_eq!(h.output("approve").await, "Grace:-7");
}

fn deadline(limit: Duration) -> Program {
    Program::new().workflow("Deadline", move |ctx, _| async move {
        let answer = ctx.schedule_wait("answer");
        let timer = ctx.schedule_timer(limit);
        match ctx.select2(answer, timer).await {
            Either2::First(answer) => Ok(answer),
            Either2::Second(()) => Ok("no answer".to_owned()),
        }
    })
}

/// An event in time beats the timer.
pub async fn an_event_in_time_beats_the_timer(h: &Harness) {
    h.runtime(deadline(Duration::from_secs(60))).await;
    h.start("deadline", "Deadline", "").await;
    h.until_waiting("deadline", "answer", 1).await;
    h.raise("deadline", "answer", "yes").await;
    assert_eq!(h.output("deadline").await, "yes");
}

/// Without an event the timer decides, and a late event changes nothing.
pub async fn a_late_event_changes_nothing(h: &Harness) {
    h.runtime(deadline(Duration::from_millis(60))).await;
    h.start("deadline", "Deadline", "").await;
    assert_eq!(h.output("deadline").await, "no answer");
    h.raise("deadline", "answer", "late").await;
    h.start("after", "Deadline", "").await;
    assert_eq!(h.output("after").await, "no answer");
    assert_eq!(h.output("deadline").await, "no answer");
}

/// An event can start a chain of activities, several times over.
pub async fn events_and_activities_alternate(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Turns", |ctx, _| async move {
        let mut seen = Vec::new();
        loop {
            let word = ctx.schedule_wait("word").await;
            if word == "stop" {
                return Ok(seen.join(" "));
            }
            seen.push(ctx.schedule_activity("Echo", word).await?);
        }
    }))
    .await;
    h.start("turns", "Turns", "").await;
    for (i, word) in ["to", "be", "or", "not", "stop"].into_iter().enumerate() {
        h.until_waiting("turns", "word", i + 1).await;
        h.raise("turns", "word", word).await;
    }
    assert_eq!(h.output("turns").await, "to be or not");
}
