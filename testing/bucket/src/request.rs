//! What a client asked of the object store.

use crate::Fault;
use object_store::path::Path;
use object_store::{GetOptions, PutMode};

/// The kinds of requests, as clouds charge them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Writes an object.
    Put,
    /// Reads an object, or a part of it.
    Get,
    /// Reads the metadata of an object.
    Head,
    /// One page of a listing.
    List,
    /// Deletes an object.
    Delete,
    /// Copies an object.
    Copy,
    /// Begins a multipart upload.
    StartUpload,
    /// Writes a part of it.
    UploadPart,
    /// Makes its object appear.
    FinishUpload,
    /// Gives it up.
    AbortUpload,
}

impl Method {
    /// Whether it is charged as a write: PUT, COPY, POST and LIST.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::Head | Self::Delete | Self::AbortUpload)
    }

    /// Whether it is charged as a read: GET and HEAD.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// The condition of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    None,
    /// The object must not exist.
    IfAbsent,
    /// The object must have this tag.
    IfMatch(String),
    /// The object must not have this tag.
    IfNoneMatch(String),
}

impl Condition {
    pub(crate) fn of_put(mode: &PutMode) -> Self {
        match mode {
            PutMode::Overwrite => Self::None,
            PutMode::Create => Self::IfAbsent,
            PutMode::Update(version) => Self::IfMatch(version.e_tag.clone().unwrap_or_default()),
        }
    }

    pub(crate) fn of_get(options: &GetOptions) -> Self {
        match (&options.if_match, &options.if_none_match) {
            (Some(tag), _) => Self::IfMatch(tag.clone()),
            (None, Some(tag)) => Self::IfNoneMatch(tag.clone()),
            (None, None) => Self::None,
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, from 0.
    pub index: usize,
    /// What it does.
    pub method: Method,
    /// The object, the target of a copy, or the prefix of a listing.
    pub path: Path,
    /// Its condition.
    pub condition: Condition,
    /// How many bytes it sends.
    pub sent_bytes: usize,
    /// When it was made, in milliseconds of the injected clock.
    pub at_ms: u64,
}

/// A request, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The request.
    pub request: Request,
    /// The fault that it met.
    pub fault: Option<Fault>,
    /// Its result, with the error if it failed; `None` while there is none, and for ever if it hangs or was dropped.
    pub reply: Option<Result<(), String>>,
}

impl Recorded {
    /// Whether the client was told that the request succeeded.
    pub fn is_ok(&self) -> bool {
        self.reply == Some(Ok(()))
    }
}
