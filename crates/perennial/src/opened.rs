//! Directories that this process has open: each is opened once and shared.
#![cfg(feature = "file")]

use crate::OpenError;
use perennial_store::Health;
use perennial_workflow::Workflows;
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use tokio::sync::Mutex;

static OPENED: Mutex<Option<HashMap<PathBuf, Weak<Workflows>>>> = Mutex::const_new(None);

/// The store of a directory, opened now or shared with whoever has opened it before and not closed it.
pub async fn once<F, Opening>(path: &Path, open: F) -> Result<Arc<Workflows>, OpenError>
where
    F: FnOnce() -> Opening,
    Opening: Future<Output = Result<Arc<Workflows>, OpenError>>,
{
    let mut opened = OPENED.lock().await;
    let opened = opened.get_or_insert_default();
    opened.retain(|_, store| store.strong_count() > 0);
    let shared = path.canonicalize().ok().and_then(|path| opened.get(&path)?.upgrade());
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
        opened.insert(path, Arc::downgrade(&store));
    }
    Ok(store)
}
