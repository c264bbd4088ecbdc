//! The bell: an object that changes when there are new messages.

use super::names::Incarnation;
use bytes::Bytes;
use std::fmt;
use std::str::FromStr;

/// What a client writes: never the same twice, because no incarnation rings twice with the same count.
///
/// An S3 tag is a hash of the content, so that a second ring with the same content would be no change at all. The ring also tells which
/// message the client has created last, so that the owner finds it even if a listing lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) incarnation: Incarnation,
    /// The last message that exists.
    pub(crate) number: u64,
    /// How often the client has rung.
    pub(crate) count: u64,
}

impl Ring {
    pub(crate) fn encode(&self) -> Bytes {
        Bytes::from(self.to_string())
    }

    /// Reads the content of a bell. Whatever else is there is still a change.
    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        std::str::from_utf8(content).ok()?.parse().ok()
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.incarnation, self.number, self.count)
    }
}

impl FromStr for Ring {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(());
        let incarnation = next()?.parse()?;
        let number = next()?.parse().map_err(drop)?;
        let count = next()?.parse().map_err(drop)?;
        Ok(Self {
            incarnation,
            number,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_comes_back_as_it_was_and_anything_else_is_none() {
        let ring = Ring {
            incarnation: Incarnation::new(12, 34),
            number: 5,
            count: 6,
        };
        assert_eq!(Ring::decode(&ring.encode()), Some(ring));
        for content in ["", "x", "1 2 3", &format!("{} x 1", ring.incarnation)] {
            assert_eq!(Ring::decode(content.as_bytes()), None, "{content:?}");
        }
    }
}
