//! The identity of this program, where none was configured.

use crate::OpenError;
use crate::account::{Account, Credential, KEY_VARIABLE};
use async_trait::async_trait;
use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_data_cosmos::AccountReference;
use azure_identity::{
    ClientSecretCredential, DeveloperToolsCredential, ManagedIdentityCredential, WorkloadIdentityCredential,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The key of every emulator. It is published, hence no secret.
const EMULATOR_KEY: &str = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The account, with its credentials.
pub(crate) struct Access {
    pub(crate) reference: AccountReference,
    /// The identities that are tried, if none was configured.
    pub(crate) chain: Option<Arc<Chain>>,
}

impl Access {
    /// Determines the credentials.
    pub(crate) fn find(account: &Account) -> Result<Self, OpenError> {
        let endpoint = account.url().clone().into();
        let mut chain = None;
        let reference = match &account.credential {
            Credential::Key(key) => AccountReference::with_authentication_key(endpoint, key.clone()),
            Credential::Token(token) => AccountReference::with_credential(endpoint, Arc::clone(token)),
            Credential::Ambient => match variable(KEY_VARIABLE) {
                Some(key) => AccountReference::with_authentication_key(endpoint, Secret::new(key)),
                // Unencrypted accounts are emulators on this machine, and none of them supports Entra ID.
                None if account.url().scheme() == "http" => {
                    AccountReference::with_authentication_key(endpoint, Secret::new(EMULATOR_KEY))
                }
                None => {
                    let identities = chain.insert(Arc::new(Chain::new()?));
                    AccountReference::with_credential(endpoint, Arc::clone(identities) as Arc<dyn TokenCredential>)
                }
            },
        };
        Ok(Self { reference, chain })
    }
}

/// Whether this program authenticates with a key.
#[cfg(feature = "init")]
pub(crate) fn has_key(account: &Account) -> bool {
    match account.credential {
        Credential::Key(_) => true,
        Credential::Token(_) => false,
        Credential::Ambient => account.url().scheme() == "http" || variable(KEY_VARIABLE).is_some(),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Identities of Entra ID, tried in turn until one gives a token; that one is kept.
#[derive(Debug)]
pub(crate) struct Chain {
    sources: Vec<(&'static str, Arc<dyn TokenCredential>)>,
    chosen: AtomicUsize,
    /// The names of all of them, once none has given a token.
    tried: OnceLock<String>,
}

/// No source was chosen yet.
const NONE: usize = usize::MAX;

impl Chain {
    /// The error that there are no credentials, if that turned out. To the SDK it is a refusal like any other.
    pub(crate) fn failure(&self) -> Option<OpenError> {
        self.tried.get().map(|tried| OpenError::NoCredentials {
            why: format!("{KEY_VARIABLE} is not set, and no identity gave a token (tried: {tried})"),
        })
    }

    fn new() -> Result<Self, OpenError> {
        let mut sources: Vec<(&'static str, Arc<dyn TokenCredential>)> = Vec::new();
        if let (Some(tenant), Some(client), Some(secret)) = (
            variable("AZURE_TENANT_ID"),
            variable("AZURE_CLIENT_ID"),
            variable("AZURE_CLIENT_SECRET"),
        ) && let Ok(source) = ClientSecretCredential::new(&tenant, client, Secret::new(secret), None)
        {
            sources.push(("client secret", source));
        }
        if variable("AZURE_FEDERATED_TOKEN_FILE").is_some()
            && let Ok(source) = WorkloadIdentityCredential::new(None)
        {
            sources.push(("workload identity", source));
        }
        if let Ok(source) = ManagedIdentityCredential::new(None) {
            let source: (&'static str, Arc<dyn TokenCredential>) = ("managed identity", source);
            // Where nothing announces a managed identity, asking for one takes long: the developer tools come first.
            let is_announced = variable("IDENTITY_ENDPOINT")
                .or_else(|| variable("MSI_ENDPOINT"))
                .is_some();
            if is_announced {
                sources.push(source);
            } else {
                sources.extend(developer_tools());
                sources.push(source);
            }
        }
        match sources.is_empty() {
            true => Err(OpenError::NoCredentials {
                why: "no kind of identity can be used here".to_owned(),
            }),
            false => Ok(Self {
                sources,
                chosen: AtomicUsize::new(NONE),
                tried: OnceLock::new(),
            }),
        }
    }
}

fn developer_tools() -> Option<(&'static str, Arc<dyn TokenCredential>)> {
    let source = DeveloperToolsCredential::new(None).ok()?;
    Some(("az or azd", source))
}

#[async_trait]
impl TokenCredential for Chain {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        if let Some((_, source)) = self.sources.get(self.chosen.load(Ordering::Relaxed)) {
            return source.get_token(scopes, options).await;
        }
        let mut tried = Vec::new();
        for (index, (name, source)) in self.sources.iter().enumerate() {
            match source.get_token(scopes, options.clone()).await {
                Ok(token) => {
                    self.chosen.store(index, Ordering::Relaxed);
                    tracing::debug!(identity = name, "Cosmos DB is used with this identity");
                    return Ok(token);
                }
                // Their messages may hold parts of tokens; their names are enough.
                Err(_) => tried.push(*name),
            }
        }
        let tried = self.tried.get_or_init(|| tried.join(", "));
        let message =
            format!("no identity gave a token (tried: {tried}); set {KEY_VARIABLE}, or give this program an identity");
        Err(azure_core::Error::with_message(
            azure_core::error::ErrorKind::Credential,
            message,
        ))
    }
}
