//! Opening and creating: failures are reported plainly, without secrets.

use crate::support::{Fixture, draft, key, one, put};
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use perennial_cosmos::{Account, FORMAT, KEY_VARIABLE, Made, OpenError, Settings, Throughput, init, open};
use perennial_cosmos_server::{Fault, Kind, Options, Rule, When};
use perennial_store::{DueQuery, Error, Lane, Store};
use std::time::Duration;

async fn error(account: &Account, settings: &Settings) -> OpenError {
    match open(account.clone(), settings.clone()).await {
        Ok(_) => panic!("{account:?} must not open"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_container_is_made_once() {
    let fixture = Fixture::bare(Options::default()).await;
    let missing = error(&fixture.account, &fixture.settings).await;
    assert!(matches!(missing, OpenError::NotFound { .. }), "{missing}");
    assert!(missing.to_string().contains("perennial cosmos init"));
    for (throughput, made) in [
        (Throughput::Autoscale(1000), Made::Created),
        (Throughput::Manual(400), Made::Nothing),
    ] {
        assert_eq!(
            init(&fixture.account, throughput, &fixture.settings).await.unwrap(),
            made
        );
    }
    let store = fixture.open().await;
    put(&store, draft("p", "a", "1")).await;
    assert!(
        fixture.open().await.get(&key("p", "a")).await.unwrap().is_some(),
        "many handles may have it open"
    );
}

#[tokio::test]
async fn a_container_that_is_not_ready_is_repaired() {
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    let found: ContainerProperties = container.read(None).await.unwrap().into_model().unwrap();
    let broken = ContainerProperties::new("perennial", found.partition_key).with_default_ttl(TimeToLive::Seconds(60));
    container.replace(broken, None).await.unwrap();
    let refused = error(&fixture.account, &fixture.settings).await;
    assert!(matches!(refused, OpenError::NotReady { .. }), "{refused}");
    assert!(refused.to_string().contains("time to live"), "{refused}");
    let made = init(&fixture.account, Throughput::Serverless, &fixture.settings).await;
    assert_eq!(made.unwrap(), Made::Repaired);
    fixture.open().await;
}

#[tokio::test]
async fn a_container_of_another_format_is_left_alone() {
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    let format = |number: u32| serde_json::json!({ "id": "format", "partition": "%store", "format": number });
    let replaced = container
        .replace_item("%store", "format", format(FORMAT + 1), None)
        .await;
    replaced.unwrap();
    for refused in [
        error(&fixture.account, &fixture.settings).await,
        init(&fixture.account, Throughput::Serverless, &fixture.settings)
            .await
            .unwrap_err(),
    ] {
        assert!(matches!(refused, OpenError::OtherFormat { .. }), "{refused}");
    }
    container.delete_item("%store", "format", None).await.unwrap();
    let refused = error(&fixture.account, &fixture.settings).await;
    assert!(matches!(refused, OpenError::NotReady { .. }), "{refused}");
    init(&fixture.account, Throughput::Serverless, &fixture.settings)
        .await
        .unwrap();
    fixture.open().await;
}

/// Not a test of its own: the process that the next one starts.
#[tokio::test]
async fn child() {
    let Ok(url) = std::env::var("PERENNIAL_TEST_URL") else {
        return;
    };
    let outcome = open(Account::parse(&url).unwrap(), Settings::default()).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    println!("opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_may_come_from_the_environment() {
    let fixture = Fixture::new().await;
    for (key, opens) in [(fixture.server.key(), true), ("bm90IHRoZSByaWdodCBrZXk=", false)] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["open::child", "--exact", "--nocapture"])
            .env("PERENNIAL_TEST_URL", fixture.url());
        let output = child.env(KEY_VARIABLE, key).output().unwrap();
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(told.contains("opened"), opens, "{told}");
        assert!(!told.contains(key));
    }
}

/// Whatever keys and identities the machine has, this process has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_credentials_it_says_so_and_how_to_give_some() {
    let nowhere = tempfile::tempdir().unwrap();
    // Nothing listens for HTTPS there, but a token is needed before any request.
    let url = "cosmos://emulator/db/perennial?endpoint=https://127.0.0.1:9";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["open::child", "--exact", "--nocapture"])
        .env_clear()
        .env("PATH", nowhere.path())
        .env("HOME", nowhere.path())
        .env("PERENNIAL_TEST_URL", url);
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(told.contains("NoCredentials"), "{told}");
    assert!(told.contains("PERENNIAL_COSMOS_KEY is not set"), "{told}");
    assert!(told.contains("managed identity"), "{told}");
    let why = "PERENNIAL_COSMOS_KEY is not set".to_owned();
    let shown = OpenError::NoCredentials { why }.to_string();
    assert!(shown.contains("set PERENNIAL_COSMOS_KEY to the account's key") && shown.contains("az login"));
    assert!(!told.contains("check that the account key"), "{told}");
}

#[tokio::test]
async fn the_error_for_an_emulator_that_does_not_run_says_how_to_start_it() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let account = Account::parse(&format!("cosmos+http://127.0.0.1:{port}/db/perennial")).unwrap();
    for told in [
        error(&account, &Settings::default()).await,
        init(&account, Throughput::Serverless, &Settings::default())
            .await
            .unwrap_err(),
    ] {
        let told = told.to_string();
        let start = format!("perennial cosmos emulator --port {port}");
        for words in ["connection refused", "is the emulator running?", &start] {
            assert!(told.contains(words), "{told}");
        }
        assert!(!told.contains("503"), "{told}");
    }
}

#[tokio::test]
async fn a_container_of_another_program_is_left_alone() {
    let fixture = Fixture::new().await;
    let client = fixture.client().await;
    let other = ContainerProperties::new("other", "/id".into());
    client
        .database_client("db")
        .create_container(other, None)
        .await
        .unwrap();
    let url = fixture.url().replace("/perennial", "/other");
    let account = Account::parse(&url).unwrap().with_key(fixture.server.key());
    for refused in [
        error(&account, &fixture.settings).await,
        init(&account, Throughput::Serverless, &fixture.settings)
            .await
            .unwrap_err(),
    ] {
        assert!(matches!(refused, OpenError::WrongPartitionKey { .. }), "{refused}");
        assert!(refused.to_string().contains("name another container"));
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_never_shown() {
    const KEY: &str = "bm90IHRoZSByaWdodCBrZXk=";
    let fixture = Fixture::new().await;
    let account = Account::parse(&fixture.url()).unwrap().with_key(KEY);
    for refused in [
        error(&account, &fixture.settings).await,
        init(&account, Throughput::Serverless, &fixture.settings)
            .await
            .unwrap_err(),
    ] {
        let told = format!("{refused} {refused:?} {account:?}");
        assert!(told.contains("credentials"), "{told}");
        assert!(!told.contains(KEY) && !told.contains("sig"), "{told}");
    }
    let store = fixture.open().await;
    assert!(!format!("{store:?} {:?}", fixture.account).contains(fixture.server.key()));
}

#[tokio::test]
async fn a_later_refusal_says_what_to_do() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    for (status, substatus, expected) in [
        (401, 0, "credentials"),
        (403, 5300, "Built-in Data"),
        (403, 1014, "20 GB"),
        (404, 1003, "cosmos init"),
    ] {
        let rule = Rule::new(Fault::answer(status, substatus), When::Always);
        fixture.server.faults().add(rule);
        let lane = Lane::new("work");
        for told in [
            store.get(&key("p", "a")).await.unwrap_err(),
            store.due(&DueQuery::new(&lane, 0, 1)).await.unwrap_err(),
            one(&store, perennial_store::Op::Put(draft("p", "a", "1")))
                .await
                .unwrap_err(),
        ] {
            assert!(
                matches!(&told, Error::Invalid(why) if why.contains(expected)),
                "{status}: {told}"
            );
        }
        fixture.server.faults().reset();
    }
}

#[tokio::test]
async fn every_call_ends() {
    let mut fixture = Fixture::new().await;
    fixture.settings.call_timeout = Duration::from_secs(1);
    let store = fixture.open().await;
    let hang = Fault::Hang {
        executed: true,
        for_ms: 60_000,
    };
    fixture.server.faults().add(Rule::new(hang, When::Always));
    let told = store.get(&key("p", "a")).await.unwrap_err();
    assert!(matches!(told, Error::Unavailable(_)), "{told}");
    let told = one(&store, perennial_store::Op::Put(draft("p", "a", "1")))
        .await
        .unwrap_err();
    assert!(matches!(told, Error::UnknownOutcome(_)), "{told}");
    fixture.server.faults().reset();
    assert!(store.get(&key("p", "a")).await.unwrap().is_some());
    let hang = Rule::new(hang, When::Always).on([Kind::Metadata]);
    fixture.server.faults().add(hang);
    let told = error(&fixture.account, &fixture.settings).await;
    assert!(matches!(told, OpenError::Failed { .. }), "{told}");
}

#[tokio::test]
async fn an_account_that_is_not_there_is_unavailable() {
    let fixture = Fixture::new().await;
    let (account, mut settings) = (fixture.account.clone(), fixture.settings.clone());
    settings.call_timeout = Duration::from_secs(1);
    drop(fixture);
    let told = error(&account, &settings).await;
    assert!(
        matches!(
            &told,
            OpenError::Failed {
                source: Error::Unavailable(_),
                ..
            }
        ),
        "{told}"
    );
}
