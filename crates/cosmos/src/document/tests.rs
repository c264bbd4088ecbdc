use super::*;

fn round_trip(draft: &Draft) -> Record {
    let before = ["c-0".to_owned()];
    let json = write(draft, "c-1", &before).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(json.get()).unwrap();
    value["_etag"] = "\"1\"".into();
    let found = read(&serde_json::value::to_raw_value(&value).unwrap(), true).unwrap();
    assert_eq!((found.commit.as_deref(), &found.before[..]), (Some("c-1"), &before[..]));
    found.record
}

fn key(partition: &str, id: &str) -> Key {
    Key::new(Partition::new(partition), RecordId::from_raw(id))
}

#[test]
fn a_draft_is_read_back_as_a_record() {
    let place = Place {
        lane: Lane::topic("work", Some("gpu".into())),
        order: Order(u64::MAX),
        due_ms: u64::MAX,
    };
    let listing = Listing {
        kind: "instance".into(),
        status: "new".into(),
        name: "n".into(),
        parent: Some("p\u{0}".into()),
        created_ms: u64::MAX - 1,
        completed_ms: Some(MAX_SAFE + 1),
    };
    let long = "é".repeat(2000);
    for (partition, id) in [("p", "a"), ("", ""), (&*long, &*long)] {
        let plain = Draft::new(key(partition, id), r#"{"b":1}"#);
        for draft in [
            plain.clone(),
            plain.clone().placed(place.clone()),
            plain.clone().listed(listing.clone()),
            plain.placed(place.clone()).listed(listing.clone()),
        ] {
            let record = round_trip(&draft);
            assert_eq!((&record.key, &record.body), (&draft.key, &draft.body));
            assert_eq!((record.place, record.listing), (draft.place, draft.listing));
            assert_eq!(record.version, Version::text("\"1\""));
        }
    }
}

#[test]
fn the_document_is_what_the_documentation_says() {
    let draft = Draft::new(key("order 1", "head"), r#"{"state":"new"}"#).placed(Place {
        lane: Lane::new("turns"),
        order: Order(255),
        due_ms: 7,
    });
    let json: serde_json::Value = serde_json::from_str(write(&draft, "c-1", &[]).unwrap().get()).unwrap();
    let slot = Slot::of(&draft.key.partition).0;
    assert_eq!(
        json,
        serde_json::json!({
            "id": "head", "partition": "order 1", "commit": "c-1", "body": {"state": "new"},
            "lane": "turns", "arrival": "00000000000000ff", "due": 7, "slot": slot,
        })
    );
}

#[test]
fn damage_is_reported() {
    for json in [
        "{}",
        r#"{"id":"a","partition":"p","_etag":"1"}"#,
        r#"{"id":"a/b","partition":"p","_etag":"1","text":""}"#,
        r#"{"id":"a","partition":"p","_etag":"1","text":"","lane":"work"}"#,
        r#"{"id":"a","partition":"p","_etag":"1","text":"","lane":"work","arrival":"x","due":1}"#,
        r#"{"id":"a","partition":"p","_etag":"1","text":"","lane":"work","arrival":"1","due":1.5}"#,
        r#"{"id":"a","partition":"p","_etag":"1","text":"","kind":"instance"}"#,
    ] {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        assert!(matches!(read(&raw, true), Err(Error::Corrupt(_))), "{json}");
    }
}
