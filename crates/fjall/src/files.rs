//! The files of a store by name: reads them, and reports which one is missing or damaged.

use crate::OpenError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The files of one store. Names are relative to its directory, as errors show them.
pub(crate) struct Files {
    /// The path by which the store was opened, for error messages.
    shown: PathBuf,
    /// The directory itself, even if another one takes its name.
    root: PathBuf,
}

impl Files {
    pub(crate) fn new(shown: &Path, root: &Path) -> Self {
        Self {
            shown: shown.into(),
            root: root.into(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn damaged(&self, why: impl Into<String>) -> OpenError {
        OpenError::damaged(&self.shown, why)
    }

    fn missing(&self, name: &str) -> OpenError {
        self.damaged(format!("{name} is missing"))
    }

    /// The meaning of a failure to use a file. One that is missing, or has unexpected content, is damage.
    pub(crate) fn failed(&self, name: &str, error: io::Error) -> OpenError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.missing(name),
            io::ErrorKind::InvalidData => self.damaged(format!("{name} {error}")),
            io::ErrorKind::UnexpectedEof => self.damaged(format!("{name} is cut short")),
            kind => OpenError::failed(&self.shown, io::Error::new(kind, format!("{name}: {error}"))),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, OpenError> {
        fs::read(self.path(name)).map_err(|error| self.failed(name, error))
    }

    pub(crate) fn open(&self, name: &str) -> Result<Opened, OpenError> {
        let open = || {
            let file = File::open(self.path(name))?;
            let length = file.metadata()?.len();
            Ok(Opened { file, length })
        };
        open().map_err(|error| self.failed(name, error))
    }

    pub(crate) fn exists(&self, name: &str) -> Result<bool, OpenError> {
        let exists = self.path(name).try_exists();
        exists.map_err(|error| self.failed(name, error))
    }

    /// The entries of a folder, each with whether it is a folder itself.
    pub(crate) fn entries(&self, folder: &str) -> Result<Vec<(String, bool)>, OpenError> {
        let read = || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(self.path(folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                entries.push((name, entry.file_type()?.is_dir()));
            }
            entries.sort();
            Ok(entries)
        };
        read().map_err(|error| self.failed(folder, error))
    }
}

/// A file that is read in sections.
pub(crate) struct Opened {
    file: File,
    pub(crate) length: u64,
}

impl Opened {
    /// Reads a section. One that reaches beyond the end is refused before any memory is allocated for it.
    pub(crate) fn part(&mut self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let is_inside = at.checked_add(length).is_some_and(|end| end <= self.length);
        let length = usize::try_from(length).ok().filter(|_| is_inside);
        let mut part = vec![0; length.ok_or(io::ErrorKind::UnexpectedEof)?];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut part)?;
        Ok(part)
    }
}

/// An error about the content of a file.
pub(crate) fn flaw(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

pub(crate) fn ignore_missing(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Options for a file that only its owner may read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder that only its owner may enter.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Replaces a file as a whole, durably. Never writes through a link of the same name.
pub(crate) fn replace(folder: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    fs::remove_file(&new).or_else(ignore_missing)?;
    let mut file = private().write(true).create_new(true).open(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))?;
    sync_folder(folder)
}

#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Other systems cannot sync folders; their file systems keep names themselves.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}
