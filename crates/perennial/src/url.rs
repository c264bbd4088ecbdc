//! Which store a URL names.

use crate::OpenError;
use std::path::{Path, PathBuf};

/// A store as a URL names it.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// In this process.
    Memory,
    /// A directory.
    Directory(PathBuf),
    /// A container of Azure Cosmos DB; its store reads the rest.
    Cosmos,
    /// A bucket; its store reads the rest. The scheme, and the feature that brings it.
    Bucket(&'static str, &'static str),
}

/// Reads a URL.
pub fn parse(url: &str) -> Result<Target, OpenError> {
    if let Some(error) = not_a_url(url) {
        return Err(error);
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(OpenError::UnknownScheme { url: "…".to_owned() });
    };
    match scheme.to_ascii_lowercase().as_str() {
        "memory" if rest.is_empty() || rest == "//" => Ok(Target::Memory),
        "memory" => Err(bad("memory:…", "a memory store has no name; write \"memory:\"")),
        "file" => directory(rest).map(Target::Directory),
        "cosmos" | "cosmos+http" => Ok(Target::Cosmos),
        "s3" => Ok(Target::Bucket("s3:", "s3")),
        "az" => Ok(Target::Bucket("az:", "az")),
        "gs" => Ok(Target::Bucket("gs:", "gs")),
        "slatedb+file" => Ok(Target::Bucket("slatedb+file:", "slatedb")),
        "slatedb+memory" => Ok(Target::Bucket("slatedb+memory:", "slatedb")),
        // Only the scheme is repeated: what follows may hold a password.
        _ => Err(OpenError::UnknownScheme {
            url: format!("{}:…", scheme.chars().take(32).collect::<String>()),
        }),
    }
}

/// The directory that a URL names, or `None` if it names a store of another kind. The store need not be there.
///
/// ```
/// use perennial::directory_of;
/// use std::path::PathBuf;
///
/// assert_eq!(directory_of("file:///var/lib/my%20app")?, Some(PathBuf::from("/var/lib/my app")));
/// assert_eq!(directory_of("memory:")?, None);
/// assert!(directory_of("./data").is_err());
/// # Ok::<(), perennial::OpenError>(())
/// ```
pub fn directory_of(url: &str) -> Result<Option<PathBuf>, OpenError> {
    parse(url).map(|target| match target {
        Target::Directory(path) => Some(path),
        Target::Memory | Target::Cosmos | Target::Bucket(..) => None,
    })
}

/// The URL of a directory, with everything escaped that a URL gives a meaning to. The reverse of [`directory_of`], for paths
/// that are valid UTF-8.
///
/// ```
/// use perennial::url_of;
///
/// assert_eq!(url_of("/var/lib/app"), "file:///var/lib/app");
/// assert_eq!(url_of("data/50% off?"), "file://./data/50%25 off%3F");
/// ```
pub fn url_of(directory: impl AsRef<Path>) -> String {
    let path = directory.as_ref().to_string_lossy();
    let escaped = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    match escaped.starts_with(['/', '.']) {
        true => format!("file://{escaped}"),
        false => format!("file://./{escaped}"),
    }
}

fn bad(url: impl Into<String>, why: impl Into<String>) -> OpenError {
    OpenError::BadUrl {
        url: url.into(),
        why: why.into(),
    }
}

/// What to write instead of something that is no URL at all, but looks like what people mean by one.
fn not_a_url(text: &str) -> Option<OpenError> {
    if text.trim().is_empty() {
        let why = "it is empty; write \"memory:\" for a store in memory or \"file://./data\" for a directory";
        return Some(bad("", why));
    }
    if text.eq_ignore_ascii_case("memory") {
        return Some(bad(text, "the colon is missing; write \"memory:\""));
    }
    if text.starts_with('~') {
        let why = "it is a path, and \"~\" is not expanded; write \"file://\" and the whole path, as in \"file:///home/me/data\"";
        return Some(bad(text, why));
    }
    let relative = |start: &str| text == start || text.starts_with(&format!("{start}/"));
    if text.starts_with('/') || relative(".") || relative("..") {
        return Some(bad(text, format!("it is a path; write {:?}", url_of(text))));
    }
    if !text.contains(':') {
        // A single word may be anything, even a password.
        let why = "it has no scheme; write \"file://./NAME\" for a directory here, or \"memory:\"";
        return Some(bad("…", why));
    }
    None
}

/// The directory that is named by what follows `file:`.
fn directory(rest: &str) -> Result<PathBuf, OpenError> {
    let shown = match rest.contains('@') {
        // It may be a user's password.
        true => "file:…".to_owned(),
        false => format!("file:{rest}"),
    };
    let bad = |why: String| bad(shown.as_str(), why);
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => on_this_machine(rest).map_err(bad)?,
    };
    if path.is_empty() {
        let why = "it names no directory; write \"file:///absolute/path\" or \"file://./relative/path\"";
        return Err(bad(why.to_owned()));
    }
    for (mark, escape) in [('?', "%3F"), ('#', "%23")] {
        if path.contains(mark) {
            return Err(bad(format!(
                "a directory has no parameters; if {mark:?} is part of its name, write {escape:?}"
            )));
        }
    }
    let bytes = unescape(path.as_bytes()).ok_or_else(|| {
        bad("a \"%\" must be followed by two hexadecimal digits; write \"%25\" for a \"%\" in a name".to_owned())
    })?;
    if bytes.contains(&0) {
        return Err(bad("a path cannot contain a NUL byte".to_owned()));
    }
    let path = String::from_utf8(bytes).map_err(|_| bad("the path is not valid UTF-8".to_owned()))?;
    Ok(PathBuf::from(path))
}

/// The path of what follows `file://`, where other URLs have a host.
fn on_this_machine(rest: &str) -> Result<&str, String> {
    if rest.is_empty() || rest.starts_with(['/', '.']) {
        return Ok(rest);
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(path);
    }
    if rest.contains('@') {
        return Err("a store must be on this machine; write \"file:///\" and the whole path".to_owned());
    }
    Err(format!(
        "{host:?} stands where a URL has a host; write \"file://./{rest}\" for a directory here, or \"file:///{rest}\" for one \
         at the root"
    ))
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
