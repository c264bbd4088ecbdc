//! Numbers that would come back changed are refused.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::Options;
use serde_json::json;

const LARGEST: u64 = 1 << 53;

#[tokio::test]
async fn integers_are_exact_up_to_two_to_the_53() {
    let raw = Raw::start(Options::default()).await;
    let cases = [
        (json!(LARGEST), 201),
        (json!(-(LARGEST as i64)), 201),
        (json!(1e300), 201),
        (json!(0.1), 201),
        (json!((LARGEST + 1).to_string()), 201),
        (json!(LARGEST + 1), 400),
        (json!(-(LARGEST as i64) - 1), 400),
        (json!(u64::MAX), 400),
        (json!({ "deep": [1, { "down": i64::MIN }] }), 400),
    ];
    for (at, (value, status)) in cases.into_iter().enumerate() {
        let document = json!({ "id": at.to_string(), "pk": "p", "value": value });
        let answer = raw.create_doc(&document).send().await;
        assert_eq!(answer.status, status, "{document}");
        if status == 201 {
            let read = raw.read(&at.to_string()).send().await;
            assert_eq!(read.body["value"], document["value"]);
        }
    }
}

#[tokio::test]
async fn batches_and_parameters_have_numbers_too() {
    let raw = Raw::start(Options::default()).await;
    for (number, status) in [(LARGEST, 200), (LARGEST + 1, 400)] {
        let document = json!({ "id": "a", "pk": "p", "n": number });
        let operations = json!([{ "operationType": "Upsert", "resourceBody": document }]);
        assert_eq!(raw.batch(&operations).send().await.status, status);
        let parameters = json!([{ "name": "@n", "value": number }]);
        let query = json!({ "query": "SELECT * FROM c WHERE c.n = @n", "parameters": parameters });
        let ask = raw.post(DOCS, &query).header("x-ms-documentdb-isquery", "True");
        assert_eq!(ask.partition("p").send().await.status, status);
    }
}
