//! The latest requests.

use crate::faults::Fault;
use crate::{Container, Kind};
use std::fmt;

/// One request, as the log keeps it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number, from 0, since the server started.
    pub number: u64,
    /// The HTTP method.
    pub method: String,
    /// Its kind.
    pub kind: Kind,
    /// The container that it was about.
    pub container: Option<Container>,
    /// Its partition key, as the header gave it.
    pub partition: Option<String>,
    /// The document, or the path where there is none.
    pub id: String,
    /// The status of the reply; 0 for none.
    pub status: u16,
    /// The substatus of the reply.
    pub substatus: u32,
    /// Its estimated price.
    pub ru: f64,
    /// How long it took.
    pub ms: u64,
    /// The injected fault.
    pub fault: Option<Fault>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {:<6} {:<10}", self.number, self.method, self.kind)?;
        write!(
            f,
            " {:>3}/{:<4} {:>8.2} RU {:>5} ms",
            self.status, self.substatus, self.ru, self.ms
        )?;
        if let Some(container) = &self.container {
            write!(f, " {container}")?;
        }
        if let Some(partition) = &self.partition {
            write!(f, " {partition}")?;
        }
        write!(f, " {}", self.id)?;
        match &self.fault {
            Some(fault) => write!(f, " [{fault:?}]"),
            None => Ok(()),
        }
    }
}
