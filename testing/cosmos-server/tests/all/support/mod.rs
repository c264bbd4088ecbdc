//! A client of raw HTTP, which signs as the documents say.

// Each test binary uses another part of it.
#![allow(dead_code)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use perennial_cosmos_server::{Container, Options, Server};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::SystemTime;

pub const DOCS: &str = "/dbs/db/colls/c/docs";

/// A reply.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn substatus(&self) -> u32 {
        self.header("x-ms-substatus").map_or(0, |text| text.parse().unwrap())
    }

    pub fn rows(&self) -> &Vec<Value> {
        self.body["Documents"].as_array().unwrap()
    }

    pub fn charge(&self) -> f64 {
        self.header("x-ms-request-charge").unwrap().parse().unwrap()
    }
}

/// A server with a database `db`, and a client of it.
pub struct Raw {
    pub server: Server,
    pub http: reqwest::Client,
}

/// A request under construction.
pub struct Ask<'a> {
    raw: &'a Raw,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Option<String>,
}

impl Raw {
    /// A server with a container `c`, partitioned by `/pk`.
    pub async fn start(options: Options) -> Self {
        Self::with_container(options, json!({})).await
    }

    /// The same, with more properties of the container.
    pub async fn with_container(options: Options, properties: Value) -> Self {
        let raw = Self::over(Server::start(options).await.unwrap());
        assert_eq!(raw.post("/dbs", &json!({ "id": "db" })).send().await.status, 201);
        raw.create_container("c", properties).await;
        raw
    }

    pub fn over(server: Server) -> Self {
        let http = reqwest::Client::builder().build().unwrap();
        Self { server, http }
    }

    pub async fn create_container(&self, id: &str, properties: Value) {
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let mut body = json!({ "id": id, "partitionKey": key });
        for (name, value) in properties.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = self.post("/dbs/db/colls", &body).send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub fn container() -> Container {
        Container::new("db", "c")
    }

    pub fn ask(&self, method: Method, path: &str) -> Ask<'_> {
        Ask {
            raw: self,
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: None,
        }
    }

    pub fn get(&self, path: &str) -> Ask<'_> {
        self.ask(Method::GET, path)
    }

    pub fn post(&self, path: &str, body: &Value) -> Ask<'_> {
        self.ask(Method::POST, path).body(&body.to_string())
    }

    pub fn create(&self, id: &str) -> Ask<'_> {
        self.create_doc(&json!({ "id": id, "pk": "p" }))
    }

    pub fn create_doc(&self, document: &Value) -> Ask<'_> {
        let key = document["pk"].as_str().unwrap().to_owned();
        self.post(DOCS, document).partition(&key)
    }

    pub fn replace(&self, document: &Value) -> Ask<'_> {
        let path = format!("{DOCS}/{}", document["id"].as_str().unwrap());
        let ask = self.ask(Method::PUT, &path).body(&document.to_string());
        ask.partition(document["pk"].as_str().unwrap())
    }

    pub fn read(&self, id: &str) -> Ask<'_> {
        self.get(&format!("{DOCS}/{id}")).partition("p")
    }

    pub fn delete(&self, id: &str) -> Ask<'_> {
        self.ask(Method::DELETE, &format!("{DOCS}/{id}")).partition("p")
    }

    pub fn batch(&self, operations: &Value) -> Ask<'_> {
        let ask = self.post(DOCS, operations).partition("p");
        ask.header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
    }

    pub fn query(&self, text: &str) -> Ask<'_> {
        self.post(DOCS, &json!({ "query": text, "parameters": [] }))
            .header("x-ms-documentdb-isquery", "True")
    }

    pub fn query_all(&self, text: &str) -> Ask<'_> {
        self.query(text)
            .header("x-ms-documentdb-query-enablecrosspartition", "True")
    }
}

impl Ask<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).unwrap();
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
        self
    }

    pub fn partition(self, key: &str) -> Self {
        self.header("x-ms-documentdb-partitionkey", &json!([key]).to_string())
    }

    pub fn body(mut self, body: &str) -> Self {
        self.body = Some(body.to_owned());
        self
    }

    pub async fn send(self) -> Answer {
        self.try_send().await.unwrap()
    }

    /// Signs, unless the request has a signature of its own.
    pub async fn try_send(mut self) -> reqwest::Result<Answer> {
        if !self.headers.contains_key("x-ms-date") {
            let date = httpdate::fmt_http_date(SystemTime::now());
            self = self.header("x-ms-date", &date);
        }
        if !self.headers.contains_key("authorization") {
            let date = self.headers["x-ms-date"].to_str().unwrap().to_owned();
            let token = sign(self.raw.server.key(), self.method.as_str(), &self.path, &date);
            self = self.header("authorization", &token);
        }
        let address = format!("{}{}", self.raw.server.endpoint().trim_end_matches('/'), self.path);
        let request = self.raw.http.request(self.method, address).headers(self.headers);
        let response = request.body(self.body.unwrap_or_default()).send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, headers, body })
    }
}

/// The authorization header of a request, by the book.
pub fn sign(key: &str, method: &str, path: &str, date: &str) -> String {
    let decoded = |part: &str| {
        percent_encoding::percent_decode_str(part)
            .decode_utf8()
            .unwrap()
            .into_owned()
    };
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let (kind, link) = match parts.len() {
        0 => ("", String::new()),
        count if count % 2 == 1 => (parts[count - 1].as_str(), parts[..count - 1].join("/")),
        count => (parts[count - 2].as_str(), parts.join("/")),
    };
    let text = format!("{}\n{kind}\n{link}\n{}\n\n", method.to_lowercase(), date.to_lowercase());
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key).unwrap()).unwrap();
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let token = format!("type=master&ver=1.0&sig={signature}");
    percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC).to_string()
}
