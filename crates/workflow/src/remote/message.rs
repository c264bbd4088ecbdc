//! What a client tells the owner of a store.

use bytes::Bytes;
use duroxide::providers::WorkItem;
use perennial_store::{Error, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const FORMAT: u32 = 1;

/// A message to an instance, on its way to the owner.
#[derive(Serialize, Deserialize)]
pub struct Message {
    format: u32,
    item: WorkItem,
    /// How long after its arrival it is to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

impl Message {
    pub fn new(item: WorkItem, delay: Option<Duration>) -> Self {
        Self {
            format: FORMAT,
            item,
            delay_ms: delay.map(crate::engine::millis),
        }
    }

    pub fn encode(&self) -> Result<Bytes> {
        let encoded = serde_json::to_vec(self).map(Bytes::from);
        encoded.map_err(|why| Error::Invalid(format!("a message cannot be encoded: {why}")))
    }

    /// Reads a message.
    pub fn decode(payload: &[u8]) -> Result<(WorkItem, Option<Duration>)> {
        let message: Self = serde_json::from_slice(payload)
            .map_err(|why| Error::Invalid(format!("a message of a client cannot be read: {why}")))?;
        if message.format != FORMAT {
            let why = format!(
                "a message of a client has format {}, this program reads format {FORMAT}",
                message.format
            );
            return Err(Error::Invalid(why));
        }
        Ok((message.item, message.delay_ms.map(Duration::from_millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_and_another_format_is_refused() {
        let item = WorkItem::CancelInstance {
            instance: "a\n\"b".to_owned(),
            reason: "😀".to_owned(),
        };
        for delay in [None, Some(Duration::from_secs(7))] {
            let payload = Message::new(item.clone(), delay).encode().unwrap();
            assert_eq!(Message::decode(&payload), Ok((item.clone(), delay)));
        }
        let later = Message {
            format: FORMAT + 1,
            ..Message::new(item, None)
        };
        assert!(matches!(
            Message::decode(&later.encode().unwrap()),
            Err(Error::Invalid(_))
        ));
        assert!(matches!(Message::decode(b"hello"), Err(Error::Invalid(_))));
    }
}
