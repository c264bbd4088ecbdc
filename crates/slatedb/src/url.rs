//! Which bucket a URL names.

#[cfg(any(feature = "s3", feature = "az", feature = "gs"))]
mod client;
mod connect;
#[cfg(test)]
mod tests;

use crate::OpenError;
use object_store::path::Path;
use std::fmt;
use std::path::PathBuf;

/// Texts that stand before a secret in what people paste as a URL.
const SECRETS: [&str; 4] = ["sig=", "signature=", "accountkey=", "sharedaccess"];

/// A bucket as a URL names it.
///
/// ```
/// use perennial_slatedb::Location;
///
/// let location = Location::parse("az://myaccount/mycontainer/orders").unwrap();
/// assert_eq!(location.to_string(), "az://myaccount/mycontainer/orders");
/// // Credentials come from the environment. A URL that holds any is refused, and not repeated.
/// let error = Location::parse("s3://key:hunter2@bucket/orders").unwrap_err();
/// assert!(!error.to_string().contains("hunter2"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// `s3://BUCKET/PREFIX`: Amazon S3, or a compatible server.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of all objects, possibly empty.
        prefix: Path,
    },
    /// `az://ACCOUNT/CONTAINER/PREFIX`: Azure Blob Storage.
    Azure {
        /// The storage account.
        account: String,
        /// The container.
        container: String,
        /// The prefix of all objects, possibly empty.
        prefix: Path,
    },
    /// `gs://BUCKET/PREFIX`: Google Cloud Storage.
    Google {
        /// The bucket.
        bucket: String,
        /// The prefix of all objects, possibly empty.
        prefix: Path,
    },
    /// `slatedb+file:///DIR` or `slatedb+file://./DIR`: a directory of this machine, every object synced.
    Directory(PathBuf),
    /// `slatedb+memory:NAME`: in this process, gone with it.
    Memory(String),
}

impl Location {
    /// Reads a URL. Nothing of it but the scheme is repeated in an error.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let scheme = scheme.to_ascii_lowercase();
        let located = match scheme.as_str() {
            "slatedb+file" => directory(rest).map(Self::Directory),
            "slatedb+memory" => memory(rest).map(Self::Memory),
            "s3" => cloud(rest, "s3://BUCKET/PREFIX").and_then(|rest| {
                let (bucket, prefix) = named(rest, "bucket")?;
                let prefix = prefix_of(prefix)?;
                Ok(Self::S3 { bucket, prefix })
            }),
            "gs" => cloud(rest, "gs://BUCKET/PREFIX").and_then(|rest| {
                let (bucket, prefix) = named(rest, "bucket")?;
                let prefix = prefix_of(prefix)?;
                Ok(Self::Google { bucket, prefix })
            }),
            "az" => cloud(rest, "az://ACCOUNT/CONTAINER/PREFIX").and_then(|rest| {
                let (account, rest) = named(rest, "storage account")?;
                let (container, prefix) = named(rest, "container")?;
                let prefix = prefix_of(prefix)?;
                Ok(Self::Azure {
                    account,
                    container,
                    prefix,
                })
            }),
            _ => Err(
                "it begins with none of \"s3:\", \"az:\", \"gs:\", \"slatedb+file:\" and \"slatedb+memory:\""
                    .to_owned(),
            ),
        };
        located.map_err(|why| OpenError::BadUrl {
            scheme: match ["s3", "az", "gs", "slatedb+file", "slatedb+memory"].contains(&scheme.as_str()) {
                true => scheme,
                // It may be a user's name or a password.
                false => String::new(),
            },
            why,
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, prefix) = match self {
            Self::S3 { bucket, prefix } => (format!("s3://{bucket}"), prefix),
            Self::Google { bucket, prefix } => (format!("gs://{bucket}"), prefix),
            Self::Azure {
                account,
                container,
                prefix,
            } => (format!("az://{account}/{container}"), prefix),
            Self::Directory(path) => return write!(f, "slatedb+file://{}", path.display()),
            Self::Memory(name) => return write!(f, "slatedb+memory:{name}"),
        };
        match prefix.as_ref() {
            "" => f.write_str(&start),
            prefix => write!(f, "{start}/{prefix}"),
        }
    }
}

/// What follows `://`, if it holds nothing that may be a secret.
fn cloud<'a>(rest: &'a str, form: &str) -> Result<&'a str, String> {
    let lower = rest.to_ascii_lowercase();
    let has_secret = rest.contains(['@', '?', '#']) || SECRETS.iter().any(|mark| lower.contains(mark));
    if has_secret {
        return Err(format!(
            "it may hold credentials, and URLs are logged; write \"{form}\" alone, and let the credentials come from the \
             environment (docs/object-stores.md lists the variables)"
        ));
    }
    let rest = rest.strip_prefix("//").filter(|rest| !rest.is_empty());
    rest.ok_or_else(|| format!("it names nothing; write \"{form}\""))
}

/// The first name of a path, and the rest.
fn named<'a>(rest: &'a str, what: &str) -> Result<(String, &'a str), String> {
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte);
    match !name.is_empty() && name.len() <= 255 && name.bytes().all(is_name) {
        true => Ok((name.to_owned(), rest)),
        false => Err(format!(
            "the name of the {what} is missing, or has characters that such a name cannot have"
        )),
    }
}

fn prefix_of(text: &str) -> Result<Path, String> {
    let text = text.trim_end_matches('/');
    let parsed =
        Path::from_url_path(text).map_err(|_| "its prefix has an empty part, or characters that no name can have");
    parsed.map_err(str::to_owned)
}

/// The directory after `slatedb+file:`.
fn directory(rest: &str) -> Result<PathBuf, String> {
    let form = "write \"slatedb+file:///absolute/path\" or \"slatedb+file://./relative/path\"";
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if !path.starts_with(['/', '.']) {
        return Err(format!("it names no directory of this machine; {form}"));
    }
    if path.contains(['?', '#']) {
        return Err(format!(
            "a directory has no parameters; {form}, with \"%3F\" and \"%23\" for \"?\" and \"#\" in names"
        ));
    }
    let bytes = unescape(path.as_bytes()).ok_or("a \"%\" must be followed by two hexadecimal digits")?;
    if bytes.contains(&0) {
        return Err("a path cannot contain a NUL byte".to_owned());
    }
    let path = String::from_utf8(bytes).map_err(|_| "the path is not valid UTF-8")?;
    Ok(PathBuf::from(path))
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

/// The name after `slatedb+memory:`.
fn memory(rest: &str) -> Result<String, String> {
    let name = rest.strip_prefix("//").unwrap_or(rest);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !name.is_empty() && name.len() <= 255 && name.bytes().all(is_name) {
        true => Ok(name.to_owned()),
        false => {
            Err("it needs a name of letters, digits, \"-\", \"_\" and \".\"; write \"slatedb+memory:NAME\"".to_owned())
        }
    }
}
