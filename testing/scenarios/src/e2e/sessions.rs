//! Activities that belong together run on one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::probe::Notes;
use crate::{Harness, Program};

/// A runtime of this name, whose activity `Where` notes and returns its name.
fn place(name: &'static str, ran: &Notes) -> Program {
    let ran = ran.clone();
    Program::new()
        .options(|o| o.worker_node_id = Some(name.to_owned()))
        .activity("Where", move |ctx, input| {
            ran.add(format!("{name} {} {input}", ctx.session_id().unwrap_or("-")));
            async move { Ok(name.to_owned()) }
        })
        .workflow("Steps", |ctx, session| async move {
            let mut places = Vec::new();
            for step in 0..6 {
                places.push(
                    ctx.schedule_activity_on_session("Where", step.to_string(), session.clone())
                        .await?,
                );
            }
            Ok(places.join(" "))
        })
        .workflow("Guided", |ctx, session| async move {
            let first = ctx
                .schedule_activity_on_session("Where", "first", session.clone())
                .await?;
            ctx.schedule_wait("go").await;
            let second = ctx.schedule_activity_on_session("Where", "second", session).await?;
            Ok(format!("{first} {second}"))
        })
}

/// All steps of a session run on the runtime that took the first.
pub async fn a_session_stays_with_one_runtime(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("north", &ran)).await;
    h.runtime(place("south", &ran)).await;
    for i in 0..4 {
        h.start(&format!("steps-{i}"), "Steps", &format!("session-{i}")).await;
    }
    for i in 0..4 {
        let places = h.output(&format!("steps-{i}")).await;
        let expected = if places.starts_with("north") {
            ["north"; 6]
        } else {
            ["south"; 6]
        };
        assert_eq!(places, expected.join(" "));
    }
    assert_eq!(ran.count(), 24);
}

/// A session is global: instances that name the same one share its runtime.
pub async fn instances_share_a_session(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("north", &ran)).await;
    h.runtime(place("south", &ran)).await;
    for i in 0..4 {
        h.start(&format!("steps-{i}"), "Steps", "the one").await;
    }
    let mut places = Vec::new();
    for i in 0..4 {
        places.extend(h.output(&format!("steps-{i}")).await.split(' ').map(str::to_owned));
    }
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 1, "one session ran on {places:?}");
}

/// When the owner is gone, another runtime takes the session over once its lease ends.
pub async fn another_runtime_takes_over(h: &Harness) {
    let ran = Notes::default();
    let short = |name| place(name, &ran).options(|o| o.session_lock_timeout = Duration::from_secs(1));
    let owner = h.runtime(short("owner")).await;
    h.start("guided", "Guided", "s").await;
    h.until_waiting("guided", "go", 1).await;
    h.kill(owner).await;
    h.runtime(short("heir")).await;
    h.raise("guided", "go", "").await;
    assert_eq!(h.output("guided").await, "owner heir");
    assert_eq!(ran.all(), ["owner s first", "heir s second"]);
}

/// A runtime that comes back under its name has its sessions at once, without waiting for a lease.
pub async fn a_returning_runtime_keeps_its_sessions(h: &Harness) {
    let ran = Notes::default();
    let before = h.runtime(place("node", &ran)).await;
    h.start("guided", "Guided", "s").await;
    h.until_waiting("guided", "go", 1).await;
    h.kill(before).await;
    h.runtime(place("node", &ran)).await;
    let begun = Instant::now();
    h.raise("guided", "go", "").await;
    assert_eq!(h.output("guided").await, "node node");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "the session lease (30 s) was waited for"
    );
}

/// Session steps and free steps mix; the free ones carry no session.
pub async fn session_steps_and_free_steps_mix(h: &Harness) {
    let ran = Notes::default();
    h.runtime(place("node", &ran).workflow("Mix", |ctx, _| async move {
        let calls = vec![
            ctx.schedule_activity_on_session("Where", "1", "s"),
            ctx.schedule_activity("Where", "2"),
            ctx.schedule_activity_on_session("Where", "3", "t"),
        ];
        Ok(ctx
            .join(calls)
            .await
            .into_iter()
            .filter(Result::is_ok)
            .count()
            .to_string())
    }))
    .await;
    h.start("mix", "Mix", "").await;
    assert_eq!(h.output("mix").await, "3");
    assert_eq!(ran.sorted(), ["node - 2", "node s 1", "node t 3"]);
}

/// A session lives on over continue-as-new.
pub async fn a_session_survives_continue_as_new(h: &Harness) {
    let ran = Notes::default();
    let program = |name| {
        place(name, &ran).workflow("Again", |ctx, input| async move {
            let place = ctx.schedule_activity_on_session("Where", "", "s").await?;
            let all = format!("{input}{place} ");
            if ctx.execution_id() < 5 {
                ctx.continue_as_new(all).await
            } else {
                Ok(all)
            }
        })
    };
    h.runtime(program("north")).await;
    h.runtime(program("south")).await;
    h.start("again", "Again", "").await;
    let places = h.output("again").await;
    let first = places.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(places, format!("{first} ").repeat(5));
}

/// A runtime holds no more sessions than it may; a freed place is used at once, even while its slots wait.
pub async fn a_runtime_holds_no_more_sessions_than_allowed(h: &Harness) {
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (n, p) = (Arc::clone(&now), Arc::clone(&peak));
    h.runtime(
        Program::new()
            .options(|o| {
                o.worker_concurrency = 3;
                o.max_sessions_per_runtime = 1;
                o.worker_node_id = Some("node".to_owned());
                o.dispatcher_long_poll_timeout = Duration::from_secs(30);
            })
            .activity("Hold", move |_, _| {
                let (n, p) = (Arc::clone(&n), Arc::clone(&p));
                async move {
                    p.fetch_max(n.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(80)).await;
                    n.fetch_sub(1, Ordering::SeqCst);
                    Ok(String::new())
                }
            })
            .workflow("Sessions", |ctx, _| async move {
                let calls = (0..3)
                    .map(|i| ctx.schedule_activity_on_session("Hold", "", format!("s{i}")))
                    .collect();
                Ok(ctx
                    .join(calls)
                    .await
                    .into_iter()
                    .filter(Result::is_ok)
                    .count()
                    .to_string())
            }),
    )
    .await;
    let begun = Instant::now();
    h.start("sessions", "Sessions", "").await;
    assert_eq!(h.output("sessions").await, "3");
    assert_eq!(peak.load(Ordering::SeqCst), 1, "sessions ran side by side");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "a parked slot hid session work for {:?}",
        begun.elapsed()
    );
}
