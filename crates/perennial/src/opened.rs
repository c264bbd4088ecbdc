//! Stores that this process has open: each is opened once, and held by everyone who opens it.
#![cfg(any(feature = "file", feature = "slatedb"))]

use crate::OpenError;
use crate::handle::{Handle, WeakHandle};
use perennial_store::Health;
use std::collections::HashMap;
use std::future::Future;

/// The store that this process has open, if it can be used. One that broke is opened again.
async fn reused(shared: Option<Handle>) -> Option<Result<Handle, OpenError>> {
    let store = shared?;
    match store.health() {
        Health::Working => Some(Ok(store)),
        Health::Broken(_) => Some(match store.reopen().await {
            Ok(()) => Ok(store),
            Err(_) => Err(OpenError::Broken {
                why: store.health().to_string(),
            }),
        }),
        _ => None,
    }
}

/// A handle on the store of a directory, which is opened now unless this process has it open.
#[cfg(feature = "file")]
pub async fn directory<F, Opening>(path: &std::path::Path, open: F) -> Result<Handle, OpenError>
where
    F: FnOnce() -> Opening,
    Opening: Future<Output = Result<Handle, OpenError>>,
{
    type Directories = HashMap<std::path::PathBuf, WeakHandle>;
    static OPENED: tokio::sync::Mutex<Option<Directories>> = tokio::sync::Mutex::const_new(None);

    // One lock for all: a directory that does not exist yet has no name by which it could be told from others.
    let mut opened = OPENED.lock().await;
    let opened = opened.get_or_insert_default();
    opened.retain(|_, store| store.is_alive());
    let shared = path.canonicalize().ok().and_then(|path| opened.get(&path)?.another());
    if let Some(reused) = reused(shared).await {
        return reused;
    }
    let store = open().await?;
    if let Ok(path) = path.canonicalize() {
        opened.insert(path, store.downgrade());
    }
    Ok(store)
}

/// A handle on the store in a bucket, which is opened now unless this process has it open.
#[cfg(feature = "slatedb")]
pub async fn bucket<F, Opening>(location: &perennial_slatedb::Location, open: F) -> Result<Handle, OpenError>
where
    F: FnOnce() -> Opening,
    Opening: Future<Output = Result<Handle, OpenError>>,
{
    use std::sync::{Arc, Mutex, PoisonError};
    type Buckets = HashMap<String, Arc<tokio::sync::Mutex<Option<WeakHandle>>>>;
    static OPENED: Mutex<Option<Buckets>> = Mutex::new(None);

    let name = match location {
        perennial_slatedb::Location::Directory(path) => {
            let path = path.canonicalize().or_else(|_| std::path::absolute(path));
            path.map_or_else(|_| location.to_string(), |path| path.display().to_string())
        }
        location => location.to_string(),
    };
    // A lock for each: a standby may wait for its bucket for days.
    let slot = {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(opened.get_or_insert_default().entry(name).or_default())
    };
    let mut slot = slot.lock().await;
    if let Some(reused) = reused(slot.as_ref().and_then(WeakHandle::another)).await {
        return reused;
    }
    let store = open().await?;
    *slot = Some(store.downgrade());
    Ok(store)
}
