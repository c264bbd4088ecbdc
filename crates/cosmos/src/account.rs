//! The address of a store, and the credentials for it.

use crate::OpenError;
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::http::Url;
use perennial_store::Error;
use std::fmt;
use std::sync::Arc;

/// The environment variable that holds the account's key, if there is one.
pub const KEY_VARIABLE: &str = "PERENNIAL_COSMOS_KEY";

/// How this program authenticates.
#[derive(Clone)]
pub(crate) enum Credential {
    /// By the key in the environment, or by an identity of Entra ID.
    Ambient,
    Key(Secret),
    Token(Arc<dyn TokenCredential>),
}

/// A container of an account, and the credentials for it.
///
/// ```
/// let account = perennial_cosmos::Account::parse("cosmos://my-account/orders/perennial").unwrap();
/// assert_eq!(account.endpoint(), "https://my-account.documents.azure.com/");
/// assert_eq!((account.database(), account.container()), ("orders", "perennial"));
/// // A key is never part of a URL, because URLs are logged. It comes from the environment, or is passed in.
/// let account = account.with_key("c2VjcmV0");
/// assert!(!format!("{account:?}").contains("c2VjcmV0"));
/// ```
#[derive(Clone)]
pub struct Account {
    endpoint: Url,
    database: String,
    container: String,
    pub(crate) credential: Credential,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credential = match self.credential {
            Credential::Ambient => "from the environment",
            Credential::Key(_) => "a key",
            Credential::Token(_) => "a token",
        };
        f.debug_struct("Account")
            .field("endpoint", &self.endpoint.as_str())
            .field("database", &self.database)
            .field("container", &self.container)
            .field("credential", &credential)
            .finish()
    }
}

fn bad(why: &'static str) -> OpenError {
    OpenError::BadUrl { why }
}

impl Account {
    /// Parses a URL: `cosmos://ACCOUNT/DATABASE/CONTAINER`, where the account is a name or a host.
    ///
    /// An emulator on this machine is `cosmos+http://127.0.0.1:PORT/DATABASE/CONTAINER`, or any URL with
    /// `?endpoint=http://127.0.0.1:PORT`. Unencrypted connections go to this machine only, and there the published key
    /// of all emulators is used unless another is given.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let url = Url::parse(url).map_err(|_| bad("it cannot be read"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(
                "it holds credentials, and URLs are logged; set PERENNIAL_COSMOS_KEY or use Entra ID instead",
            ));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| bad("it names no account"))?;
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let mut endpoint = match url.scheme() {
            "cosmos" if host.contains('.') => format!("https://{host}{port}"),
            "cosmos" => format!("https://{host}.documents.azure.com{port}"),
            "cosmos+http" => format!("http://{host}{port}"),
            _ => return Err(bad("its scheme is neither cosmos: nor cosmos+http:")),
        };
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "endpoint" => endpoint = value.into_owned(),
                _ => return Err(bad("it has a parameter other than endpoint")),
            }
        }
        let segments: Vec<&str> = url.path_segments().map(Iterator::collect).unwrap_or_default();
        let [database, container] = segments.as_slice() else {
            return Err(bad("it must name a database and a container and nothing else"));
        };
        Ok(Self {
            endpoint: endpoint_of(&endpoint)?,
            database: name_of(database)?,
            container: name_of(container)?,
            credential: Credential::Ambient,
        })
    }

    /// The same container, with the account's key. It is only used to sign requests and never shown.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.credential = Credential::Key(Secret::new(key.into()));
        self
    }

    /// The same container, with this credential.
    #[must_use]
    pub fn with_credential(mut self, credential: Arc<dyn TokenCredential>) -> Self {
        self.credential = Credential::Token(credential);
        self
    }

    /// Where requests go.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The container's name.
    pub fn container(&self) -> &str {
        &self.container
    }

    pub(crate) fn url(&self) -> &Url {
        &self.endpoint
    }

    /// Whether the account is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.endpoint)
    }

    pub(crate) fn failed(&self, source: Error) -> OpenError {
        OpenError::Failed {
            endpoint: self.endpoint.to_string(),
            source,
        }
    }

    pub(crate) fn not_found(&self) -> OpenError {
        OpenError::NotFound {
            endpoint: self.endpoint.to_string(),
            database: self.database.clone(),
            container: self.container.clone(),
        }
    }
}

fn endpoint_of(text: &str) -> Result<Url, OpenError> {
    let mut endpoint = Url::parse(text).map_err(|_| bad("its endpoint cannot be read"))?;
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return Err(bad("its endpoint holds credentials"));
    }
    match endpoint.scheme() {
        "https" => {}
        "http" if is_local(&endpoint) => {}
        "http" => return Err(bad("without encryption only an emulator on this machine may be used")),
        _ => return Err(bad("its endpoint is neither https: nor http:")),
    }
    endpoint.set_path("/");
    endpoint.set_query(None);
    endpoint.set_fragment(None);
    Ok(endpoint)
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// The name of a database or a container, as the service takes it.
fn name_of(segment: &str) -> Result<String, OpenError> {
    let pair = format!("n={}", segment.replace('+', "%2B"));
    let mut base = Url::parse("http://localhost/").map_err(|_| bad("it cannot be read"))?;
    base.set_query(Some(&pair));
    let name = base.query_pairs().next().map(|(_, value)| value.into_owned());
    match name {
        Some(name) if (1..=255).contains(&name.len()) && !name.contains(['/', '\\', '#', '?', '\u{fffd}']) => Ok(name),
        _ => Err(bad(
            "a name of 1 to 255 bytes without / \\ # ? is needed for database and container",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> String {
        Account::parse(url).unwrap().endpoint().to_owned()
    }

    fn why(url: &str) -> String {
        Account::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn an_account_is_a_name_a_host_or_an_emulator() {
        assert_eq!(endpoint("cosmos://acct/db/c"), "https://acct.documents.azure.com/");
        assert_eq!(
            endpoint("cosmos://acct.documents.azure.cn/db/c"),
            "https://acct.documents.azure.cn/"
        );
        assert_eq!(endpoint("cosmos+http://127.0.0.1:8081/db/c"), "http://127.0.0.1:8081/");
        assert_eq!(endpoint("cosmos+http://[::1]:8081/db/c"), "http://[::1]:8081/");
        assert_eq!(
            endpoint("cosmos://emulator/db/c?endpoint=https://localhost:8081"),
            "https://localhost:8081/"
        );
        let account = Account::parse("cosmos://acct/my%20db/c%2B+1").unwrap();
        assert_eq!((account.database(), account.container()), ("my db", "c++1"));
    }

    #[test]
    fn no_other_machine_is_talked_to_without_encryption() {
        for url in [
            "cosmos+http://example.com/db/c",
            "cosmos+http://10.0.0.1:8081/db/c",
            "cosmos://acct/db/c?endpoint=http://example.com",
            "cosmos+http://localhost.example.com/db/c",
        ] {
            assert!(why(url).contains("without encryption"), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (url, expected) in [
            ("nonsense", "cannot be read"),
            ("cosmos:///db/c", "names no account"),
            ("cosmos://acct/db", "a database and a container"),
            ("cosmos://acct/db/c/d", "a database and a container"),
            ("cosmos://acct//c", "a name of"),
            ("cosmos://acct/db/a%2Fb", "a name of"),
            ("cosmos://acct/db/c?x=1", "a parameter"),
            ("mongo://acct/db/c", "its scheme"),
            ("cosmos://acct/db/c?endpoint=ftp://localhost", "neither https"),
        ] {
            assert!(why(url).contains(expected), "{url}: {}", why(url));
        }
    }

    #[test]
    fn secrets_are_neither_taken_from_urls_nor_shown() {
        for url in [
            "cosmos://acct:hunter2@host/db/c",
            "cosmos://hunter2@host/db/c",
            "cosmos://acct/db/c?endpoint=https://u:hunter2@localhost",
            "cosmos://acct/db/c?key=hunter2",
        ] {
            assert!(!why(url).contains("hunter2"), "{}", why(url));
        }
        let account = Account::parse("cosmos://acct/db/c").unwrap().with_key("hunter2");
        assert!(!format!("{account:?}").contains("hunter2"));
        let failed = account.failed(Error::Closed("x".into()));
        assert!(!format!("{failed:?} {failed}").contains("hunter2"));
    }
}
