//! How an engine works on its store: alone, or beside other processes.
//!
//! Everything that differs between the two is decided here and in the modules below, and nowhere else. What a process does
//! alone is in [`exclusive`](crate::exclusive), what it does beside others in [`shared`]; both are called with what they
//! need, and neither checks the mode.

mod acks;
mod claims;
mod fetching;
mod messages;
mod store_access;

use crate::engine::Engine;
use crate::order::Sequencer;
use crate::records::lanes::LaneLayout;
use crate::recover;
use crate::settings::Settings;
use crate::shared::{self, Shared};
use perennial_store::{Record, Result, Sharing, Store};
use std::sync::Arc;

/// Whether other processes work on the store too.
pub enum Mode {
    /// The store belongs to this process. The board and the cache are the truth, and claims live in memory.
    Exclusive,
    /// Other processes read and write it too. The board and the cache hold hints, and claims are conditional writes.
    Shared(Arc<Shared>),
}

/// What an engine is made with.
impl Mode {
    /// The mode that a store demands.
    pub fn of(store: &dyn Store, settings: &Settings) -> Self {
        match store.sharing() {
            Sharing::Exclusive => Self::Exclusive,
            Sharing::Shared => Self::Shared(Arc::new(Shared::new(settings))),
        }
    }

    /// Whether other processes work on the store too. For construction: what differs later is a method here.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// A number that every opening of the store has for itself.
    pub fn epoch(&self, store: &dyn Store) -> u64 {
        match self {
            Self::Exclusive => store.epoch(),
            Self::Shared(shared) => shared.seed,
        }
    }

    /// Gives out orders of arrival.
    pub fn sequencer(&self) -> Sequencer {
        match self {
            Self::Exclusive => Sequencer::default(),
            Self::Shared(shared) => Sequencer::of_process(shared.seed),
        }
    }

    /// How the lanes are laid out: beside others, one query must find all work.
    pub fn lanes(&self) -> LaneLayout {
        match self {
            Self::Exclusive => LaneLayout::Split,
            Self::Shared(_) => LaneLayout::Combined,
        }
    }

    /// The name of this process in its records, if others must tell them apart.
    pub fn process_id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Exclusive => None,
            Self::Shared(shared) => Some(&shared.owner),
        }
    }
}

/// Opening and leaving.
impl Mode {
    /// Begins to work on the store, or refuses one that cannot serve.
    pub async fn open(&self, engine: &Arc<Engine>) -> Result<()> {
        match self {
            Self::Exclusive => recover::recover(engine).await,
            Self::Shared(_) => shared::open(engine),
        }
    }

    /// Writes down, or releases, what is only in memory.
    pub async fn leave(&self, engine: &Arc<Engine>) -> Result<()> {
        match self {
            Self::Exclusive => recover::leave(engine).await,
            Self::Shared(shared) => shared::leave(engine, shared).await,
        }
    }
}

/// Chores.
impl Mode {
    /// Whether chores are found by the poller, so that no housekeeper is needed.
    pub fn polls_chores(&self) -> bool {
        self.is_shared()
    }

    /// Another process has announced itself.
    pub async fn meet(&self, engine: &Engine, record: Record) -> Result<()> {
        match self {
            Self::Exclusive => Ok(()),
            Self::Shared(shared) => shared::meet(engine, shared, record).await,
        }
    }
}
