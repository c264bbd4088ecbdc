//! What goes wrong on purpose, does.

use crate::support::Raw;
use perennial_cosmos_server::{Container, Fault, Kind, Options, Rule, When};
use serde_json::json;
use std::time::{Duration, Instant};

async fn raw() -> Raw {
    Raw::start(Options::default()).await
}

fn one_create(id: &str) -> serde_json::Value {
    json!([{ "operationType": "Create", "resourceBody": { "id": id, "pk": "p" } }])
}

#[tokio::test]
async fn failures_have_the_status_of_the_service_and_take_no_effect() {
    let raw = raw().await;
    for (fault, status, substatus) in [
        (Fault::throttled(7), 429, 3200),
        (Fault::retry_with(), 449, 0),
        (Fault::timeout(false), 408, 0),
        (Fault::range_gone(), 410, 1002),
        (Fault::splitting(), 410, 1007),
        (Fault::internal(), 500, 0),
        (Fault::unavailable(), 503, 0),
    ] {
        raw.server.faults().add(Rule::new(fault, When::Always).times(1));
        let answer = raw.create("a").send().await;
        assert_eq!((answer.status, answer.substatus()), (status, substatus));
        let wait = answer.header("x-ms-retry-after-ms");
        assert_eq!(wait, (status == 429).then_some("7"));
    }
    assert_eq!(raw.read("a").send().await.status, 404);
}

#[tokio::test]
async fn batches_and_queries_fail_too() {
    let raw = raw().await;
    let rule = Rule::new(Fault::throttled(1), When::Always).on([Kind::Batch, Kind::Query]);
    raw.server.faults().add(rule);
    assert_eq!(raw.batch(&one_create("a")).send().await.status, 429);
    assert_eq!(raw.query_all("SELECT * FROM c").send().await.status, 429);
    assert_eq!(raw.read("a").send().await.status, 404);
    raw.server.faults().reset();
    assert_eq!(raw.batch(&one_create("a")).send().await.status, 200);
}

#[tokio::test]
async fn a_timeout_may_have_taken_effect() {
    let raw = raw().await;
    raw.server.faults().add(Rule::at(0, Fault::timeout(true)));
    assert_eq!(raw.create("a").send().await.status, 408);
    assert_eq!(raw.read("a").send().await.status, 200);
}

#[tokio::test]
async fn a_lost_reply_took_effect_and_a_lost_request_did_not() {
    for http2 in [false, true] {
        let mut raw = raw().await;
        if http2 {
            raw.http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
        }
        raw.server.faults().add(Rule::at(0, Fault::LostReply));
        raw.server.faults().add(Rule::at(2, Fault::LostRequest));
        assert!(raw.batch(&one_create("a")).try_send().await.is_err());
        assert_eq!(raw.read("a").send().await.status, 200);
        assert!(raw.create("b").try_send().await.is_err());
        assert_eq!(raw.read("b").send().await.status, 404);
        assert_eq!(raw.server.counts().answered(0), 2);
    }
}

#[tokio::test]
async fn a_lost_reply_breaks_no_other_request_of_the_connection() {
    let mut raw = raw().await;
    raw.http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    assert_eq!(raw.create("a").send().await.status, 201);
    raw.server.faults().reset();
    raw.server.faults().add(Rule::at(
        0,
        Fault::Delay {
            before_ms: 50,
            after_ms: 50,
        },
    ));
    raw.server.faults().add(Rule::at(1, Fault::LostReply));
    let slow = raw.read("a").send();
    let lost = async {
        while raw.server.faults().seen() == 0 {
            tokio::task::yield_now().await;
        }
        raw.create("b").try_send().await
    };
    let (slow, lost) = tokio::join!(slow, lost);
    assert_eq!(slow.status, 200);
    assert!(lost.is_err());
}

#[tokio::test]
async fn the_ith_document_request_is_met_and_metadata_does_not_count() {
    let raw = raw().await;
    raw.server.faults().add(Rule::at(1, Fault::unavailable()));
    assert_eq!(raw.create("a").send().await.status, 201);
    assert_eq!(raw.get("/dbs/db").send().await.status, 200);
    assert_eq!(raw.read("a").send().await.status, 503);
    assert_eq!(raw.read("a").send().await.status, 200);
    assert_eq!(raw.server.faults().seen(), 3);
    assert_eq!(raw.server.faults().hits(), 1);
    raw.server.faults().reset();
    assert_eq!(raw.server.faults().seen(), 0);
    raw.server.faults().add(Rule::at(0, Fault::unavailable()));
    assert_eq!(raw.read("a").send().await.status, 503);
}

#[tokio::test]
async fn metadata_fails_when_it_is_named() {
    let raw = raw().await;
    let rule = Rule::new(Fault::answer(429, 3210), When::Always).on([Kind::Metadata]);
    raw.server.faults().add(rule);
    assert_eq!(raw.get("/dbs/db").send().await.status, 429);
    assert_eq!(raw.create("a").send().await.status, 201);
}

#[tokio::test]
async fn tests_that_share_a_server_fail_alone() {
    let raw = raw().await;
    raw.create_container("other", json!({})).await;
    let mine = Container::new("db", "other");
    raw.server
        .faults()
        .add(Rule::at(0, Fault::unavailable()).within(mine.clone()));
    assert_eq!(raw.create("a").send().await.status, 201);
    let create = || {
        let document = json!({ "id": "a", "pk": "p" });
        raw.post("/dbs/db/colls/other/docs", &document).partition("p").send()
    };
    assert_eq!(create().await.status, 503);
    assert_eq!(create().await.status, 201);
    assert_eq!(raw.server.faults().seen_in(&mine), 2);
    assert_eq!(raw.server.faults().hits_in(&mine), 1);
    raw.server.faults().reset_in(&mine);
    assert_eq!(raw.server.faults().seen_in(&mine), 0);
    assert_eq!(raw.server.faults().seen(), 3);
}

#[tokio::test]
async fn chance_repeats_itself_with_its_seed() {
    let raw = raw().await;
    assert_eq!(raw.create("a").send().await.status, 201);
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        raw.server.faults().reset();
        let when = When::Chance {
            per_million: 300_000,
            seed,
        };
        raw.server.faults().add(Rule::new(Fault::unavailable(), when));
        let mut run = Vec::new();
        for _ in 0..60 {
            run.push(raw.read("a").send().await.status);
        }
        let failed = run.iter().filter(|status| **status == 503).count();
        assert!((5..35).contains(&failed), "{failed} of 60 at 30 %");
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn a_hanging_request_gets_no_reply_but_may_take_effect() {
    let raw = raw().await;
    let hang = |executed| Fault::Hang {
        executed,
        for_ms: 60_000,
    };
    raw.server.faults().add(Rule::at(0, hang(true)));
    raw.server.faults().add(Rule::at(1, hang(false)));
    for id in ["a", "b"] {
        let timeout = Duration::from_millis(300);
        let answer = tokio::time::timeout(timeout, raw.create(id).try_send()).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    assert_eq!(raw.read("a").send().await.status, 200);
    assert_eq!(raw.read("b").send().await.status, 404);
    assert_eq!(raw.server.counts().answered(0), 2);
    // A request still hangs; the server stops nevertheless.
    let stopped = Instant::now();
    raw.server.shutdown();
    assert!(stopped.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_delay_is_before_or_after_the_effect() {
    let raw = raw().await;
    let after = Fault::Delay {
        before_ms: 0,
        after_ms: 400,
    };
    raw.server.faults().add(Rule::at(0, after));
    let seen_early = async {
        loop {
            if raw.read("a").send().await.status == 200 {
                return Instant::now();
            }
        }
    };
    let create = async {
        assert_eq!(raw.create("a").send().await.status, 201);
        Instant::now()
    };
    let started = Instant::now();
    // The create goes first: it is the request that is met.
    let (answered, seen) = tokio::join!(create, async {
        while raw.server.faults().seen() == 0 {
            tokio::task::yield_now().await;
        }
        seen_early.await
    });
    assert!(answered - started >= Duration::from_millis(400));
    assert!(seen < answered);
}

#[tokio::test]
async fn thousands_of_lost_requests_wear_no_connection_out() {
    let mut raw = raw().await;
    raw.http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    raw.server
        .faults()
        .add(Rule::new(Fault::LostRequest, When::Always).times(2_500));
    for _ in 0..2_500 {
        assert!(raw.read("a").try_send().await.is_err());
    }
    assert_eq!(raw.read("a").send().await.status, 404);
    assert_eq!(raw.server.counts().answered(0), 2_500);
}
