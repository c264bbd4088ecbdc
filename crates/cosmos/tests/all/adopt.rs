//! Containers that were made by others, for programs that may write documents and nothing else.

use crate::support::Bed;
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use perennial_cosmos::{Made, OpenError, adopt};
use perennial_cosmos_server::Options;

#[tokio::test]
async fn a_container_that_is_as_it_should_be_becomes_a_store() {
    let bed = Bed::new().await;
    let container = bed.container().await;
    container.delete_item("%store", "format", None).await.unwrap();
    for made in [Made::Mended, Made::Nothing] {
        assert_eq!(adopt(&bed.account, &bed.settings).await.unwrap(), made);
    }
    bed.open().await;
}

#[tokio::test]
async fn what_takes_a_key_is_told_and_not_done() {
    let bed = Bed::bare(Options::default()).await;
    let missing = adopt(&bed.account, &bed.settings).await.unwrap_err();
    assert!(matches!(missing, OpenError::KeyNeeded { .. }), "{missing}");
    let bed = Bed::new().await;
    let container = bed.container().await;
    let found: ContainerProperties = container.read(None).await.unwrap().into_model().unwrap();
    let broken = ContainerProperties::new("perennial", found.partition_key).with_default_ttl(TimeToLive::Seconds(60));
    container.replace(broken, None).await.unwrap();
    let refused = adopt(&bed.account, &bed.settings).await.unwrap_err();
    assert!(matches!(refused, OpenError::KeyNeeded { .. }), "{refused}");
    let told = refused.to_string();
    assert!(told.contains("time to live") && told.contains("az cosmosdb"), "{told}");
    let left: ContainerProperties = container.read(None).await.unwrap().into_model().unwrap();
    assert_eq!(left.default_ttl, TimeToLive::Seconds(60), "nothing was changed");
}
