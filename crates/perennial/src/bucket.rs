//! Stores in object stores.

use crate::{Builder, Handle, OpenError};
use perennial_slatedb::lease::Wait;
use perennial_slatedb::{Location, Ownership, Settings};
use perennial_store::{Error, Opener, Store, StoreHandle};
use std::sync::Arc;

/// What a URL cannot say.
#[derive(Default)]
pub(crate) struct Access {
    pub(crate) settings: Settings,
    pub(crate) is_standby: bool,
}

impl Builder {
    /// Opens the store at a location, once this process owns it, and again whenever it was lost.
    pub(crate) async fn open_bucket(&self, location: &Location) -> Result<Handle, OpenError> {
        let ownership = Ownership::new(location, self.bucket.settings.clone())?;
        let wait = match self.bucket.is_standby {
            true => Wait::Forever,
            false => ownership.default_wait(),
        };
        let store = ownership.open(wait).await?;
        let store = StoreHandle::reopening(Arc::new(store), opener(ownership), Arc::clone(&self.clock));
        Handle::start(store, self.settings.clone(), Arc::clone(&self.clock)).await
    }
}

/// Opens the store again. An attempt lasts for about a lease; while another process owns the store, one follows the other.
fn opener(ownership: Ownership) -> Opener {
    Box::new(move || {
        let ownership = ownership.clone();
        Box::pin(async move {
            let opened = ownership.open(ownership.default_wait()).await;
            opened
                .map(|store| Arc::new(store) as Arc<dyn Store>)
                .map_err(|error| Error::Unavailable(error.to_string()))
        })
    })
}
