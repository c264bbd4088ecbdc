//! Messages between instances arrive exactly once and in order, whatever happens.

use crate::store::{FAULTS, Fault};
use crate::turns::*;
use crate::world::World;
use duroxide::providers::{OrchestrationItem, Provider};
use std::collections::BTreeMap;

/// The root starts two others and sends them messages; they reply; it ends when both have.
pub fn conversation(item: &OrchestrationItem) -> Reply {
    let mut known = consumed(&item.history);
    let told: Vec<String> = item.messages.iter().map(told).collect();
    known.extend(told.iter().cloned());
    let mut reply = Reply::default();
    if item.instance == "root" {
        if told.contains(&"start root".to_owned()) {
            reply.messages = vec![
                start("a"),
                raised("a", "1"),
                raised("a", "2"),
                start("b"),
                raised("b", "1"),
            ];
            return reply;
        }
        // The second turn sends on, behind what the first one sent.
        reply.messages = told
            .iter()
            .filter(|told| *told == "hello from a")
            .map(|_| raised("a", "3"))
            .collect();
        if known.contains(&"bye from a".to_owned()) && known.contains(&"hello from b".to_owned()) {
            reply.status = Some("Completed");
        }
        return reply;
    }
    if told.iter().any(|told| told.starts_with("start")) {
        reply
            .messages
            .push(raised("root", &format!("hello from {}", item.instance)));
    }
    if told.contains(&"3".to_owned()) {
        reply.messages.push(raised("root", "bye from a"));
    }
    reply
}

/// Whether every instance received its messages, once and in order.
fn judge(heard: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    let of = |instance: &str| heard.get(instance).cloned().unwrap_or_default();
    let mut root = of("root");
    let bye = root.iter().position(|told| told == "bye from a");
    let hello = root.iter().position(|told| told == "hello from a");
    root.sort_unstable();
    let all = ["bye from a", "hello from a", "hello from b", "start root"];
    let fair = of("a") == ["start a", "1", "2", "3"] && of("b") == ["start b", "1"] && root == all && hello < bye;
    if fair {
        Ok(())
    } else {
        Err(format!("they heard {heard:?}"))
    }
}

/// Runs the story while a commit fails, and returns the result; `None` if the story was over before.
pub async fn try_with(fault: Option<(usize, Fault)>) -> (usize, Result<(), String>) {
    let mut world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("root"), None)
        .await
        .unwrap();
    world.meet(fault).await;
    let store = world.store.clone();
    world.tell_on(conversation).await;
    let heard = world.histories(&["root", "a", "b"]).await;
    let left = world.leftovers().await;
    let verdict = judge(&heard).and_then(|()| match left.is_empty() {
        true => Ok(()),
        false => Err(format!("{left:?} was left behind")),
    });
    (store.commits(), verdict)
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_once_and_in_order_whatever_commit_goes_wrong() {
    let (commits, verdict) = try_with(None).await;
    assert_eq!(verdict, Ok(()));
    assert!(commits > 15, "the story is not as short as {commits} commits");
    for fault in FAULTS {
        for at in 0..commits {
            let (_, verdict) = try_with(Some((at, fault))).await;
            assert_eq!(verdict, Ok(()), "{fault:?} at commit {at}");
        }
    }
}

/// The process is killed twice: in the middle of the story, and again while the next process cleans up.
#[tokio::test(start_paused = true)]
async fn messages_arrive_once_though_the_next_process_dies_too() {
    let (commits, _) = try_with(None).await;
    for at in 0..commits {
        for then in 0..6 {
            let mut world = World::new().await;
            world
                .workflows
                .enqueue_for_orchestrator(start("root"), None)
                .await
                .unwrap();
            world.meet(Some((at, Fault::DieAfter))).await;
            world.tell(conversation).await.ok();
            world.die_and_open_dying((then, Fault::DieAfter)).await;
            world.tell_on(conversation).await;
            let heard = world.histories(&["root", "a", "b"]).await;
            assert_eq!(
                judge(&heard),
                Ok(()),
                "killed at commit {at}, and then at commit {then}"
            );
            assert_eq!(world.leftovers().await, Vec::<String>::new());
        }
    }
}

/// A message that was delivered before its intent could be removed is consumed, and leaves a tombstone until the intent has
/// gone: nothing is delivered twice, and nothing is left when its time has come.
#[tokio::test(start_paused = true)]
async fn a_tombstone_stands_for_a_message_whose_intent_is_still_there() {
    let mut stood = 0;
    let (commits, _) = try_with(None).await;
    for at in 0..commits {
        let mut world = World::new().await;
        world
            .workflows
            .enqueue_for_orchestrator(start("root"), None)
            .await
            .unwrap();
        world.meet(Some((at, Fault::Hang))).await;
        world.tell(conversation).await.ok();
        stood += world.queued("msg/").len();
        world.restart().await;
        world.tell_on(conversation).await;
        assert_eq!(world.queued("msg/"), Vec::<String>::new(), "opening the store sweeps");
    }
    assert!(stood > 0, "no tombstone was ever written");
}
