//! Containers of Azure Cosmos DB.

use azure_core::credentials::TokenCredential;
use perennial_cosmos::{Account, CosmosStore, OpenError, Settings};
use std::sync::Arc;

/// How this program proves who it is.
#[derive(Default)]
pub(crate) enum Identity {
    /// By what it finds in its environment.
    #[default]
    Ambient,
    Key(String),
    Token(Arc<dyn TokenCredential>),
}

/// What a URL cannot say.
#[derive(Default)]
pub(crate) struct Access {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
}

impl Access {
    /// Opens the container that a URL names.
    pub(crate) async fn open(&self, url: &str) -> Result<CosmosStore, OpenError> {
        let account = Account::parse(url)?;
        let account = match &self.identity {
            Identity::Ambient => account,
            Identity::Key(key) => account.with_key(key.clone()),
            Identity::Token(credential) => account.with_credential(Arc::clone(credential)),
        };
        perennial_cosmos::open(account, self.settings.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, OpenError};

    async fn refusal(url: &str) -> String {
        match Builder::new(url).cosmos_key("aHVudGVyMg==").open().await {
            Err(error @ OpenError::Cosmos(_)) => format!("{error} {error:?}"),
            Err(other) => panic!("{url} gave {other:?}"),
            Ok(_) => panic!("{url} must not open"),
        }
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_url_is_said_and_no_secret_with_it() {
        for (url, told) in [
            ("cosmos://account/db", "a database and a container"),
            ("cosmos:///db/c", "no account"),
            ("cosmos://account/db/c?key=aHVudGVyMg==", "a parameter"),
            ("cosmos://user:aHVudGVyMg==@account/db/c", "holds credentials"),
            ("cosmos+http://example.com/db/c", "an emulator on this machine"),
        ] {
            let refusal = refusal(url).await;
            assert!(refusal.contains(told), "{url} gave {refusal}");
            assert!(!refusal.contains("aHVudGVyMg"), "{refusal}");
        }
    }
}
