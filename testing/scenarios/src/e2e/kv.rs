//! The key-value store of an instance.

use std::collections::HashMap;

use crate::{Harness, Program};

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

async fn all(h: &Harness, instance: &str) -> HashMap<String, String> {
    h.client().get_kv_all_values(instance).await.unwrap()
}

/// Set, overwrite, clear: in one turn and over turns, read inside and outside.
pub async fn values_are_set_overwritten_and_cleared(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Kv", |ctx, _| async move {
        ctx.set_kv_value("a", "1");
        ctx.set_kv_value("b", "1");
        ctx.set_kv_value("c", "1");
        ctx.schedule_activity("Echo", "").await?;
        ctx.set_kv_value("a", "2");
        ctx.clear_kv_value("b");
        ctx.schedule_activity("Echo", "").await?;
        ctx.set_kv_value("d", "");
        let mut keys = ctx.get_kv_all_keys();
        keys.sort_unstable();
        Ok(format!(
            "{keys:?} {:?} {:?}",
            ctx.get_kv_value("a"),
            ctx.get_kv_value("b")
        ))
    }))
    .await;
    h.start("kv", "Kv", "").await;
    assert_eq!(h.output("kv").await, r#"["a", "c", "d"] Some("2") None"#);
    assert_eq!(all(h, "kv").await, map(&[("a", "2"), ("c", "1"), ("d", "")]));
    assert_eq!(h.client().get_kv_value("kv", "b").await.unwrap(), None);
    assert_eq!(h.client().get_kv_value("kv", "d").await.unwrap().as_deref(), Some(""));
}

/// A client sees values while the workflow still runs.
pub async fn a_client_reads_while_the_workflow_runs(h: &Harness) {
    h.runtime(Program::new().workflow("Kv", |ctx, _| async move {
        ctx.set_kv_value("progress", "half");
        ctx.schedule_wait("go").await;
        ctx.set_kv_value("progress", "full");
        Ok(String::new())
    }))
    .await;
    h.start("kv", "Kv", "").await;
    h.until_waiting("kv", "go", 1).await;
    assert_eq!(
        h.client().get_kv_value("kv", "progress").await.unwrap().as_deref(),
        Some("half")
    );
    h.raise("kv", "go", "").await;
    h.output("kv").await;
    assert_eq!(
        h.client().get_kv_value("kv", "progress").await.unwrap().as_deref(),
        Some("full")
    );
}

/// Values survive continue-as-new, and cleared ones stay cleared.
pub async fn values_survive_continue_as_new(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Kv", |ctx, _| async move {
        match ctx.execution_id() {
            1 => {
                ctx.set_kv_value("kept", "from one");
                ctx.set_kv_value("changed", "from one");
                ctx.set_kv_value("cleared", "from one");
                ctx.continue_as_new("").await
            }
            2 => {
                ctx.set_kv_value("changed", "from two");
                ctx.schedule_activity("Echo", "").await?;
                ctx.clear_kv_value("cleared");
                ctx.continue_as_new("").await
            }
            _ => {
                let read = |key| ctx.get_kv_value(key).unwrap_or_else(|| "-".to_owned());
                Ok([read("kept"), read("changed"), read("cleared")].join(","))
            }
        }
    }))
    .await;
    h.start("kv", "Kv", "").await;
    assert_eq!(h.output("kv").await, "from one,from two,-");
    assert_eq!(
        all(h, "kv").await,
        map(&[("kept", "from one"), ("changed", "from two")])
    );
}

/// Clearing everything leaves only the values that are set afterwards.
pub async fn clearing_everything_leaves_what_comes_after(h: &Harness) {
    h.runtime(Program::new().workflow("Kv", |ctx, _| async move {
        if ctx.execution_id() == 1 {
            ctx.set_kv_value("old", "x");
            ctx.set_kv_value("both", "x");
            return ctx.continue_as_new("").await;
        }
        ctx.set_kv_value("before", "x");
        ctx.clear_all_kv_values();
        ctx.set_kv_value("both", "y");
        Ok(ctx.get_kv_length().to_string())
    }))
    .await;
    h.start("kv", "Kv", "").await;
    assert_eq!(h.output("kv").await, "1");
    assert_eq!(all(h, "kv").await, map(&[("both", "y")]));
}

/// A counter that is read and written in every turn counts every turn.
pub async fn a_counter_counts_every_turn(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Count", |ctx, _| async move {
        for _ in 0..10 {
            let n = ctx.get_kv_value_typed::<u32>("n")?.unwrap_or(0);
            ctx.set_kv_value_typed("n", &(n + 1));
            ctx.schedule_activity("Echo", "").await?;
        }
        if ctx.execution_id() < 3 {
            ctx.continue_as_new("").await
        } else {
            Ok(String::new())
        }
    }))
    .await;
    h.start("count", "Count", "").await;
    h.output("count").await;
    assert_eq!(
        h.client().get_kv_value_typed::<u32>("count", "n").await.unwrap(),
        Some(30)
    );
}

/// One workflow reads another's values; unknown keys and instances read as nothing.
pub async fn a_workflow_reads_anothers_values(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Writer", |ctx, _| async move {
                ctx.set_kv_value("shared", "from the writer");
                Ok(ctx.schedule_wait("go").await)
            })
            .workflow("Reader", |ctx, _| async move {
                let found = ctx.get_kv_value_from_instance("writer", "shared").await?;
                let missing = ctx.get_kv_value_from_instance("writer", "missing").await?;
                let nobody = ctx.get_kv_value_from_instance("nobody", "shared").await?;
                Ok(format!("{found:?} {missing:?} {nobody:?}"))
            }),
    )
    .await;
    h.start("writer", "Writer", "").await;
    h.until_waiting("writer", "go", 1).await;
    h.start("reader", "Reader", "").await;
    assert_eq!(h.output("reader").await, r#"Some("from the writer") None None"#);
    assert!(all(h, "reader").await.is_empty(), "reading is not writing");
}

/// As many keys as the runtime allows, in one turn.
pub async fn a_hundred_and_fifty_keys_in_one_turn(h: &Harness) {
    h.runtime(Program::new().workflow("Many", |ctx, input| async move {
        let count: usize = input.parse().map_err(|_| "not a number".to_owned())?;
        for i in 0..count {
            ctx.set_kv_value(format!("key-{i}"), format!("value {i}"));
        }
        Ok(ctx.get_kv_length().to_string())
    }))
    .await;
    h.start("many", "Many", "150").await;
    h.start("too-many", "Many", "151").await;
    assert_eq!(h.output("many").await, "150");
    let values = all(h, "many").await;
    assert_eq!(values.len(), 150);
    assert!((0..150).all(|i| values.get(&format!("key-{i}")) == Some(&format!("value {i}"))));
    assert!(
        h.failure("too-many").await.display_message().contains("150"),
        "the limit is named"
    );
}

/// A value as large as the runtime allows.
pub async fn a_value_of_64_kb(h: &Harness) {
    h.runtime(Program::new().workflow("Big", |ctx, _| async move {
        ctx.set_kv_value("big", "é".repeat(32 * 1024));
        Ok(String::new())
    }))
    .await;
    h.start("big", "Big", "").await;
    h.output("big").await;
    assert_eq!(
        h.client().get_kv_value("big", "big").await.unwrap(),
        Some("é".repeat(32 * 1024))
    );
}

/// Values of a failed workflow can still be read.
pub async fn values_of_a_failed_workflow_remain(h: &Harness) {
    h.runtime(Program::new().workflow("Fail", |ctx, _| async move {
        ctx.set_kv_value("clue", "the butler");
        Err("dead".to_owned())
    }))
    .await;
    h.start("fail", "Fail", "").await;
    assert_eq!(h.failure("fail").await.display_message(), "dead");
    assert_eq!(all(h, "fail").await, map(&[("clue", "the butler")]));
}

/// Values that were not touched for long can be thrown out by the workflow.
pub async fn old_values_can_be_thrown_out(h: &Harness) {
    h.runtime(Program::new().workflow("Prune", |ctx, input| async move {
        if ctx.execution_id() == 1 {
            ctx.set_kv_value("old", "x");
            return ctx.continue_as_new("second").await;
        }
        ctx.schedule_timer(std::time::Duration::from_millis(20)).await;
        let now = ctx
            .utc_now()
            .await?
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|e| e.to_string())?;
        let pruned = ctx.prune_kv_values_updated_before(now.as_millis() as u64);
        ctx.set_kv_value("new", input);
        Ok(pruned.to_string())
    }))
    .await;
    h.start("prune", "Prune", "").await;
    assert_eq!(h.output("prune").await, "1");
    assert_eq!(all(h, "prune").await, map(&[("new", "second")]));
}
