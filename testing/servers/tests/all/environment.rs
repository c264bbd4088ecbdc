//! The variables of a server lead the clients' own `from_env` to it.

use crate::child;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use perennial_servers::{Azurite, Moto};

#[test]
fn azurite_is_reached_by_its_variables() {
    let Some(azurite) = Azurite::shared() else { return };
    azurite.create_container("environment");
    let mut test = child::test("environment::writes_by_az_variables");
    let (passed, output) = child::run(test.envs(azurite.env()));
    assert!(passed, "{output}");
}

#[test]
fn moto_is_reached_by_its_variables() {
    let Some(moto) = Moto::shared() else { return };
    moto.create_bucket("environment");
    let mut test = child::test("environment::writes_by_s3_variables");
    let (passed, output) = child::run(test.envs(moto.env()));
    assert!(passed, "{output}");
}

#[test]
#[ignore = "run by azurite_is_reached_by_its_variables"]
fn writes_by_az_variables() {
    let builder = MicrosoftAzureBuilder::from_env().with_container_name("environment");
    writes(&builder.build().unwrap());
}

#[test]
#[ignore = "run by moto_is_reached_by_its_variables"]
fn writes_by_s3_variables() {
    let builder = AmazonS3Builder::from_env().with_bucket_name("environment");
    writes(&builder.build().unwrap());
}

#[tokio::main(flavor = "current_thread")]
async fn writes(store: &dyn ObjectStore) {
    let path = Path::from("object");
    store.put(&path, "content".into()).await.unwrap();
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "content");
}
