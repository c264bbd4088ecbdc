//! Activities for certain workers only.

use std::time::Duration;

use duroxide::{Either2, TagFilter};

use crate::probe::Notes;
use crate::{Harness, Program};

/// A program whose activity `Where` returns the name of its runtime.
fn place(name: &'static str, filter: TagFilter, ran: &Notes) -> Program {
    let ran = ran.clone();
    Program::new()
        .options(|o| o.worker_tag_filter = filter)
        .activity("Where", move |ctx, _| {
            ran.add(format!("{name}:{}", ctx.tag().unwrap_or("-")));
            async move { Ok(name.to_owned()) }
        })
        .workflow("Route", |ctx, _| async move {
            let plain = ctx.schedule_activity("Where", "").await?;
            let tagged = ctx.schedule_activity("Where", "").with_tag("gpu").await?;
            Ok(format!("{plain} {tagged}"))
        })
}

/// Each runtime gets only what its filter admits.
pub async fn two_runtimes_split_the_work_by_tag(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("cpu", TagFilter::default_only(), &ran)).await;
    h.runtime(place("gpu", TagFilter::tags(["gpu"]), &ran)).await;
    for i in 0..5 {
        h.start(&format!("route-{i}"), "Route", "").await;
    }
    for i in 0..5 {
        assert_eq!(h.output(&format!("route-{i}")).await, "cpu gpu");
    }
    assert_eq!(ran.sorted(), [["cpu:-"; 5], ["gpu:gpu"; 5]].concat());
}

/// A generalist takes everything.
pub async fn a_generalist_takes_everything(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("all", TagFilter::any(), &ran)).await;
    h.start("route", "Route", "").await;
    assert_eq!(h.output("route").await, "all all");
}

/// A runtime may take untagged work and one tag, and leave another tag alone.
pub async fn a_runtime_may_take_untagged_work_and_a_tag(h: &Harness) {
    let ran = Notes::default();
    h.runtime(
        place("both", TagFilter::default_and(["gpu"]), &ran).workflow("Other", |ctx, _| async move {
            let other = ctx.schedule_activity("Where", "").with_tag("tpu");
            let limit = ctx.schedule_timer(Duration::from_millis(150));
            match ctx.select2(other, limit).await {
                Either2::First(place) => place,
                Either2::Second(()) => Ok("nobody".to_owned()),
            }
        }),
    )
    .await;
    h.start("other", "Other", "").await;
    h.start("route", "Route", "").await;
    assert_eq!(h.output("route").await, "both both");
    assert_eq!(h.output("other").await, "nobody");
    assert_eq!(ran.sorted(), ["both:-", "both:gpu"]);
}

/// Work for a tag waits until a worker serves it.
pub async fn tagged_work_waits_for_its_worker(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("cpu", TagFilter::default_only(), &ran)).await;
    h.start("route", "Route", "").await;
    h.until("the tagged work waits", || async {
        h.kinds("route")
            .await
            .iter()
            .filter(|k| *k == "ActivityScheduled")
            .count()
            == 2
    })
    .await;
    assert_eq!(ran.all(), ["cpu:-"]);
    h.runtime(place("gpu", TagFilter::tags(["gpu", "tpu"]), &ran)).await;
    assert_eq!(h.output("route").await, "cpu gpu");
}

/// A runtime that takes no activities still turns workflows, and another does the work.
pub async fn turns_and_work_may_live_apart(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("turns", TagFilter::none(), &ran)).await;
    h.runtime(place("work", TagFilter::any(), &ran)).await;
    for i in 0..5 {
        h.start(&format!("route-{i}"), "Route", "").await;
        assert_eq!(h.output(&format!("route-{i}")).await, "work work");
    }
    assert_eq!(ran.count(), 10);
}
