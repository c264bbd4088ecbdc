//! Any text is a name, and records come in the order of their ids.

use crate::support::{Fixture, Random, draft, key};
use perennial_store::{Commit, Op, Partition, RecordId, ScanQuery, Store};

impl Random {
    fn text(&mut self, longest: usize) -> String {
        const UNITS: [&str; 30] = [
            "a", "b", "Z", "0", "9", "-", "_", ".", "/", "//", "\\", "#", "?", "%", "%2F", "\"", "'", " ", "\n", "\r",
            "\t", "\u{0}", "~", "~~", "!", ":", "é", "\u{feff}", "\u{ffff}", "😀",
        ];
        let length = self.below(longest);
        let mut text = String::new();
        while text.len() < length {
            text.push_str(UNITS[self.below(UNITS.len())]);
        }
        text
    }
}

async fn scan_in_pages(store: &impl Store, mut query: ScanQuery) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = store.scan(&query).await.unwrap();
        assert!(page.records.len() <= query.limit);
        ids.extend(page.records.iter().map(|record| record.key.id.as_str().to_owned()));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return ids,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_names_work_and_sort() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let mut random = Random(17);
    for round in 0..6 {
        let partition = random.text(if round % 2 == 0 { 20 } else { 1000 });
        let mut ids: Vec<String> = (0..40)
            .map(|n| random.text(if n % 4 == 0 { 1000 } else { 12 }))
            .collect();
        // Ids that share more than fits a document's id.
        let long = random.text(400) + &"x".repeat(300);
        ids.extend((0..10).map(|_| format!("{long}{}", random.text(30))));
        ids.extend((0..5).map(|n| format!("{long}/{n}")));
        ids.push(long.clone());
        ids.sort();
        ids.dedup();
        let ops = ids.iter().map(|id| Op::Create(draft(&partition, id, id)));
        store.commit(Commit::new(ops.collect())).await.unwrap();
        for id in &ids {
            let record = store.get(&key(&partition, id)).await.unwrap().unwrap();
            assert_eq!((record.key.id.as_str(), &record.body[..]), (id.as_str(), id.as_bytes()));
        }
        for limit in [1, 7, 1000] {
            let query = ScanQuery::all(Partition::new(partition.as_str()), limit);
            assert_eq!(scan_in_pages(&store, query).await, ids, "in pages of {limit}");
        }
        for under in [&long, "a", "", &ids[ids.len() / 2]] {
            let expected: Vec<_> = ids
                .iter()
                .filter(|id| *id == under || id.starts_with(&format!("{under}/")))
                .collect();
            let query = ScanQuery::under(Partition::new(partition.as_str()), RecordId::from_raw(under), 3);
            assert_eq!(scan_in_pages(&store, query).await.iter().collect::<Vec<_>>(), expected);
        }
        for after in [&long, &ids[3], &random.text(10)] {
            let mut query = ScanQuery::all(Partition::new(partition.as_str()), 1000);
            query.after = Some(RecordId::from_raw(after.as_str()));
            let expected: Vec<_> = ids.iter().filter(|id| *id > after).collect();
            assert_eq!(scan_in_pages(&store, query).await.iter().collect::<Vec<_>>(), expected);
        }
        let ops = ids.iter().map(|id| Op::Remove(key(&partition, id)));
        store.commit(Commit::new(ops.collect())).await.unwrap();
        assert_eq!(
            store
                .scan(&ScanQuery::all(Partition::new(partition), 1))
                .await
                .unwrap()
                .records,
            []
        );
    }
}
