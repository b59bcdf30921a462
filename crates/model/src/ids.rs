//! Identifiers, sequence numbers and time, each a type of its own so that they cannot be confused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A task's id, a UUID. Dialects may print it differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(#[serde(with = "hex_uuid")] pub Uuid);

/// One run of an agent on a task. Stable across attempts, so that an agent can recognise a repeat.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(#[serde(with = "hex_uuid")] pub Uuid);

macro_rules! uuid_id {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            /// Accepts only the hyphenated form: a UUID has several spellings, an id has one.
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                if text.len() != 36 {
                    return Err(Uuid::parse_str("").unwrap_err());
                }
                Uuid::try_parse(text).map(Self)
            }
        }
    };
}
uuid_id!(TaskId);
uuid_id!(TurnId);

mod hex_uuid {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;
    use uuid::Uuid;

    pub(super) fn serialize<S: Serializer>(id: &Uuid, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Uuid, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        Uuid::try_parse(&text).map_err(de::Error::custom)
    }
}

/// The conversation a task belongs to: any string, chosen by the caller or by the engine.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContextId(pub Arc<str>);

impl ContextId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl From<&str> for ContextId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}
impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The list a task appears in. The visibility of its mount fixes it when the task opens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct View(pub Arc<str>);

impl View {
    /// Every caller of the tenant sees the agent's tasks.
    pub fn tenant(tenant: &str, agent: &str) -> Self {
        Self(format!("t\u{1f}{tenant}\u{1f}{agent}").into())
    }
    /// Only the caller that opened the task sees it.
    pub fn owner(tenant: &str, owner: &str, agent: &str) -> Self {
        Self(format!("o\u{1f}{tenant}\u{1f}{owner}\u{1f}{agent}").into())
    }
    /// Every party of the task sees it, each through its own view.
    pub fn party(tenant: &str, party: &str, agent: &str) -> Self {
        Self(format!("p\u{1f}{tenant}\u{1f}{party}\u{1f}{agent}").into())
    }
    /// Callers bound to the system see its tasks.
    pub fn system(tenant: &str, system: &str) -> Self {
        Self(format!("s\u{1f}{tenant}\u{1f}{system}").into())
    }
    /// The tasks opened by a task's turns.
    pub fn child(parent: TaskId) -> Self {
        Self(format!("c\u{1f}{parent}").into())
    }
    /// The task whose children this view lists, if it is such a view.
    pub fn parent(&self) -> Option<TaskId> {
        self.0.strip_prefix("c\u{1f}").and_then(|parent| parent.parse().ok())
    }
}

/// The position of an event in its task's log. The first event is 1; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub const ZERO: Seq = Seq(0);
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
    pub fn plus(self, n: usize) -> Seq {
        Seq(self.0 + n as u64)
    }
}
impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The epoch of a turn's holder: a later holder has a higher epoch, and the store refuses turn events of an earlier
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    pub fn plus_ms(self, ms: u64) -> Time {
        Time(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Parses RFC 3339 with any offset. A time between two milliseconds is rounded up, so that "at or after" never
    /// includes an earlier time.
    pub fn parse(text: &str) -> Option<Time> {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        let floor = stamp.as_millisecond();
        let exact = jiff::Timestamp::from_millisecond(floor).ok()?;
        Some(Time(if exact < stamp { floor + 1 } else { floor }))
    }
}

/// `2026-05-01T10:00:00.000Z`: always UTC with three digits, the form that strict readers accept.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000);
        let ms = self.0.rem_euclid(86_400_000);
        // Days to a civil date (proleptic Gregorian, era of 400 years beginning on 1 March 0000).
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        let (h, m, s, milli) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
        if !(0..=9_999).contains(&year) {
            return write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{milli:03}Z");
        }
        // Written digit by digit, because answers contain many of these.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (last, digits, mut number) in
            [(3, 4, year), (6, 2, month), (9, 2, day), (12, 2, h), (15, 2, m), (18, 2, s), (22, 3, milli)]
        {
            for place in 0..digits {
                text[last - place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of one event for resuming a stream: `<task>.<seq>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    pub task: TaskId,
    pub seq: Seq,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.seq)
    }
}
impl FromStr for EventId {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (task, seq) = text.rsplit_once('.').ok_or(())?;
        if seq.is_empty() || !seq.bytes().all(|b| b.is_ascii_digit()) {
            return Err(());
        }
        Ok(EventId { task: task.parse().map_err(|_| ())?, seq: Seq(seq.parse().map_err(|_| ())?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_prints_like_rfc_3339_with_milliseconds() {
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(1_767_225_599_999).to_string(), "2025-12-31T23:59:59.999Z");
        assert_eq!(Time(1_709_164_800_120).to_string(), "2024-02-29T00:00:00.120Z");
        assert_eq!(Time(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    proptest::proptest! {
        #[test]
        fn a_printed_time_reads_back(ms in -62_135_596_800_000_i64..253_402_300_799_000) {
            proptest::prop_assert_eq!(Time::parse(&Time(ms).to_string()), Some(Time(ms)));
        }
    }

    #[test]
    fn a_time_between_milliseconds_counts_as_the_later() {
        assert_eq!(Time::parse("1970-01-01T00:00:00.0005Z"), Some(Time(1)));
        assert_eq!(Time::parse("1970-01-01T01:00:00+01:00"), Some(Time(0)));
        assert_eq!(Time::parse("yesterday"), None);
    }

    #[test]
    fn an_event_id_has_one_spelling() {
        let id = "0190f3c4-1111-7222-8333-444455556666.17";
        assert_eq!(id.parse::<EventId>().unwrap().to_string(), id);
        for bad in [
            "",
            "17",
            "x.17",
            "0190f3c4-1111-7222-8333-444455556666.",
            "0190f3c4-1111-7222-8333-444455556666.+7",
            "0190f3c41111722283334444555566 66.1",
        ] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }
}
