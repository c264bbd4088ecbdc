//! The server's replies.

use crate::call::{Call, header};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

/// A reply of the server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: u16,
    substatus: u32,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub fn new(status: u16, substatus: u32, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            substatus,
            code,
            message: message.into(),
        }
    }

    /// The request breaks a rule.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, 0, "BadRequest", message)
    }
}

impl From<Refusal> for Reply {
    /// A refusal in the form of the service.
    fn from(refusal: Refusal) -> Self {
        let body = json!({ "code": refusal.code, "message": refusal.message }).to_string();
        let mut reply = Self {
            status: refusal.status,
            headers: HeaderMap::new(),
            body: body.into(),
        };
        reply.set_header("content-type", "application/json");
        if refusal.substatus != 0 {
            reply.set_header(header::SUBSTATUS, &refusal.substatus.to_string());
        }
        reply.set_header(header::CHARGE, "0");
        reply
    }
}

impl Reply {
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn substatus(&self) -> u32 {
        let text = self.header(header::SUBSTATUS).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    /// Rows of a page.
    pub fn rows(&self) -> usize {
        let text = self.header(header::ITEM_COUNT).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Echoes the activity id, as the service does, so that a client can match its own traces.
    pub fn answering(mut self, call: &Call) -> Self {
        if let Some(activity) = call.headers.get(header::ACTIVITY) {
            self.headers
                .insert(HeaderName::from_static(header::ACTIVITY), activity.clone());
        }
        self
    }
}
