//! The bodies sent to webhooks: canonical cases × every form of every dialect, as goldens and read back.

#![allow(clippy::unwrap_used)]

mod cases;

use std::fmt::Write as _;
use std::sync::Arc;

use cases::*;
use dialects::seen::Seen;
use dialects::wire::Head;
use dialects::{JsonWire, WIRES, a2a_v0, a2a_v0_1, a2a_v0_3, a2a_v1};
use model::ports::webhook::{WebhookBody, WebhookDetail};
use model::{Body, Opened, State, Task};

fn body(wire: &dyn JsonWire, news: &WebhookBody, alias: Option<&str>) -> Option<String> {
    let here = context();
    let head = Head::new(task_id(), alias, &here);
    let mut told = false;
    let encoded = encoded(|w| told = wire.push_body(w, &head, news));
    assert_eq!(told, encoded.wire_len() > 0);
    told.then(|| shown(&encoded))
}

fn task_news(task: Task) -> WebhookBody {
    WebhookBody::Task(Arc::new(task))
}

#[test]
fn every_body_in_every_form() {
    for wire in WIRES {
        let mut lines = format!("{:?}\n", wire.facts().telling);
        let mut line = |case: &str, json: Option<String>| {
            writeln!(lines, "# {case}\n{}", json.as_deref().unwrap_or("(nothing)")).unwrap();
        };
        for state in State::ALL {
            line(&format!("task {state:?}"), body(*wire, &task_news(bare_task(state)), None));
        }
        line("full task", body(*wire, &task_news(full_task()), None));
        line("under the caller's own id", body(*wire, &task_news(full_task()), Some("my \"own\" id")));
        line("a text that came in chunks", body(*wire, &task_news(chunked_task()), None));
        for (name, part) in blob_parts() {
            let mut task = bare_task(State::Completed);
            task.artifacts = vec![artifact("a-1", vec![part]).into()];
            line(name, body(*wire, &task_news(task), None));
        }
        for (name, event) in events() {
            line(&name, body(*wire, &WebhookBody::Event(Arc::new(event)), None));
        }
        insta::assert_snapshot!(format!("webhooks_{}", wire.name()), lines);
    }
}

#[test]
fn a_form_over_json_writes_its_own_webhooks() {
    for wire in WIRES {
        let codec = dialects::wire(wire.name()).unwrap();
        assert_eq!(codec.webhook_wire().name(), wire.name());
    }
    assert!(dialects::wire("a2a_v9").is_none());
}

#[test]
fn a_body_reads_back_as_what_its_reader_expects() {
    for wire in WIRES {
        let text = body(*wire, &task_news(full_task()), None).unwrap();
        let (id, state) = match wire.name() {
            // One of a stream's responses.
            "a2a_v1" => match a2a_v1::read::stream_event(&text).unwrap() {
                Seen::Task(task) => (task.id, task.status.state),
                other => panic!("{other:?}"),
            },
            // The bare task.
            "a2a_v0_3" => a2a_v0_3::read::task(&text).map(|task| (task.id, task.status.state)).unwrap(),
            "a2a_v0_3_rest" => a2a_v0_3::read::rest_task(&text).map(|task| (task.id, task.status.state)).unwrap(),
            "a2a_v0_1" => a2a_v0_1::read::task(&text).map(|task| (task.id, task.status.state)).unwrap(),
            "a2a_v0" => a2a_v0::read_task(&text).map(|task| (task.id, task.status.state)).unwrap(),
            other => panic!("no reader of {other}"),
        };
        assert_eq!((id, state), (task_id().to_string(), Some(State::InputRequired)), "{}", wire.name());
    }
}

#[test]
fn only_readers_of_events_are_told_of_one() {
    let opened: Opened = serde_json::from_str(
        r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"ctx-1","g":"echo","t":"t","o":"o","v":[],"d":"a2a_v1"}"#,
    )
    .unwrap();
    for wire in WIRES {
        let events = wire.facts().telling == WebhookDetail::Events;
        assert_eq!(events, wire.name() == "a2a_v1");
        for (name, event) in events_told() {
            assert_eq!(body(*wire, &WebhookBody::Event(Arc::new(event)), None).is_some(), events, "{name}");
        }
        // Internal events are not sent.
        assert_eq!(
            body(*wire, &WebhookBody::Event(Arc::new(event(Body::Opened(Box::new(opened.clone()))))), None),
            None
        );
    }
}

fn events_told() -> Vec<(String, model::Event)> {
    events().into_iter().filter(|(_, event)| event.body.is_public()).collect()
}
