//! Which store a URL names.

use crate::OpenError;
use std::path::PathBuf;

/// A store as a URL names it.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// In this process.
    Memory,
    /// A directory.
    Directory(PathBuf),
    /// A container of Azure Cosmos DB; its store reads the rest.
    Cosmos,
}

/// Reads a URL.
pub fn parse(url: &str) -> Result<Target, OpenError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(unknown(url));
    };
    match scheme {
        "memory" if rest.is_empty() || rest == "//" => Ok(Target::Memory),
        "memory" => Err(OpenError::BadUrl {
            url: url.to_string(),
            why: "a memory store has no name; use \"memory:\"",
        }),
        "file" => directory(url, rest).map(Target::Directory),
        "cosmos" | "cosmos+http" => Ok(Target::Cosmos),
        _ => Err(unknown(url)),
    }
}

/// Only the scheme is repeated: what follows may hold a password.
fn unknown(url: &str) -> OpenError {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    let scheme: String = scheme.chars().take(32).collect();
    OpenError::UnknownScheme {
        url: format!("{scheme}:…"),
    }
}

fn directory(url: &str, rest: &str) -> Result<PathBuf, OpenError> {
    let bad = |why| OpenError::BadUrl {
        url: url.to_string(),
        why,
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = path
        .strip_prefix("localhost/")
        .map(|path| format!("/{path}"))
        .unwrap_or_else(|| path.to_string());
    if path.is_empty() {
        return Err(bad(
            "it names no directory; use \"file:///absolute/path\" or \"file://./relative/path\"",
        ));
    }
    if rest.starts_with("//") && !path.starts_with(['/', '.']) {
        return Err(bad(
            "a store must be on this machine; use \"file:///absolute/path\" or \"file://./relative/path\"",
        ));
    }
    let bytes = unescape(path.as_bytes()).ok_or_else(|| bad("a % must be followed by two hexadecimal digits"))?;
    let path = String::from_utf8(bytes).map_err(|_| bad("the path is not valid UTF-8"))?;
    Ok(PathBuf::from(path))
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => *other,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> PathBuf {
        match parse(url) {
            Ok(Target::Directory(path)) => path,
            other => panic!("{url} gave {other:?}"),
        }
    }

    #[test]
    fn directories_are_absolute_relative_or_escaped() {
        assert_eq!(path("file:///var/lib/app"), PathBuf::from("/var/lib/app"));
        assert_eq!(path("file://./data"), PathBuf::from("./data"));
        assert_eq!(path("file:data"), PathBuf::from("data"));
        assert_eq!(path("file:///a%20b"), PathBuf::from("/a b"));
        assert_eq!(path("file://localhost/a"), PathBuf::from("/a"));
    }

    #[test]
    fn cosmos_db_is_known_whatever_follows() {
        for url in ["cosmos://account/db/c", "cosmos+http://127.0.0.1:8081/db/c", "cosmos:"] {
            assert_eq!(parse(url).unwrap(), Target::Cosmos);
        }
        for url in ["cosmos", "cosmos+https://account/db/c", "Cosmos DB://a/b/c"] {
            assert!(parse(url).unwrap_err().to_string().contains("names no known store"));
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        assert!(parse("file://").unwrap_err().to_string().contains("names no directory"));
        assert!(
            parse("file://server/share")
                .unwrap_err()
                .to_string()
                .contains("on this machine")
        );
        assert!(parse("file:///a%2").unwrap_err().to_string().contains("hexadecimal"));
        assert!(parse("memory:name").unwrap_err().to_string().contains("has no name"));
        assert!(
            parse("nonsense")
                .unwrap_err()
                .to_string()
                .contains("names no known store")
        );
    }

    #[test]
    fn an_unknown_url_is_not_repeated_because_it_may_hold_a_secret() {
        let told = parse("postgres://user:hunter2@host/db").unwrap_err().to_string();
        assert!(told.contains("postgres") && !told.contains("hunter2"), "{told}");
    }
}
