//! The workflow engine of perennial: [`duroxide`]'s `Provider` and `ProviderAdmin` on any [`perennial_store::Store`].
//!
//! Every rule of the runtime's contract lives here, once; a store never sees a work item.
//!
//! | module | what it holds |
//! |---|---|
//! | `records` | what is stored, one module per kind |
//! | `board` | all work that waits or runs, in memory, under one lock |
//! | `instance` | an instance at one moment, and the cache of recent ones |
//! | `turn` | turns: fetch, ack, abandon, renew |
//! | `work` | activities: fetch, ack, abandon, renew |
//! | `mode` | whether this process has the store to itself: every decision that depends on it |
//! | `exclusive`, `shared` | what it takes in either mode |
//! | `outbox` | messages to other instances where a commit ends at a partition |
//! | `redo` | turns that are larger than a commit |
//! | `chores` | what others do if this process dies before it has |
//! | `admin` | inspection, deletion, pruning |
//! | `remote` | workflows of a store that another process owns: its clients, and what the owner does for them |
//! | `workflows` | the handle that programs hold, and a new engine after the store broke |
//! | `tuning` | every constant that one might tune, with the reason for its value |
//! | `provider`, `provider_admin` | the runtime's traits, delegating |

mod admin;
mod board;
mod budget;
mod chores;
mod engine;
mod error;
mod exclusive;
mod instance;
mod lazy_task;
mod long_poll;
mod meters;
mod mode;
mod mutation;
mod names;
mod order;
mod outbox;
mod outstanding;
mod provider;
mod provider_admin;
mod queued;
mod read;
mod records;
mod recover;
mod redo;
mod remote;
mod send;
mod settings;
mod shared;
mod shield;
mod spawn;
#[cfg(feature = "testing")]
pub mod testing;
mod tuning;
mod turn;
mod wait;
mod work;
mod workflows;

pub use remote::RemoteWorkflows;
pub use settings::Settings;
pub use workflows::{WeakWorkflows, Workflows};
