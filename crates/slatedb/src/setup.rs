//! The first opening of a prefix: the proof that the object store does what everything else rests on.
//!
//! Ownership rests on conditional writes, and on tags that change with the content. Servers that only look like S3 ignore
//! such conditions, and a store on one of them would lose data when two processes meet. So the first opening tries, and
//! writes down that the object store passed.

mod proof;
#[cfg(test)]
mod tests;

use crate::bounded::{BoundedStore, Bounds};
use crate::error::{brief, is_missing};
use crate::{Bucket, Deadline, OpenError, Settings};
use object_store::{Error, GetResult, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use perennial_store::Clock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// The release of SlateDB in this program.
pub(crate) const SLATEDB: Release = Release { major: 0, minor: 18 };

/// How often the whole is tried when the object store fails on the way.
const ATTEMPTS: u32 = 4;
const BACKOFF: Duration = Duration::from_millis(200);

/// The names in a directory that are no objects of a store.
const NO_OBJECTS: [&str; 1] = ["LOCK"];

/// What `perennial.json` says about a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The version of the format.
    pub format: u32,
    /// The newest release of SlateDB that has opened the store.
    pub slatedb: String,
    /// What the object store was seen to do when the store was created.
    pub proven: Vec<String>,
}

/// A release of SlateDB, by the part of its number that says what it can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Self { major, minor })
    }

    /// Whether each can read what the other writes.
    fn is_adjacent(self, other: Self) -> bool {
        self.major == other.major && self.minor.abs_diff(other.minor) <= 1
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Description {
    fn new(proven: Vec<String>) -> Self {
        Self {
            format: FORMAT,
            slatedb: SLATEDB.to_string(),
            proven,
        }
    }

    /// Reads the description of a store; `None` if there is no store. One request.
    pub async fn read(bucket: &Bucket, settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Option<Self>, OpenError> {
        let found = attempts(bucket, settings, clock, |bucket| async move { read(&bucket).await }).await?;
        Ok(found.map(|(description, _)| description))
    }

    /// Reads the description of a store, or makes a store of an unused prefix if the object store can hold one.
    pub async fn prepare(bucket: &Bucket, settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self, OpenError> {
        attempts(bucket, settings, clock, |bucket| async move { prepare(&bucket).await }).await
    }
}

/// Tries something again while the object store fails, for as long as an opening may take.
async fn attempts<T, F>(
    bucket: &Bucket,
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    action: impl Fn(Bucket) -> F,
) -> Result<T, OpenError>
where
    F: Future<Output = Result<T, OpenError>>,
{
    let bounds = Bounds::opening(
        clock.clone(),
        settings.request_timeout,
        Deadline::none(),
        settings.open_timeout,
    );
    let bounds = Arc::new(bounds);
    let bounded = bucket.through(Arc::new(BoundedStore::new(bucket.objects().clone(), bounds.clone())));
    let mut attempt = 0;
    loop {
        attempt += 1;
        let outcome = action(bounded.clone()).await;
        if let Some(denied) = bounds.take_denied() {
            return Err(OpenError::from_objects(bucket, &denied));
        }
        match outcome {
            Err(OpenError::Unavailable { why, .. }) if attempt < ATTEMPTS => {
                tracing::info!(%bucket, why, "the object store failed, trying again");
                clock.sleep(BACKOFF * attempt).await;
            }
            outcome => return outcome,
        }
    }
}

async fn prepare(bucket: &Bucket) -> Result<Description, OpenError> {
    if let Some((description, version)) = read(bucket).await? {
        return with_release(bucket, description, version).await;
    }
    if let Some(found) = first_object(bucket).await? {
        // Another process may have been quicker.
        return match read(bucket).await? {
            Some((description, _)) => Ok(description),
            None => Err(unknown(bucket, found)),
        };
    }
    let proven = proof::prove(bucket).await?;
    create(bucket, Description::new(proven)).await
}

/// Reads and checks the description, with its version in the object store.
async fn read(bucket: &Bucket) -> Result<Option<(Description, UpdateVersion)>, OpenError> {
    let failed = |error: &Error| OpenError::from_objects(bucket, error);
    let found = match bucket.objects().get(&bucket.description()).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let version = version_of(&found);
    let bytes = found.bytes().await.map_err(|error| failed(&error))?;
    let damaged = |why: String| OpenError::Damaged {
        place: bucket.to_string(),
        why: format!("perennial.json cannot be read: {why}"),
    };
    // The format comes first: a newer one may hold anything else.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_slice(&bytes).map_err(|error| damaged(brief(&error)))?;
    if format > FORMAT {
        return Err(OpenError::NewerFormat {
            place: bucket.to_string(),
            found: format,
            supported: FORMAT,
        });
    }
    let description: Description = serde_json::from_slice(&bytes).map_err(|error| damaged(brief(&error)))?;
    check_release(bucket, &description)?;
    Ok(Some((description, version)))
}

fn check_release(bucket: &Bucket, description: &Description) -> Result<(), OpenError> {
    match Release::parse(&description.slatedb).is_some_and(|found| found.is_adjacent(SLATEDB)) {
        true => Ok(()),
        false => Err(OpenError::Release {
            place: bucket.to_string(),
            found: description.slatedb.clone(),
            ours: SLATEDB.to_string(),
        }),
    }
}

fn version_of(found: &GetResult) -> UpdateVersion {
    UpdateVersion {
        e_tag: found.meta.e_tag.clone(),
        version: found.meta.version.clone(),
    }
}

/// Writes down that a newer release of SlateDB opens the store, before it writes anything that an old one cannot read.
async fn with_release(
    bucket: &Bucket,
    mut description: Description,
    version: UpdateVersion,
) -> Result<Description, OpenError> {
    if Release::parse(&description.slatedb) >= Some(SLATEDB) {
        return Ok(description);
    }
    description.slatedb = SLATEDB.to_string();
    let mode = match bucket.is_directory() {
        true => PutMode::Overwrite,
        false => PutMode::Update(version),
    };
    match write(bucket, &description, mode).await {
        Ok(()) => Ok(description),
        // Another process did the same, or something newer.
        Err(Error::Precondition { .. }) => Ok(read(bucket).await?.map_or(description, |(now, _)| now)),
        Err(error) => Err(OpenError::from_objects(bucket, &error)),
    }
}

async fn create(bucket: &Bucket, description: Description) -> Result<Description, OpenError> {
    match write(bucket, &description, PutMode::Create).await {
        Ok(()) => Ok(description),
        // Another process was quicker, or the reply to an earlier attempt was lost.
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => match read(bucket).await? {
            Some((description, _)) => Ok(description),
            None => Err(OpenError::Unavailable {
                place: bucket.to_string(),
                why: "perennial.json was there and is gone".to_owned(),
            }),
        },
        Err(error) => Err(OpenError::from_objects(bucket, &error)),
    }
}

async fn write(bucket: &Bucket, description: &Description, mode: PutMode) -> object_store::Result<()> {
    let text = serde_json::to_vec_pretty(description).map_err(|error| Error::Generic {
        store: "object",
        source: error.into(),
    })?;
    let (path, options) = (bucket.description(), PutOptions::from(mode));
    bucket.objects().put_opts(&path, text.into(), options).await.map(drop)
}

/// The name of an object or folder directly under the prefix that no first opening has left there.
async fn first_object(bucket: &Bucket) -> Result<Option<String>, OpenError> {
    let prefix = Some(bucket.prefix()).filter(|prefix| !prefix.as_ref().is_empty());
    let listed = match bucket.objects().list_with_delimiter(prefix).await {
        Ok(listed) => listed,
        // Without the bucket even a listing finds nothing.
        Err(error) if is_missing(&error) => {
            return Err(OpenError::NoBucket {
                place: bucket.to_string(),
                why: brief(&error),
            });
        }
        Err(error) => return Err(OpenError::from_objects(bucket, &error)),
    };
    let objects = listed.objects.iter().map(|object| &object.location);
    let names = objects
        .chain(&listed.common_prefixes)
        .filter_map(|path| path.filename());
    let mut unknown = names.filter(|name| !name.starts_with(proof::PROBE) && !NO_OBJECTS.contains(name));
    Ok(unknown.next().map(str::to_owned))
}

/// The error for a prefix that is used but not described.
fn unknown(bucket: &Bucket, found: String) -> OpenError {
    let place = bucket.to_string();
    match found.parse::<u16>() {
        // The name of a shard.
        Ok(_) => OpenError::Damaged {
            place,
            why: "perennial.json is missing".to_owned(),
        },
        Err(_) => OpenError::NotAStore { place, found },
    }
}
