//! Ids, keys, sessions, tags and event names with every awkward character.

use duroxide::TagFilter;

use crate::{Harness, Program, awkward};

/// Each awkward instance id is its own instance, with its own history, values and events.
pub async fn awkward_instance_ids(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Self", |ctx, input| async move {
        ctx.set_kv_value("me", ctx.instance_id());
        let echoed = ctx.schedule_activity("Echo", ctx.instance_id()).await?;
        let event = ctx.schedule_wait("go").await;
        Ok(format!("{input}|{echoed}|{event}"))
    }))
    .await;
    let ids = awkward::keys();
    for (i, id) in ids.iter().enumerate() {
        h.start(id, "Self", &i.to_string()).await;
    }
    for id in &ids {
        h.until_waiting(id, "go", 1).await;
        h.raise(id, "go", &format!("for {id}")).await;
    }
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(h.output(id).await, format!("{i}|{id}|for {id}"));
        assert_eq!(h.client().get_kv_value(id, "me").await.unwrap().as_ref(), Some(id));
        assert_eq!(h.client().get_instance_info(id).await.unwrap().instance_id, *id);
    }
    let mut listed = h.client().list_all_instances().await.unwrap();
    let mut expected = ids.clone();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for id in &ids {
        assert_eq!(
            h.client().delete_instance(id, false).await.unwrap().instances_deleted,
            1,
            "{id:?}"
        );
    }
    assert!(h.client().list_all_instances().await.unwrap().is_empty());
}

/// Each awkward key, the empty one too, holds its own value.
pub async fn awkward_kv_keys(h: &Harness) {
    h.runtime(Program::new().workflow("Keys", |ctx, _| async move {
        if ctx.execution_id() == 1 {
            for key in awkward::keys() {
                ctx.set_kv_value(&key, format!("value of {key}"));
            }
            ctx.set_kv_value("", "of nothing");
            return ctx.continue_as_new("").await;
        }
        let right = |key: &String| ctx.get_kv_value(key) == Some(format!("value of {key}"));
        Ok(awkward::keys().iter().filter(|key| right(key)).count().to_string())
    }))
    .await;
    h.start("keys", "Keys", "").await;
    assert_eq!(h.output("keys").await, awkward::keys().len().to_string());
    for key in awkward::keys() {
        assert_eq!(
            h.client().get_kv_value("keys", &key).await.unwrap(),
            Some(format!("value of {key}"))
        );
    }
    assert_eq!(
        h.client().get_kv_value("keys", "").await.unwrap().as_deref(),
        Some("of nothing")
    );
    assert_eq!(
        h.client().get_kv_all_values("keys").await.unwrap().len(),
        awkward::keys().len() + 1
    );
}

/// Each awkward session id reaches its activity unchanged.
pub async fn awkward_session_ids(h: &Harness) {
    h.runtime(
        Program::new()
            .options(|o| {
                o.max_sessions_per_runtime = 100;
                o.worker_node_id = Some("node \"1\"/ü\n".to_owned());
            })
            .activity("Session", |ctx, _| async move {
                Ok(ctx.session_id().unwrap_or("-").to_owned())
            })
            .workflow("Sessions", |ctx, _| async move {
                let calls = awkward::keys()
                    .into_iter()
                    .map(|s| ctx.schedule_activity_on_session("Session", "", s))
                    .collect();
                let seen: Result<Vec<_>, _> = ctx.join(calls).await.into_iter().collect();
                Ok(if seen? == awkward::keys() { "same" } else { "changed" }.to_owned())
            }),
    )
    .await;
    h.start("sessions", "Sessions", "").await;
    assert_eq!(h.output("sessions").await, "same");
}

/// Each awkward tag (of those that the runtime allows) reaches only the workers that serve it.
pub async fn awkward_tags(h: &Harness) {
    let tags: Vec<String> = awkward::keys().into_iter().filter(|tag| tag.len() <= 256).collect();
    for group in tags.chunks(5) {
        h.runtime(
            Program::new()
                .options(|o| {
                    o.worker_tag_filter = TagFilter::tags(group.iter().cloned());
                    o.worker_concurrency = 1;
                })
                .activity("Tag", |ctx, _| async move { Ok(ctx.tag().unwrap_or("-").to_owned()) })
                .workflow("Tags", {
                    let tags = tags.clone();
                    move |ctx, _| {
                        let tags = tags.clone();
                        async move {
                            let calls = tags
                                .iter()
                                .map(|t| ctx.schedule_activity("Tag", "").with_tag(t))
                                .collect();
                            let seen: Result<Vec<_>, _> = ctx.join(calls).await.into_iter().collect();
                            Ok(if seen? == tags { "same" } else { "changed" }.to_owned())
                        }
                    }
                }),
        )
        .await;
    }
    h.start("tags", "Tags", "").await;
    assert_eq!(h.output("tags").await, "same");
}

/// Awkward names of events, queues, activities and workflows come through.
pub async fn awkward_names(h: &Harness) {
    let mut program = Program::new();
    for name in awkward::keys() {
        program = program.activity(&name, |ctx, _| async move { Ok(ctx.activity_name().to_owned()) });
        program = program.workflow(&name, |ctx, _| async move {
            let name = ctx.orchestration_name();
            let activity = ctx.schedule_activity(&name, "").await?;
            let (event, message) = ctx.join2(ctx.schedule_wait(&name), ctx.dequeue_event(&name)).await;
            Ok(if [activity, event, message].iter().all(|s| *s == name) {
                "same"
            } else {
                "changed"
            }
            .to_owned())
        });
    }
    h.runtime(program).await;
    for (i, name) in awkward::keys().iter().enumerate() {
        let instance = format!("i{i}");
        h.start(&instance, name, "").await;
        h.until_waiting(&instance, name, 2).await;
        h.raise(&instance, name, name).await;
        h.enqueue(&instance, name, name).await;
        assert_eq!(h.output(&instance).await, "same", "{name:?}");
    }
}
