//! Directories that this process has open: each is opened once, and held by everyone who opens it.
#![cfg(feature = "file")]

use crate::OpenError;
use crate::handle::{Handle, WeakHandle};
use perennial_store::Health;
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;

static OPENED: Mutex<Option<HashMap<PathBuf, WeakHandle>>> = Mutex::const_new(None);

/// A handle on the store of a directory, which is opened now unless this process has it open.
pub async fn once<F, Opening>(path: &Path, open: F) -> Result<Handle, OpenError>
where
    F: FnOnce() -> Opening,
    Opening: Future<Output = Result<Handle, OpenError>>,
{
    let mut opened = OPENED.lock().await;
    let opened = opened.get_or_insert_default();
    opened.retain(|_, store| store.is_alive());
    let shared = path.canonicalize().ok().and_then(|path| opened.get(&path)?.another());
    match shared.map(|store| (store.health(), store)) {
        Some((Health::Working, store)) => return Ok(store),
        Some((Health::Broken(_), store)) => {
            return match store.reopen().await {
                Ok(()) => Ok(store),
                Err(_) => Err(OpenError::Broken {
                    why: store.health().to_string(),
                }),
            };
        }
        _ => {}
    }
    let store = open().await?;
    if let Ok(path) = path.canonicalize() {
        opened.insert(path, store.downgrade());
    }
    Ok(store)
}
