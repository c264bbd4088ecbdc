//! All records of a store as JSON.

use perennial_kv::SharedMemory;
use perennial_store::{
    Commit, Counter, Draft, Key, Lane, Listing, Op, Order, Partition, Place, Record, RecordId, Store,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub struct Dump {
    /// When it was made, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub records: Vec<Stored>,
    pub counters: Vec<(String, i64)>,
}

#[derive(Serialize, Deserialize)]
pub struct Stored {
    pub partition: String,
    pub id: String,
    pub body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<StoredPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<StoredListing>,
}

#[derive(Serialize, Deserialize)]
pub struct StoredPlace {
    pub lane: String,
    pub topic: Option<String>,
    pub order: u64,
    pub due_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub struct StoredListing {
    pub kind: String,
    pub status: String,
    pub name: String,
    pub parent: Option<String>,
    pub created_ms: u64,
    pub completed_ms: Option<u64>,
}

impl Dump {
    /// Everything that is stored now.
    pub async fn of(database: &SharedMemory, at_ms: u64) -> Self {
        let mut keys = database.disk().keys();
        keys.sort();
        let mut records = Vec::new();
        for key in keys {
            records.push(Stored::of(database.raw().get(&key).await.unwrap().unwrap()));
        }
        let counters = database.raw().counters().await.unwrap();
        let mut counters: Vec<(String, i64)> = counters
            .into_iter()
            .map(|(counter, sum)| (counter.0.into_owned(), sum))
            .collect();
        counters.sort();
        Self {
            at_ms,
            records,
            counters,
        }
    }

    /// A new store that holds it.
    pub async fn load(&self) -> SharedMemory {
        let database = SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap();
        let mut counters: Vec<(Counter, i64)> = self
            .counters
            .iter()
            .map(|(name, sum)| (Counter(Cow::Owned(name.clone())), *sum))
            .collect();
        for stored in &self.records {
            let mut commit = Commit::new(vec![Op::Create(stored.draft())]);
            commit.counters = std::mem::take(&mut counters);
            database.raw().commit(commit).await.unwrap();
        }
        database
    }

    /// The records of an instance whose ids begin with this.
    pub fn of_instance<'a>(&'a self, instance: &str, id: &'a str) -> impl Iterator<Item = &'a Stored> {
        let partition = format!("wf:{instance}");
        self.records
            .iter()
            .filter(move |record| record.partition == partition && record.id.starts_with(id))
    }
}

impl Stored {
    fn of(record: Record) -> Self {
        let place = record.place.map(|place| StoredPlace {
            lane: place.lane.name.into_owned(),
            topic: place.lane.topic.map(|topic| topic.to_string()),
            order: place.order.0,
            due_ms: place.due_ms,
        });
        let listing = record.listing.map(|listing| StoredListing {
            kind: listing.kind.into_owned(),
            status: listing.status.into_owned(),
            name: listing.name,
            parent: listing.parent,
            created_ms: listing.created_ms,
            completed_ms: listing.completed_ms,
        });
        Self {
            partition: record.key.partition.as_str().to_owned(),
            id: record.key.id.as_str().to_owned(),
            body: String::from_utf8(record.body.to_vec()).unwrap(),
            place,
            listing,
        }
    }

    fn draft(&self) -> Draft {
        let key = Key::new(
            Partition::new(self.partition.as_str()),
            RecordId::from_raw(self.id.as_str()),
        );
        let place = self.place.as_ref().map(|place| Place {
            lane: Lane {
                name: Cow::Owned(place.lane.clone()),
                topic: place.topic.as_deref().map(Arc::from),
            },
            order: Order(place.order),
            due_ms: place.due_ms,
        });
        let listing = self.listing.as_ref().map(|listing| Listing {
            kind: Cow::Owned(listing.kind.clone()),
            status: Cow::Owned(listing.status.clone()),
            name: listing.name.clone(),
            parent: listing.parent.clone(),
            created_ms: listing.created_ms,
            completed_ms: listing.completed_ms,
        });
        Draft {
            place,
            listing,
            ..Draft::new(key, self.body.clone())
        }
    }
}
