//! The smallest workflows.

use duroxide::runtime::OrchestrationStatus;

use crate::probe::Notes;
use crate::{Harness, Program};

fn greeter() -> Program {
    Program::new()
        .activity("Greet", |_, name| async move { Ok(format!("Good morning, {name}")) })
        .workflow("Greeting", |ctx, name| async move {
            ctx.schedule_activity("Greet", name).await
        })
}

/// One activity, one result, and exactly the four events that this takes.
pub async fn one_activity_makes_a_result(h: &Harness) {
    h.runtime(greeter()).await;
    h.start("hello", "Greeting", "Ada").await;
    assert_eq!(h.output("hello").await, "Good morning, Ada");
    let expected = [
        "OrchestrationStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "OrchestrationCompleted",
    ];
    assert_eq!(h.kinds("hello").await, expected);
}

/// A workflow that only computes ends in its first turn.
pub async fn a_workflow_without_steps_completes(h: &Harness) {
    h.runtime(Program::new().workflow("Shout", |_, input| async move { Ok(input.to_uppercase()) }))
        .await;
    h.start("shout", "Shout", "quiet").await;
    assert_eq!(h.output("shout").await, "QUIET");
    assert_eq!(
        h.kinds("shout").await,
        ["OrchestrationStarted", "OrchestrationCompleted"]
    );
}

/// Empty and non-ASCII strings come through unchanged.
pub async fn any_text_comes_through_unchanged(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Mirror", |ctx, input| async move {
        ctx.schedule_activity("Echo", input).await
    }))
    .await;
    for (instance, text) in [("empty", ""), ("text", "naïve \"quotes\" \\ \n\t 🌱 \u{0} end")] {
        h.start(instance, "Mirror", text).await;
        assert_eq!(h.output(instance).await, text);
    }
}

/// Steps see each other's results, in order.
pub async fn steps_run_one_after_the_other(h: &Harness) {
    let ran = Notes::default();
    let notes = ran.clone();
    h.runtime(
        Program::new()
            .activity("Append", move |_, input| {
                notes.add(input.clone());
                async move { Ok(format!("{input}+")) }
            })
            .workflow("Chain", |ctx, input| async move {
                let mut value = input;
                for _ in 0..5 {
                    value = ctx.schedule_activity("Append", value).await?;
                }
                Ok(value)
            }),
    )
    .await;
    h.start("chain", "Chain", "x").await;
    assert_eq!(h.output("chain").await, "x+++++");
    assert_eq!(ran.all(), ["x", "x+", "x++", "x+++", "x++++"]);
}

/// Typed input and output are JSON on the wire, and come back as they went.
pub async fn typed_values_round_trip(h: &Harness) {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug, Clone)]
    struct Order {
        id: u64,
        lines: Vec<(String, u32)>,
        note: Option<String>,
    }
    h.runtime(Program::new().with_echo().workflow("Order", |ctx, input| async move {
        let order: Order = serde_json::from_str(&input).map_err(|e| e.to_string())?;
        let echoed: Order = ctx.schedule_activity_typed("Echo", &order).await?;
        serde_json::to_string(&Order {
            id: echoed.id + 1,
            ..echoed
        })
        .map_err(|e| e.to_string())
    }))
    .await;
    let order = Order {
        id: 41,
        lines: vec![("tea".into(), 2), ("thé \"vert\"".into(), 1)],
        note: None,
    };
    h.client()
        .start_orchestration_typed("order", "Order", order.clone())
        .await
        .unwrap();
    let got = h
        .client()
        .wait_for_orchestration_typed::<Order>("order", crate::harness::TIMEOUT)
        .await
        .unwrap();
    assert_eq!(got, Ok(Order { id: 42, ..order }));
}

/// The clock and the id generator are recorded: replays see what the first run saw.
pub async fn recorded_system_calls_are_stable_over_replays(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("System", |ctx, _| async move {
        let first = ctx.new_guid().await?;
        let second = ctx.new_guid().await?;
        let now = ctx.utc_now().await?;
        let millis = now
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|e| e.to_string())?
            .as_millis();
        let echoed = ctx
            .schedule_activity("Echo", format!("{first} {second} {millis}"))
            .await?;
        ctx.schedule_activity("Echo", "one more replay").await?;
        Ok(format!("{echoed} {first} {second} {millis}"))
    }))
    .await;
    h.start("system", "System", "").await;
    let output = h.output("system").await;
    let words: Vec<_> = output.split(' ').collect();
    assert_eq!(words.len(), 6, "{output}");
    assert_eq!(words[..3], words[3..], "a replay saw other values");
    assert_ne!(words[0], words[1], "two ids are the same");
}

/// A second start of an id changes nothing, while it runs and after it ended.
pub async fn a_second_start_of_an_id_is_ignored(h: &Harness) {
    h.runtime(Program::new().workflow("Once", |ctx, input| async move {
        Ok(format!("{input} {}", ctx.schedule_wait("go").await))
    }))
    .await;
    h.start("once", "Once", "first").await;
    h.until_waiting("once", "go", 1).await;
    h.start("once", "Once", "second").await;
    h.raise("once", "go", "now").await;
    assert_eq!(h.output("once").await, "first now");
    h.start("once", "Once", "third").await;
    h.start("marker", "Once", "marker").await;
    h.until_waiting("marker", "go", 1).await;
    assert_eq!(h.output("once").await, "first now");
    assert_eq!(h.admin(async |a| a.list_executions("once").await).await.unwrap(), [1]);
}

/// An activity knows for whom it runs.
pub async fn an_activity_knows_its_workflow(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Who", |ctx, _| async move {
                Ok([
                    ctx.instance_id(),
                    ctx.orchestration_name(),
                    ctx.orchestration_version(),
                    ctx.activity_name(),
                ]
                .join("/"))
            })
            .workflow_version("Owner", "1.4.2", |ctx, _| async move {
                ctx.schedule_activity("Who", "").await
            }),
    )
    .await;
    h.start("owned", "Owner", "").await;
    assert_eq!(h.output("owned").await, "owned/Owner/1.4.2/Who");
}

/// A status goes from unknown over running to completed.
pub async fn a_status_tells_where_an_instance_is(h: &Harness) {
    assert_eq!(h.status("status").await, OrchestrationStatus::NotFound);
    h.runtime(Program::new().workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) }))
        .await;
    h.start("status", "Wait", "").await;
    h.until_waiting("status", "go", 1).await;
    let running = OrchestrationStatus::Running {
        custom_status: None,
        custom_status_version: 0,
    };
    assert_eq!(h.status("status").await, running);
    h.raise("status", "go", "done").await;
    assert_eq!(h.output("status").await, "done");
}

/// Many instances at once do not mix.
pub async fn instances_do_not_mix(h: &Harness) {
    h.runtime(greeter()).await;
    for i in 0..40 {
        h.start(&format!("guest-{i}"), "Greeting", &format!("guest {i}")).await;
    }
    for i in 0..40 {
        assert_eq!(
            h.output(&format!("guest-{i}")).await,
            format!("Good morning, guest {i}")
        );
    }
}
