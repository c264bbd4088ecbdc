//! Finished work leaves nothing in memory.

use crate::calls::*;
use duroxide::providers::{Provider, ScheduledActivityIdentifier, TagFilter};
use perennial_workflow::testing;

#[tokio::test]
async fn thousands_of_workflows_leave_nothing_behind() {
    let (store, _) = fresh(Default::default()).await;
    for round in 0..1_500_u64 {
        let instance = format!("i{round}");
        send(&store, start(&instance)).await;
        let (_, token, _) = turn(&store).await;
        if round % 3 == 0 {
            store.abandon_orchestration_item(&token, None, true).await.unwrap();
            let (_, token, _) = turn(&store).await;
            ack(&store, &token, 1, vec![started(&instance, 1)], vec![], Some("Failed"))
                .await
                .unwrap();
            continue;
        }
        let work = vec![
            activity(&instance, 1),
            routed(&instance, 2, Some(&instance), None),
            activity(&instance, 3),
        ];
        ack(&store, &token, 1, vec![started(&instance, 1)], work, None)
            .await
            .unwrap();
        store
            .enqueue_for_orchestrator(raised(&instance, "data"), Some(LEASE))
            .await
            .unwrap();
        let owner = owner_of("a", ms(1));
        for _ in 0..2 {
            let fetch = store.fetch_work_item(LEASE, LEASE, Some(&owner), &TagFilter::Any);
            let (_, token, _) = fetch.await.unwrap().unwrap();
            store
                .ack_work_item(&token, Some(completed(&instance, 1)))
                .await
                .unwrap();
        }
        let (_, token, _) = turn(&store).await;
        let cancelled = vec![ScheduledActivityIdentifier {
            instance: instance.clone(),
            execution_id: 1,
            activity_id: 3,
        }];
        let metadata = named(Some("Completed"));
        store
            .ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata, cancelled)
            .await
            .unwrap();
        let admin = store.as_management_capability().unwrap();
        admin.delete_instance(&instance, false).await.unwrap();
    }
    pause(ms(5)).await;
    store.cleanup_orphaned_sessions(NOW).await.unwrap();
    assert!(try_turn(&store).await.is_none());
    assert_eq!(testing::residue(&store), testing::Residue::default());
    let grown = testing::bookkeeping(&store).into_iter().find(|(_, count)| *count > 0);
    assert_eq!(grown, None);
}
