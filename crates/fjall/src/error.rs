//! Why a store could not be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be opened. Nothing on disk was changed in a way that matters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another handle of this one, has the store open.
    #[error(
        "the store at {path:?} is open {}; close that one first, or give this program a directory of its own",
        open_where(*process)
    )]
    Locked {
        /// The store.
        path: PathBuf,
        /// The process that has it open, if that is known.
        process: Option<u32>,
    },
    /// The path, or a directory above it, is a symbolic link that leads nowhere.
    #[error(
        "{path:?} cannot be made, because {link:?} is a link to {target:?}, which does not exist; make that directory, \
         or name another path"
    )]
    DanglingLink {
        /// The store.
        path: PathBuf,
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The path is not a directory.
    #[error("{path:?} is not a directory; a store needs a directory of its own, name another path")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error(
        "the directory {path:?} is not empty and holds no store of this program; nothing was changed, \
         name an empty directory or one that does not exist"
    )]
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// A newer program wrote the store.
    #[error(
        "the store at {path:?} has format {found}, this program knows formats up to {supported}; \
         nothing was changed, use the newer version of the program"
    )]
    NewerFormat {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        supported: u32,
    },
    /// This user may not write there.
    #[error("no permission to write to {path:?} ({source}); give this user the right to, or name another path")]
    NoPermission {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system is read-only.
    #[error("{path:?} is on a read-only file system; mount it writable, or name another path")]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is full.
    #[error("the disk of {path:?} is full ({source}); free some space and open the store again, nothing is lost")]
    DiskFull {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Files of the store are missing or damaged.
    #[error(
        "the store at {path:?} is damaged: {why}; keep a copy of the directory, check the disk, \
         and restore a backup"
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The system refused something else.
    #[error("the store at {path:?} could not be opened: {source}; fix the cause and open it again, nothing is lost")]
    Failed {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Describes where a store is open.
fn open_where(process: Option<u32>) -> String {
    match process {
        Some(process) if process == std::process::id() => {
            format!("in this very process ({process}) by another handle")
        }
        Some(process) => format!("in another process ({process})"),
        None => "in another process or by another handle".to_owned(),
    }
}

impl OpenError {
    pub(crate) fn locked(path: &Path, process: Option<u32>) -> Self {
        let path = path.into();
        Self::Locked { path, process }
    }

    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.into(),
            why: why.into(),
        }
    }

    pub(crate) fn failed(path: &Path, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NoPermission { path, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path, source },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Failed { path, source },
        }
    }

    /// The meaning of an engine's error for an open. A missing file of a database is damage.
    pub(crate) fn from_engine(path: &Path, error: fjall::Error) -> Self {
        use fjall::LsmError;
        match error {
            fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => match source.kind() {
                // A position beyond all files is an invalid argument to the system.
                io::ErrorKind::NotFound
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput => Self::damaged(path, source.to_string()),
                _ => Self::failed(path, source),
            },
            fjall::Error::Locked => Self::locked(path, None),
            error => Self::damaged(path, error.to_string()),
        }
    }
}
