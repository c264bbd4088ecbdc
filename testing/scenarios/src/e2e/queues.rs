//! Persistent event queues: messages stay until they are read.

use std::time::Duration;

use duroxide::Either2;

use crate::{Harness, Program};

/// Messages are read in the order in which they were sent, also those sent before the first read.
pub async fn messages_are_read_in_order(h: &Harness) {
    h.runtime(Program::new().workflow("Reader", |ctx, _| async move {
        ctx.schedule_wait("go").await;
        let mut words = Vec::new();
        for _ in 0..4 {
            words.push(ctx.dequeue_event("inbox").await);
        }
        Ok(words.join(" "))
    }))
    .await;
    h.start("reader", "Reader", "").await;
    h.until_waiting("reader", "go", 1).await;
    for word in ["early", "and", "in"] {
        h.enqueue("reader", "inbox", word).await;
    }
    h.raise("reader", "go", "").await;
    h.until_waiting("reader", "inbox", 4).await;
    h.enqueue("reader", "inbox", "order").await;
    assert_eq!(h.output("reader").await, "early and in order");
}

/// Queues of different names do not mix.
pub async fn queues_do_not_mix(h: &Harness) {
    h.runtime(Program::new().workflow("Two", |ctx, _| async move {
        let a1 = ctx.dequeue_event("a").await;
        let b1 = ctx.dequeue_event("b").await;
        let a2 = ctx.dequeue_event("a").await;
        let b2 = ctx.dequeue_event("b").await;
        Ok([a1, a2, b1, b2].join(" "))
    }))
    .await;
    h.start("two", "Two", "").await;
    h.until_waiting("two", "a", 1).await;
    for (queue, data) in [("b", "b1"), ("a", "a1"), ("b", "b2"), ("a", "a2")] {
        h.enqueue("two", queue, data).await;
    }
    assert_eq!(h.output("two").await, "a1 a2 b1 b2");
}

/// A queue and an event of the same name are two things.
pub async fn a_queue_is_not_an_event(h: &Harness) {
    h.runtime(Program::new().workflow("Both", |ctx, _| async move {
        let (event, message) = ctx.join2(ctx.schedule_wait("same"), ctx.dequeue_event("same")).await;
        Ok(format!("{event} {message}"))
    }))
    .await;
    h.start("both", "Both", "").await;
    h.until_waiting("both", "same", 2).await;
    h.enqueue("both", "same", "message").await;
    h.raise("both", "same", "event").await;
    assert_eq!(h.output("both").await, "event message");
}

/// A reader that gave up did not take the message with it.
pub async fn a_reader_that_gave_up_takes_no_message(h: &Harness) {
    h.runtime(Program::new().workflow("Patient", |ctx, _| async move {
        let message = ctx.dequeue_event("inbox");
        let limit = ctx.schedule_timer(Duration::from_millis(30));
        if let Either2::First(message) = ctx.select2(message, limit).await {
            return Ok(format!("too soon: {message}"));
        }
        ctx.schedule_wait("go").await;
        Ok(ctx.dequeue_event("inbox").await)
    }))
    .await;
    h.start("patient", "Patient", "").await;
    h.until_waiting("patient", "go", 1).await;
    h.enqueue("patient", "inbox", "kept").await;
    h.raise("patient", "go", "").await;
    assert_eq!(h.output("patient").await, "kept");
}

/// Messages for an instance that does not exist are dropped, and nothing is created.
pub async fn messages_for_a_missing_instance_are_dropped(h: &Harness) {
    h.runtime(Program::new().workflow("Deaf", |ctx, _| async move {
        let message = ctx.dequeue_event("inbox");
        let limit = ctx.schedule_timer(Duration::from_millis(100));
        match ctx.select2(message, limit).await {
            Either2::First(message) => Ok(format!("heard {message}")),
            Either2::Second(()) => Ok("heard nothing".to_owned()),
        }
    }))
    .await;
    h.enqueue("deaf", "inbox", "lost").await;
    h.until("the orphan message is gone", || async {
        h.client().get_queue_depths().await.unwrap().orchestrator_queue == 0
    })
    .await;
    assert_eq!(h.client().list_all_instances().await.unwrap(), Vec::<String>::new());
    h.start("deaf", "Deaf", "").await;
    assert_eq!(h.output("deaf").await, "heard nothing");
}

/// Messages sent with the start, before any runtime runs, are all there.
pub async fn messages_sent_right_after_the_start_are_kept(h: &Harness) {
    h.start("prompt", "Prompt", "").await;
    for data in ["x", "y", "z"] {
        h.enqueue("prompt", "inbox", data).await;
    }
    h.runtime(Program::new().workflow("Prompt", |ctx, _| async move {
        let mut all = String::new();
        for _ in 0..3 {
            all.push_str(&ctx.dequeue_event("inbox").await);
        }
        Ok(all)
    }))
    .await;
    assert_eq!(h.output("prompt").await, "xyz");
}

/// Three hundred waiting messages are all read, in order.
pub async fn three_hundred_messages_are_read_in_order(h: &Harness) {
    h.start("many", "Many", "").await;
    for i in 0..300 {
        h.enqueue("many", "inbox", &i.to_string()).await;
    }
    h.runtime(Program::new().workflow("Many", |ctx, _| async move {
        let reads = (0..300).map(|_| ctx.dequeue_event("inbox")).collect();
        Ok(ctx.join(reads).await.join(" "))
    }))
    .await;
    let expected: Vec<_> = (0..300).map(|i| i.to_string()).collect();
    assert_eq!(h.output("many").await, expected.join(" "));
}

/// A request in a queue gets its reply through the key-value store.
pub async fn a_request_is_answered_through_the_kv_store(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Double", |_, n| async move {
                let n: i64 = n.parse().map_err(|_| "not a number".to_owned())?;
                Ok((n * 2).to_string())
            })
            .workflow("Server", |ctx, _| async move {
                loop {
                    let request = ctx.dequeue_event("requests").await;
                    if request == "stop" {
                        return Ok("stopped".to_owned());
                    }
                    let answer = ctx.schedule_activity("Double", request.clone()).await?;
                    ctx.set_kv_value(format!("answer-{request}"), answer);
                }
            }),
    )
    .await;
    h.start("server", "Server", "").await;
    h.until_waiting("server", "requests", 1).await;
    for n in ["4", "21"] {
        h.enqueue("server", "requests", n).await;
    }
    let client = h.client();
    let timeout = crate::harness::TIMEOUT;
    assert_eq!(
        client.wait_for_kv_value("server", "answer-21", timeout).await.unwrap(),
        "42"
    );
    assert_eq!(
        client.wait_for_kv_value("server", "answer-4", timeout).await.unwrap(),
        "8"
    );
    h.enqueue("server", "requests", "stop").await;
    assert_eq!(h.output("server").await, "stopped");
}
