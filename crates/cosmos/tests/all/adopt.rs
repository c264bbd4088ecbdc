//! Containers created by others, for programs that may write documents and nothing else.

use crate::support::Fixture;
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use perennial_cosmos::{Made, OpenError, adopt};
use perennial_cosmos_server::Options;

#[tokio::test]
async fn a_container_with_the_right_settings_becomes_a_store() {
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    container.delete_item("%store", "format", None).await.unwrap();
    for made in [Made::Repaired, Made::Nothing] {
        assert_eq!(adopt(&fixture.account, &fixture.settings).await.unwrap(), made);
    }
    fixture.open().await;
}

#[tokio::test]
async fn what_needs_a_key_is_reported_and_not_done() {
    let fixture = Fixture::bare(Options::default()).await;
    let missing = adopt(&fixture.account, &fixture.settings).await.unwrap_err();
    assert!(matches!(missing, OpenError::KeyNeeded { .. }), "{missing}");
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    let found: ContainerProperties = container.read(None).await.unwrap().into_model().unwrap();
    let broken = ContainerProperties::new("perennial", found.partition_key).with_default_ttl(TimeToLive::Seconds(60));
    container.replace(broken, None).await.unwrap();
    let refused = adopt(&fixture.account, &fixture.settings).await.unwrap_err();
    assert!(matches!(refused, OpenError::KeyNeeded { .. }), "{refused}");
    let told = refused.to_string();
    assert!(told.contains("time to live") && told.contains("az cosmosdb"), "{told}");
    let left: ContainerProperties = container.read(None).await.unwrap().into_model().unwrap();
    assert_eq!(left.default_ttl, TimeToLive::Seconds(60), "nothing was changed");
}
