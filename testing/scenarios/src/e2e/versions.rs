//! Versions of workflows, and runtimes of different ages on one store.

use duroxide::runtime::registry::VersionPolicy;
use duroxide::{EventKind, SemverRange};
use semver::Version;

use crate::probe::Notes;
use crate::{Harness, Program};

fn two_versions() -> Program {
    Program::new()
        .workflow_version("Flow", "1.0.0", |_, _| async { Ok("one".to_owned()) })
        .workflow_version("Flow", "2.0.0", |_, _| async { Ok("two".to_owned()) })
}

/// A start without a version gets the latest; with one, just that.
pub async fn a_start_gets_the_latest_or_the_named_version(h: &Harness) {
    h.runtime(two_versions()).await;
    h.start("latest", "Flow", "").await;
    h.start_version("named", "Flow", "1.0.0", "").await;
    assert_eq!(h.output("latest").await, "two");
    assert_eq!(h.output("named").await, "one");
    let client = h.client();
    assert_eq!(
        client.get_instance_info("latest").await.unwrap().orchestration_version,
        "2.0.0"
    );
    assert_eq!(
        client.get_instance_info("named").await.unwrap().orchestration_version,
        "1.0.0"
    );
}

/// A policy can pin what a start without a version gets.
pub async fn a_policy_pins_the_version(h: &Harness) {
    h.runtime(two_versions().policy("Flow", VersionPolicy::Exact(Version::new(1, 0, 0))))
        .await;
    h.start("pinned", "Flow", "").await;
    h.start_version("named", "Flow", "2.0.0", "").await;
    assert_eq!(h.output("pinned").await, "one");
    assert_eq!(h.output("named").await, "two");
}

/// Children follow the same rules.
pub async fn children_get_the_latest_or_the_named_version(h: &Harness) {
    h.runtime(two_versions().workflow("Parent", |ctx, _| async move {
        let latest = ctx.schedule_sub_orchestration("Flow", "").await?;
        let named = ctx
            .schedule_sub_orchestration_versioned("Flow", Some("1.0.0".to_owned()), "")
            .await?;
        Ok(format!("{latest} {named}"))
    }))
    .await;
    h.start("parent", "Parent", "").await;
    assert_eq!(h.output("parent").await, "two one");
}

fn waiting(version: &str) -> Program {
    let program = Program::new().workflow_version("Flow", "1.0.0", |ctx, _| async move {
        Ok(format!("one {}", ctx.schedule_wait("go").await))
    });
    match version {
        "1.0.0" => program,
        later => program.workflow_version("Flow", later, |ctx, _| async move {
            Ok(format!("two {}", ctx.schedule_wait("go").await))
        }),
    }
}

/// What runs when a new release comes finishes in the version in which it began; what starts later gets the new one.
pub async fn running_work_keeps_its_version_over_an_upgrade(h: &Harness) {
    let old = h.runtime(waiting("1.0.0")).await;
    h.start("before", "Flow", "").await;
    h.until_waiting("before", "go", 1).await;
    h.stop(old).await;
    h.runtime(waiting("2.0.0")).await;
    h.start("after", "Flow", "").await;
    h.until_waiting("after", "go", 1).await;
    h.raise("before", "go", "on").await;
    h.raise("after", "go", "on").await;
    assert_eq!(h.output("before").await, "one on");
    assert_eq!(h.output("after").await, "two on");
}

/// While old and new runtimes run side by side, work of the new version ends up with the new one.
pub async fn old_and_new_runtimes_share_one_store(h: &Harness) {
    h.runtime(waiting("1.0.0").options(|o| o.max_attempts = 1_000)).await;
    h.runtime(waiting("2.0.0").options(|o| o.max_attempts = 1_000)).await;
    for i in 0..4 {
        h.start_version(&format!("old-{i}"), "Flow", "1.0.0", "").await;
        h.start_version(&format!("new-{i}"), "Flow", "2.0.0", "").await;
    }
    for i in 0..4 {
        for age in ["old", "new"] {
            let instance = format!("{age}-{i}");
            h.until_waiting(&instance, "go", 1).await;
            h.raise(&instance, "go", "done").await;
        }
    }
    for i in 0..4 {
        assert_eq!(h.output(&format!("old-{i}")).await, "one done");
        assert_eq!(h.output(&format!("new-{i}")).await, "two done");
    }
}

/// A runtime that cannot replay an execution leaves it to one that can, and takes the rest itself.
pub async fn a_runtime_leaves_what_it_cannot_replay(h: &Harness) {
    let ran = Notes::default();
    let program = |label: &'static str, notes: &Notes| {
        let notes = notes.clone();
        Program::new().workflow("Flow", move |ctx, _| {
            let notes = notes.clone();
            async move {
                let word = ctx.schedule_wait("go").await;
                notes.add(label);
                Ok(word)
            }
        })
    };
    let current = h.runtime(program("current", &ran)).await;
    h.start("flow", "Flow", "").await;
    h.until_waiting("flow", "go", 1).await;
    h.stop(current).await;
    let ancient = SemverRange::new(Version::new(0, 0, 0), Version::new(0, 0, 1));
    h.runtime(program("ancient", &ran).options(|o| o.supported_replay_versions = Some(ancient)))
        .await;
    h.raise("flow", "go", "went").await;
    h.start("fresh", "Flow", "").await;
    h.until("the ancient runtime took the new start", || async {
        h.history("fresh")
            .await
            .iter()
            .any(|e| matches!(e.kind, EventKind::ExternalSubscribed { .. }))
    })
    .await;
    assert_eq!(ran.count(), 0, "the ancient runtime replayed what it does not know");
    h.runtime(program("current", &ran)).await;
    assert_eq!(h.output("flow").await, "went");
    assert_eq!(ran.all(), ["current"]);
}
