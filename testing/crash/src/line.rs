//! One line of the ledger.

use std::fmt;

/// An activity of one execution of an instance, by the event that scheduled it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Activity {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// The event that scheduled it.
    pub id: u64,
}

/// One attempt of a call of the client. A call that was not acknowledged before a kill is attempted again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The instance that the call is for.
    pub instance: String,
    /// Which of the calls for that instance.
    pub call: String,
    /// 1 for the first attempt.
    pub attempt: u32,
}

impl Attempt {
    /// The payload of the call, different in every attempt.
    pub fn payload(&self) -> String {
        format!("{}.{}", self.call, self.attempt)
    }
}

/// The events that one turn of a workflow added to its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// The first new event.
    pub first: u64,
    /// The last new event.
    pub last: u64,
    /// A digest of the new events.
    pub digest: u64,
}

/// One fact, written down in one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A process opened the store.
    Opened,
    /// An activity ran, once.
    Effect(Activity),
    /// The store acknowledged the result of an activity.
    Done(Activity),
    /// A process that opened the store found the activity completed in its history.
    Completed(Activity),
    /// The instance has ended, and all its completed activities are written down.
    Reported(String),
    /// The store acknowledged a turn.
    Turned(Turn),
    /// A call of the client began.
    Tried(Attempt),
    /// A call of the client was acknowledged.
    Acked(Attempt),
    /// The instance was seen to have ended.
    Finished(String),
}

/// Ends every line. A line without it was torn by a kill.
const END: &str = ";";

impl Line {
    /// Reads a line without its line break; `None` if it is torn.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix(END)?.split(' ');
        let kind = words.next()?;
        let line = match kind {
            "opened" => Self::Opened,
            "effect" => Self::Effect(activity(&mut words)?),
            "done" => Self::Done(activity(&mut words)?),
            "completed" => Self::Completed(activity(&mut words)?),
            "reported" => Self::Reported(words.next()?.to_owned()),
            "turned" => Self::Turned(Turn {
                instance: words.next()?.to_owned(),
                execution: number(&mut words)?,
                first: number(&mut words)?,
                last: number(&mut words)?,
                digest: number(&mut words)?,
            }),
            "tried" => Self::Tried(attempt(&mut words)?),
            "acked" => Self::Acked(attempt(&mut words)?),
            "finished" => Self::Finished(words.next()?.to_owned()),
            _ => return None,
        };
        words.next().is_none().then_some(line)
    }
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn activity<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Activity> {
    Some(Activity {
        instance: words.next()?.to_owned(),
        execution: number(words)?,
        id: number(words)?,
    })
}

fn attempt<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Attempt> {
    Some(Attempt {
        instance: words.next()?.to_owned(),
        call: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
    })
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.instance, self.execution, self.id)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.instance, self.call, self.attempt)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance,
            execution,
            first,
            last,
            digest,
        } = self;
        write!(f, "{instance} {execution} {first} {last} {digest}")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened => write!(f, "opened"),
            Self::Effect(activity) => write!(f, "effect {activity}"),
            Self::Done(activity) => write!(f, "done {activity}"),
            Self::Completed(activity) => write!(f, "completed {activity}"),
            Self::Reported(instance) => write!(f, "reported {instance}"),
            Self::Turned(turn) => write!(f, "turned {turn}"),
            Self::Tried(attempt) => write!(f, "tried {attempt}"),
            Self::Acked(attempt) => write!(f, "acked {attempt}"),
            Self::Finished(instance) => write!(f, "finished {instance}"),
        }?;
        f.write_str(END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_torn_line_is_noticed() {
        let instance = || "g1-fan::sub::2".to_owned();
        let activity = || Activity {
            instance: instance(),
            execution: 2,
            id: 7,
        };
        let attempt = || Attempt {
            instance: instance(),
            call: "send0".to_owned(),
            attempt: 3,
        };
        let turn = Turn {
            instance: instance(),
            execution: 1,
            first: 2,
            last: 5,
            digest: u64::MAX,
        };
        let lines = [
            Line::Opened,
            Line::Effect(activity()),
            Line::Done(activity()),
            Line::Completed(activity()),
            Line::Reported(instance()),
            Line::Turned(turn),
            Line::Tried(attempt()),
            Line::Acked(attempt()),
            Line::Finished(instance()),
        ];
        for line in lines {
            let text = line.to_string();
            assert_eq!(Line::parse(&text), Some(line));
            assert_eq!(Line::parse(&text[..text.len() - 1]), None);
        }
    }
}
