//! Incarnations of clients, and the names of the objects of an inbox.

use crate::{Bucket, Shard};
use object_store::path::Path;
use std::fmt;
use std::str::FromStr;

/// The digits of a start time in milliseconds, until the year 2286.
const START_DIGITS: usize = 13;
const LATEST_START_MS: u64 = 9_999_999_999_999;
const ID_DIGITS: usize = 32;
const NUMBER_DIGITS: usize = 20;

/// Where the objects of a shard's inbox are.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) inbox: Path,
    pub(crate) bell: Path,
    pub(crate) quarantine: Path,
}

impl Places {
    pub(crate) fn of(bucket: &Bucket, shard: Shard) -> Self {
        Self {
            inbox: bucket.inbox(shard),
            bell: bucket.bell(shard),
            quarantine: bucket.quarantine(shard),
        }
    }
}

/// One run of a client: everything that it sends under one id. Ordered by the time at which it began.
///
/// ```text
/// 1764547200000-9f86d081884c7d659a2feaa0c55ad015
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Incarnation {
    start_ms: u64,
    id: u128,
}

impl Incarnation {
    /// An incarnation that begins now.
    pub(crate) fn new(start_ms: u64, id: u128) -> Self {
        let start_ms = start_ms.min(LATEST_START_MS);
        Self { start_ms, id }
    }

    /// When it began, by the client's clock, in milliseconds since the Unix epoch.
    pub(crate) fn start_ms(self) -> u64 {
        self.start_ms
    }

    /// The object of one of its messages.
    pub(crate) fn message(self, inbox: &Path, number: u64) -> Path {
        let folder = inbox.clone().join(self.to_string());
        folder.join(format!("{number:0NUMBER_DIGITS$}"))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0START_DIGITS$}-{:0ID_DIGITS$x}", self.start_ms, self.id)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Incarnation {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let (start, id) = name.split_once('-').ok_or(())?;
        let is_decimal = start.len() == START_DIGITS && start.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = id.len() == ID_DIGITS && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_decimal || !is_hex {
            return Err(());
        }
        let start_ms = start.parse().map_err(drop)?;
        let id = u128::from_str_radix(id, 16).map_err(drop)?;
        Ok(Self { start_ms, id })
    }
}

/// The number in the name of a message.
fn number(name: &str) -> Option<u64> {
    let is_number = name.len() == NUMBER_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| name.parse().ok())
        .flatten()
        .filter(|number| *number > 0)
}

/// The incarnation and the number of a message, if the object has the name of one.
pub(crate) fn parse(inbox: &Path, object: &Path) -> Option<(Incarnation, u64)> {
    let mut parts = object.prefix_match(inbox)?;
    let (folder, name) = (parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some((folder.as_ref().parse().ok()?, number(name.as_ref())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_as_it_was_and_sorts_by_its_start() {
        let inbox = Path::from("a/0/inbox");
        let (one, other) = (Incarnation::new(7, u128::MAX), Incarnation::new(1_764_547_200_000, 3));
        for incarnation in [one, other, Incarnation::new(u64::MAX, 0)] {
            for number in [1, 10, u64::MAX] {
                let object = incarnation.message(&inbox, number);
                assert_eq!(parse(&inbox, &object), Some((incarnation, number)), "{object}");
            }
        }
        assert!(one < other && one.to_string() < other.to_string());
        assert_eq!(
            other.message(&inbox, 12).as_ref(),
            "a/0/inbox/1764547200000-00000000000000000000000000000003/00000000000000000012"
        );
    }

    #[test]
    fn other_names_are_refused() {
        let inbox = Path::from("inbox");
        let id = "1764547200000-9f86d081884c7d659a2feaa0c55ad015";
        let number = "00000000000000000001";
        for name in [
            String::new(),
            id.to_owned(),
            format!("{id}/1"),
            format!("{id}/00000000000000000000"),
            format!("{id}/0000000000000000000x"),
            format!("{id}/99999999999999999999"),
            format!("{id}/{number}/{number}"),
            format!("{}/{number}", id.to_uppercase()),
            format!("+{}/{number}", &id[1..]),
            format!("{}/{number}", &id[1..]),
        ] {
            assert_eq!(parse(&inbox, &Path::from(format!("inbox/{name}"))), None, "{name}");
        }
        assert_eq!(parse(&inbox, &Path::from(format!("other/{id}/{number}"))), None);
    }
}
