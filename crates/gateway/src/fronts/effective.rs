//! The call that a request makes after its headers are applied. Only this conversion acts on `Last-Event-ID`; over gRPC the
//! header may count messages, and `grpc::feed` puts the event's own id there first.
//!
//! A streaming send with `Last-Event-ID` sends nothing: it reads the log of a task from an event on. It is therefore a
//! subscription to that task, and [`EffectiveCall`] makes it one before anything is checked. Credentials, policy,
//! visibility, limits and metrics of every front take an `EffectiveCall`, never the decoded call, so that none of them
//! can mistake a resumed stream for a message.

use std::sync::Arc;

use dialects::wire::{Decoded, TaskView};
use http::HeaderMap;
use model::{Call, EventId, Fault, Subscribe};

pub struct EffectiveCall {
    pub call: Call,
    /// The tenant that the request names.
    pub(super) tenant: Option<String>,
    pub(super) start: StreamStart,
}

/// Where a stream begins.
pub enum StreamStart {
    /// With the task that the call makes or finds.
    Now,
    /// After an event of the task that the call names.
    Event(EventId),
    /// After an event, as the stream of the send that the request repeats: it shows the task as that send asked for it.
    SentEvent { event: EventId, view: TaskView, alias: Option<Arc<str>> },
}

impl EffectiveCall {
    /// # Errors
    /// A `Last-Event-ID` of a streaming call that is no event id of this server.
    pub fn of(decoded: Decoded, headers: &HeaderMap) -> Result<EffectiveCall, Fault> {
        let Decoded { call, tenant } = decoded;
        let (call, start) = match call {
            Call::Stream(send) => match last_event_id(headers)? {
                None => (Call::Stream(send), StreamStart::Now),
                Some(event) => {
                    let view = TaskView::with_history(send.history);
                    let alias = send.alias.as_deref().map(Arc::from);
                    let subscribe = Call::Subscribe(Subscribe { task: event.task.to_string() });
                    (subscribe, StreamStart::SentEvent { event, view, alias })
                }
            },
            Call::Subscribe(subscribe) => {
                let start = last_event_id(headers)?.map_or(StreamStart::Now, StreamStart::Event);
                (Call::Subscribe(subscribe), start)
            }
            call @ (Call::Send(_)
            | Call::Get(_)
            | Call::List(_)
            | Call::Cancel(_)
            | Call::Push(_)
            | Call::ExtendedCard) => (call, StreamStart::Now),
        };
        Ok(EffectiveCall { call, tenant, start })
    }

    /// A call that no header changes, in the tenant that the request names.
    pub(super) fn plain_in(call: Call, tenant: Option<String>) -> EffectiveCall {
        EffectiveCall { tenant, ..EffectiveCall::plain(call) }
    }

    /// A call that no header changes, because it neither sends nor streams.
    pub(super) fn plain(call: Call) -> EffectiveCall {
        EffectiveCall { call, tenant: None, start: StreamStart::Now }
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Fault> {
    let Some(id) = web::headers::last_event_id(headers) else { return Ok(None) };
    let unreadable = "Last-Event-ID is not an id of this server's streams: <task>.<number>";
    id.ok().and_then(|id| id.parse().ok()).map(Some).ok_or_else(|| Fault::params("Last-Event-ID", unreadable))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use model::{Cancel, Get, Kind, Message, Part, Send};

    use super::*;

    const EVENT: &str = "0190a0b0-0000-7000-8000-000000000001.3";

    fn of(call: Call, header: Option<&[u8]>) -> Result<EffectiveCall, Fault> {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert("last-event-id", HeaderValue::from_bytes(value).unwrap());
        }
        EffectiveCall::of(Decoded { call, tenant: None }, &headers)
    }

    fn send() -> Box<Send> {
        let message = Message {
            id: "m".into(),
            role: model::Role::User,
            parts: vec![Part::text("hello")],
            metadata: None,
            extensions: Vec::new(),
            references: Vec::new(),
        };
        Box::new(Send::new(message))
    }

    #[test]
    fn a_streaming_send_that_names_an_event_is_a_subscription_to_its_task() {
        let resumed = of(Call::Stream(send()), Some(EVENT.as_bytes())).unwrap();
        assert!(matches!(&resumed.call, Call::Subscribe(Subscribe { task }) if EVENT.starts_with(task.as_str())));
        assert!(matches!(resumed.start, StreamStart::SentEvent { event, .. } if event.to_string() == EVENT));
        for empty in [None, Some(&b""[..]), Some(&b"  "[..])] {
            let fresh = of(Call::Stream(send()), empty).unwrap();
            assert!(matches!((fresh.call, fresh.start), (Call::Stream(_), StreamStart::Now)));
        }
    }

    #[test]
    fn no_other_call_is_changed_by_an_event_id() {
        let task = || "t".to_owned();
        let subscribe = of(Call::Subscribe(Subscribe { task: task() }), Some(EVENT.as_bytes())).unwrap();
        assert!(matches!(&subscribe.call, Call::Subscribe(Subscribe { task }) if task == "t"));
        assert!(matches!(subscribe.start, StreamStart::Event(_)));
        let calls = [
            Call::Send(send()),
            Call::Get(Get { task: task(), history: None }),
            Call::Cancel(Cancel { task: task(), metadata: None }),
            Call::ExtendedCard,
        ];
        for call in calls {
            let name = call.name();
            let same = of(call, Some(EVENT.as_bytes())).unwrap();
            assert_eq!(same.call.name(), name);
            assert!(matches!(same.start, StreamStart::Now), "{name}");
        }
    }

    #[test]
    fn an_unreadable_event_id_is_refused_for_streams_alone() {
        for bad in [&b"x"[..], b"0190a0b0.1", b"\xff", b"0190a0b0-0000-7000-8000-000000000001."] {
            for call in [Call::Stream(send()), Call::Subscribe(Subscribe { task: "t".to_owned() })] {
                assert_eq!(of(call, Some(bad)).err().map(|fault| fault.kind), Some(Kind::InvalidParams), "{bad:?}");
            }
            assert!(of(Call::Send(send()), Some(bad)).is_ok());
        }
    }
}
