//! Object stores for tests.
//!
//! * [`MemoryBucket`] is a bucket in memory: the server. Its Last-Modified times come from an injected clock, and its tags are
//!   either a counter or, as on S3, a hash of the content.
//! * [`FaultyBucket`] is a client of any object store that fails on purpose, adds latency, counts and records requests. Each
//!   process of a test gets one of its own ([`FaultyBucket::client`]), with faults, counts and latency of its own.
//!
//! Both are deterministic: they read no clock but the one that they are given, and there is no randomness in them.
//!
//! # Faults
//!
//! A fault is planned for the n-th request of a client, or chosen by a closure that sees each [`Request`]:
//!
//! ```
//! use object_store::{ObjectStore, ObjectStoreExt, path::Path};
//! use perennial_bucket::{Fault, FaultyBucket, MemoryBucket, Method};
//! use perennial_store::SystemClock;
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), object_store::Error> {
//! let server = Arc::new(MemoryBucket::new(SystemClock::shared()));
//! let bucket = FaultyBucket::new(server, SystemClock::shared());
//! let path = Path::from("a");
//!
//! bucket.fail_at(0, Fault::LoseReply); // the first request takes effect, but its reply is lost
//! assert!(bucket.put(&path, "1".into()).await.is_err());
//! assert_eq!(bucket.get(&path).await?.bytes().await?, "1");
//!
//! bucket.plan(|request| (request.method == Method::Get).then_some(Fault::Throttle));
//! assert!(bucket.get(&path).await.is_err());
//! bucket.heal();
//! assert_eq!(bucket.get(&path).await?.bytes().await?, "1");
//! assert_eq!(bucket.counts().of(Method::Get), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Sweeps
//!
//! To try every fault at every request of a scenario, run it once without faults and take [`FaultyBucket::requested`] as the
//! number of requests; then run it anew for each index and each of [`Fault::all`]. The index of a request counts from the
//! creation of its client or from the last [`FaultyBucket::restart`].
//!
//! # What counts as a request
//!
//! What a cloud would charge: a listing is one request for every 1,000 entries, a deletion one for each object, a multipart upload
//! one to start, one for each part and one to finish. Requests that fail by a fault are counted, too.

mod counts;
mod fault;
mod faulty;
mod latency;
mod listing;
mod memory;
mod object_store_impl;
mod request;
mod upload;
mod write_times;

pub use counts::Counts;
pub use fault::Fault;
pub use faulty::FaultyBucket;
pub use latency::Latency;
pub use memory::{MemoryBucket, Tags};
pub use request::{Condition, Method, Recorded, Request};
