//! What an object of a message holds: a line of JSON that says which engine it is for, then the payload as it is.

use super::names::Incarnation;
use bytes::Bytes;
use object_store::PutPayload;
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
/// The longest first line: what has none within this is no message.
pub(crate) const LONGEST_LINE: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    engine: String,
    /// The incarnation that the client used before, where this is the first message of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<(String, u64)>,
}

/// An incarnation and a number of one of its messages.
pub(crate) type Position = (Incarnation, u64);

/// A message that is to be stored.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    line: Bytes,
    payload: Bytes,
}

impl Object {
    /// The object of a message, which must be applied after the message `after` if there is one.
    pub(crate) fn new(engine: &str, payload: Bytes, after: Option<Position>) -> Result<Self, String> {
        let header = Header {
            format: FORMAT,
            engine: engine.to_owned(),
            after: after.map(|(incarnation, number)| (incarnation.to_string(), number)),
        };
        let mut line = serde_json::to_vec(&header).map_err(|why| why.to_string())?;
        line.push(b'\n');
        if line.len() > LONGEST_LINE {
            return Err("the name of the engine is too long".to_owned());
        }
        let line = line.into();
        Ok(Self { line, payload })
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.payload.len()
    }

    /// Whether this is what is stored.
    pub(crate) fn is_stored_as(&self, stored: &[u8]) -> bool {
        stored.strip_prefix(&*self.line) == Some(&self.payload)
    }

    /// Its content.
    pub(crate) fn content(&self) -> PutPayload {
        [self.line.clone(), self.payload.clone()].into_iter().collect()
    }
}

/// A message as it was stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) engine: String,
    pub(crate) after: Option<Position>,
    pub(crate) payload: Bytes,
}

impl Envelope {
    /// Reads the object of a message, or says why it cannot.
    pub(crate) fn decode(object: &Bytes) -> Result<Self, String> {
        let mut start = object.iter().take(LONGEST_LINE);
        let end = start.position(|byte| *byte == b'\n').ok_or("it has no first line")?;
        let header: Header = serde_json::from_slice(&object.slice(..end))
            .map_err(|why| format!("its first line is no header: {why}"))?;
        if header.format != FORMAT {
            let format = header.format;
            return Err(format!("it has format {format}, this program reads format {FORMAT}"));
        }
        let after = header
            .after
            .map(|(incarnation, number)| incarnation.parse().map(|incarnation| (incarnation, number)));
        Ok(Self {
            engine: header.engine,
            after: after.transpose().map_err(|()| "it names no incarnation before it")?,
            payload: object.slice(end + 1..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_payload_comes_back_as_it_was() {
        let before = Some((Incarnation::new(1, 2), 3));
        for payload in [&b""[..], b"\n", b"\n\n{}", &[0, 0xFF, b'\n']] {
            for after in [None, before] {
                let payload = Bytes::copy_from_slice(payload);
                let object = Object::new("workflow", payload.clone(), after).unwrap();
                let content: Bytes = object.content().into();
                assert!(content.len() == object.len() && object.is_stored_as(&content));
                assert!(!object.is_stored_as(&content[1..]));
                let engine = "workflow".to_owned();
                let expected = Envelope { engine, after, payload };
                assert_eq!(Envelope::decode(&content), Ok(expected));
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let later = b"{\"format\":2,\"engine\":\"workflow\"}\n";
        let nobody = b"{\"format\":1,\"engine\":\"workflow\",\"after\":[\"x\",1]}\n";
        for object in [&b""[..], b"hello", b"hello\n", b"{}\n", &[b'x'; 5000], later, nobody] {
            assert!(Envelope::decode(&Bytes::copy_from_slice(object)).is_err());
        }
        assert!(Object::new(&"x".repeat(5000), Bytes::new(), None).is_err());
    }
}
