//! The client's direction over gRPC: requests are understood by the server's decoder, answers of the server's encoder come
//! back, and statuses become kinds.
//!
//! A request loses, besides facts that travel in metadata of its own (the sender's choice of an id, the key, the trace): in
//! 0.3 a request for no history asks for one message, and a cancel has no metadata.

#![allow(clippy::unwrap_used)]

mod arbitrary;
mod cases;

use arbitrary::{message, object};
use cases::*;
use dialects::card::{CardAuth, CardFacts, Interface, InterfaceBinding, Provider};
use dialects::peer::{Generation, RequestOptions};
use dialects::proto_peer::{ProtoRequest, refusal};
use dialects::protobuf::{ProtoWriter, RpcCode};
use dialects::seen::{Seen, TaskSeen};
use dialects::wire::{Head, Operation, Page, TaskView};
use dialects::{PROTO_PEERS, PROTO_WIRES, ProtoPeer, ProtoWire};
use model::ports::agent::Extension;
use model::{
    Call, Cancel, Content, ContextId, Get, Json, Kind, Limits, List, Message, Part, PushCall, PushConfig, Role, Send,
    State, Subscribe, Task, Time, Wait,
};
use proptest::prelude::*;
use serde_json::json;

/// Each peer with the wire that understands it.
fn pairs() -> impl Iterator<Item = (&'static ProtoPeer, &'static dyn ProtoWire)> {
    PROTO_PEERS.iter().copied().zip(PROTO_WIRES.iter().copied())
}

fn is_v1(peer: &ProtoPeer) -> bool {
    peer.facts().generation == Generation::V1_0
}

fn written(write: impl FnOnce(&mut ProtoWriter<'_>)) -> Vec<u8> {
    let mut w = ProtoWriter::default();
    write(&mut w);
    w.finish()
}

/// A call as the generation's server hears it.
fn as_heard(peer: &ProtoPeer, call: &Call) -> Call {
    let mut call = call.clone();
    let least = |history: &mut Option<u32>| {
        if !is_v1(peer) && *history == Some(0) {
            *history = Some(1);
        }
    };
    match &mut call {
        Call::Send(send) | Call::Stream(send) => {
            least(&mut send.history);
            send.alias = None;
            if let Some(push) = &mut send.push {
                push.task = None;
            }
        }
        Call::Get(get) => least(&mut get.history),
        Call::Cancel(cancel) if !is_v1(peer) => cancel.metadata = None,
        Call::Push(_) | Call::List(_) | Call::Cancel(_) | Call::Subscribe(_) | Call::ExtendedCard => {}
    }
    call
}

/// Metadata and data as protobuf keeps them: no repeats of a member, one spelling of a number, and in 0.3 no empty
/// metadata beside a mark.
fn settled(mut call: Call) -> Call {
    fn one(json: &mut Json) {
        *json = Json::from_value(&as_doubles(json.to_value()));
    }
    fn members(metadata: &mut Option<Json>) {
        *metadata = metadata.take().filter(|json| json.to_value() != json!({}));
        metadata.iter_mut().for_each(one);
    }
    match &mut call {
        Call::Send(send) | Call::Stream(send) => {
            members(&mut send.message.metadata);
            members(&mut send.metadata);
            for part in &mut send.message.parts {
                members(&mut part.metadata);
                if let Content::Data(data) = &mut part.content {
                    one(data);
                }
            }
        }
        Call::Cancel(cancel) => members(&mut cancel.metadata),
        Call::Get(_) | Call::List(_) | Call::Subscribe(_) | Call::Push(_) | Call::ExtendedCard => {}
    }
    call
}

fn as_doubles(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.into_iter().map(as_doubles).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, as_doubles(value))).collect(),
        other => other,
    }
}

fn assert_understood(call: &Call) {
    let extensions = ["https://e.example/1".to_owned(), "https://e.example/2".to_owned()];
    for (peer, wire) in pairs() {
        for tenant in [None, Some("acme é/x").filter(|_| is_v1(peer))] {
            let asking = RequestOptions { tenant, extensions: &extensions, id: 0 };
            let asked = peer.ask(call, &asking);
            if !is_v1(peer) && matches!(call, Call::List(_)) {
                assert_eq!(asked.unwrap_err().kind, Kind::Unsupported);
                continue;
            }
            let ProtoRequest { operation, path, message, headers } = asked.unwrap();
            let method = path.strip_prefix(&format!("/{}/", wire.service())).unwrap();
            assert_eq!(wire.operation(method), Some(operation), "{path}");
            assert_eq!(operation, Operation::from(call));
            let got = wire.decode(operation, &message, &Limits::default()).unwrap();
            assert_eq!(got.tenant.as_deref(), tenant);
            assert_eq!(settled(got.call), settled(as_heard(peer, call)), "{path}");
            let header = |wanted: &str| headers.iter().any(|(name, value)| *name == "A2A-Version" && value == wanted);
            assert!(header(if is_v1(peer) { "1.0" } else { "0.3" }), "{headers:?}");
            assert!(headers.iter().any(|(name, uris)| *name == "A2A-Extensions" && uris.contains("/1, https")));
        }
    }
}

fn send(message: Message) -> Send {
    Send { alias: Some("mine".into()), ..Send::new(message) }
}

fn push() -> PushConfig {
    PushConfig {
        task: Some("t 1".into()),
        id: Some("c".into()),
        url: "https://h.example/p?q=1".into(),
        token: Some("t".into()),
        scheme: Some("Bearer".into()),
        credentials: Some("s".into()),
    }
}

#[test]
fn our_server_understands_what_our_client_asks_over_grpc() {
    let said = |text: &str| message_of("m1", vec![Part::text(text)]);
    let rich = Send {
        context: Some("ctx".into()),
        task: Some("t:1".into()),
        alias: None,
        wait: Wait::Exists,
        history: Some(3),
        accepted_output: vec!["text/plain".into(), "image/*".into()],
        metadata: Some(cases::json(r#"{"k":[1]}"#)),
        push: Some(push()),
        ..send(said("rich"))
    };
    for call in [
        Call::Send(Box::new(send(said("plain")))),
        Call::Stream(Box::new(send(said("streamed")))),
        Call::Send(Box::new(rich.clone())),
        Call::Stream(Box::new(Send { history: Some(0), ..rich })),
        Call::Get(Get { task: "a b:ü".into(), history: None }),
        Call::Get(Get { task: "t".into(), history: Some(0) }),
        Call::Get(Get { task: "t".into(), history: Some(2) }),
        Call::List(List::default()),
        Call::List(List {
            context: Some("c&d=e".into()),
            state: Some(State::InputRequired),
            since: Some(Time(1_777_629_600_120)),
            page_size: Some(10),
            page_token: Some("p+q/=".into()),
            history: Some(0),
            artifacts: true,
        }),
        Call::Cancel(Cancel { task: "t:1".into(), metadata: None }),
        Call::Cancel(Cancel { task: "t".into(), metadata: Some(cases::json(r#"{"why":"late"}"#)) }),
        Call::Subscribe(Subscribe { task: "100%".into() }),
        Call::Push(PushCall::Create(push())),
        Call::Push(PushCall::Create(PushConfig { id: None, token: None, scheme: None, credentials: None, ..push() })),
        Call::Push(PushCall::Get { task: "t".into(), id: "c".into() }),
        Call::Push(PushCall::List { task: "t".into(), page_size: None, page_token: None }),
        Call::Push(PushCall::List { task: "t".into(), page_size: Some(5), page_token: Some("n".into()) }),
        Call::Push(PushCall::Delete { task: "t".into(), id: "c d".into() }),
        Call::ExtendedCard,
    ] {
        assert_understood(&call);
    }
}

fn message_of(id: &str, parts: Vec<Part>) -> Message {
    cases::message(id, Role::User, parts)
}

/// An empty URL is no content of 0.3, and bytes that look like base64 once more would be taken for a Python SDK's where
/// the media type cannot be text.
fn speakable() -> impl Strategy<Value = Message> {
    message().prop_map(|mut message| {
        for part in &mut message.parts {
            part.media_type = part.media_type.take().map(|media| format!("text/{}", media.replace('/', ".")));
        }
        message
    })
}

proptest! {
    #[test]
    fn whatever_is_sent_arrives(
        message in speakable(),
        (task, context) in (prop::option::of("\\PC{1,20}"), prop::option::of("\\PC{1,20}")),
        (history, metadata, stream, at_once) in (prop::option::of(0_u32..9), prop::option::of(object()), any::<bool>(), any::<bool>()),
    ) {
        let send = Box::new(Send {
            task,
            context: context.map(|text| ContextId(text.into())),
            history,
            metadata,
            wait: if at_once { Wait::Exists } else { Wait::Rest { max_ms: None } },
            ..send(message)
        });
        assert_understood(&if stream { Call::Stream(send) } else { Call::Send(send) });
    }

    #[test]
    fn any_bytes_are_an_answer_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for peer in PROTO_PEERS {
            let _ = peer.read_sent(&bytes);
            let _ = peer.read_event(&bytes);
            let _ = peer.read_task(&bytes);
            let _ = peer.page(&bytes);
            let _ = peer.push_config(&bytes);
            let _ = peer.push_configs(&bytes);
            let _ = peer.card(&bytes);
        }
    }
}

/// Compares everything of a task that must come back.
fn assert_same(seen: &TaskSeen, task: &Task, name: &str) {
    assert_eq!(seen.id, task.id.to_string(), "{name}");
    assert_eq!(seen.context.as_ref(), Some(&task.context));
    assert_eq!((seen.status.state, seen.status.at), (Some(task.status.state), Some(task.status.at)), "{name}");
    assert_eq!(seen.status.message.is_some(), task.status.message.is_some());
    assert_eq!(seen.history.len(), task.history.len());
    let texts = |message: &Message| message.text();
    assert_eq!(
        seen.history.iter().map(texts).collect::<Vec<_>>(),
        task.history.iter().map(|one| texts(one)).collect::<Vec<_>>()
    );
    for (seen, kept) in seen.artifacts.iter().zip(&task.artifacts) {
        assert_eq!((&seen.id, &seen.name, &seen.description), (&kept.id, &kept.name, &kept.description), "{name}");
        assert_eq!((seen.parts.len(), &seen.extensions), (kept.parts.len(), &kept.extensions));
        for (seen, kept) in seen.parts.iter().zip(&kept.parts) {
            assert_eq!((&seen.filename, &seen.media_type), (&kept.filename, &kept.media_type), "{name}");
            match (&seen.content, &kept.content) {
                (Content::Data(seen), Content::Data(kept)) => {
                    assert_eq!(as_doubles(seen.to_value()), as_doubles(kept.to_value()), "{name}");
                }
                (seen, kept) => assert_eq!(seen, kept, "{name}"),
            }
        }
    }
    assert_eq!(seen.artifacts.len(), task.artifacts.len());
    assert!(seen.unread.is_empty(), "{:?}", seen.unread);
}

#[test]
fn tasks_of_our_server_come_back() {
    for (peer, wire) in pairs() {
        let name = peer.facts().name;
        for task in State::ALL.into_iter().map(bare_task).chain([full_task()]) {
            let bytes = written(|w| wire.task(w, &task, &TaskView::WHOLE, None));
            assert_same(&peer.read_task(&bytes).unwrap(), &task, name);
            let sent = written(|w| wire.sent_task(w, &task, &TaskView::WHOLE, None));
            let Seen::Task(seen) = peer.read_sent(&sent).unwrap() else { panic!("no task") };
            assert_same(&seen, &task, name);
        }
        let reply = cases::message("m", Role::Agent, vec![Part::text("hello")]);
        let here = context();
        let head = Head::new(task_id(), None, &here);
        let sent = written(|w| wire.sent_message(w, &reply, &head));
        let expected = Seen::Message { message: reply, context: Some(context()), task: None };
        assert_eq!(peer.read_sent(&sent).unwrap(), expected, "{name}");
        assert_eq!(peer.read_event(&sent).unwrap(), expected, "{name}");
    }
}

#[test]
fn events_of_our_server_come_back() {
    for (peer, wire) in pairs() {
        let here = context();
        let head = Head::new(task_id(), None, &here);
        for (name, event) in events() {
            let bytes = written(|w| assert!(wire.stream_event(w, &head, &event, true), "{name}"));
            match (peer.read_event(&bytes).unwrap(), &event.body) {
                (Seen::Status { task, context, status, metadata, closes }, model::Body::Status(change)) => {
                    assert_eq!((task, context), (task_id().to_string(), Some(here.clone())));
                    assert_eq!((status.state, status.at), (Some(change.state), Some(event.at)), "{name}");
                    let text = |message: &Message| message.text();
                    assert_eq!(status.message.as_ref().map(text), change.message.as_deref().map(text));
                    assert_eq!(metadata.is_some(), change.metadata.is_some());
                    assert_eq!(closes, !is_v1(peer));
                }
                (Seen::Artifact { task, artifact, append, last, .. }, model::Body::Artifact(chunk)) => {
                    assert_eq!(task, task_id().to_string());
                    assert_eq!((append, last, &artifact.id), (chunk.append, chunk.last, &chunk.artifact.id), "{name}");
                    assert_eq!(artifact.parts.len(), chunk.artifact.parts.len());
                }
                (Seen::Message { message, .. }, model::Body::Replied(reply)) => {
                    assert_eq!(message.text(), reply.text());
                }
                (seen, body) => panic!("{name}: {body:?} was read as {seen:?}"),
            }
        }
    }
}

#[test]
fn pages_and_configs_of_our_server_come_back() {
    for (peer, wire) in pairs() {
        let config = push();
        assert_eq!(peer.push_config(&written(|w| wire.push_config(w, &config, None))).unwrap(), config);
        let listed = written(|w| wire.push_list(w, std::slice::from_ref(&config), None, "next"));
        assert_eq!(peer.push_configs(&listed).unwrap(), (vec![config], Some("next".to_owned())));
        assert_eq!(peer.push_configs(&[]).unwrap(), (vec![], None));
        assert_eq!(peer.push_config(&[]).unwrap_err().kind, Kind::InvalidAgentResponse);
    }
    let (peer, wire) = pairs().next().unwrap();
    let tasks = [bare_task(State::Working).into(), full_task().into()];
    let page = Page { tasks: &tasks, view: &TaskView::WHOLE, next_page_token: "n", page_size: 2, total_size: 9 };
    let seen = peer.page(&written(|w| wire.list(w, &page))).unwrap();
    assert_eq!((seen.tasks.len(), seen.next_page_token.as_deref(), seen.total_size), (2, Some("n"), Some(9)));
    assert_same(&seen.tasks[1], &tasks[1], "list");
}

#[test]
fn cards_of_our_server_come_back() {
    let profile = profile();
    for (peer, wire) in pairs() {
        let mut facts = CardFacts::new(&profile, "https://a.example/x");
        facts.interfaces.insert(0, Interface::new("h:50051", InterfaceBinding::Grpc));
        let older = facts.interfaces.clone();
        facts.interfaces.extend(older.into_iter().map(|one| Interface { protocol_version: "0.3".into(), ..one }));
        facts.auth = Some(CardAuth::keys(true));
        facts.extended = true;
        facts.provider = Some(Provider { organization: "O".into(), url: "https://o".into() });
        let seen = peer.card(&wire.card(&facts)).unwrap();
        assert_eq!((&seen.name, &seen.version), (&profile.title, &profile.version));
        let told = |all: &[Extension]| -> Vec<_> {
            all.iter().map(|one| (one.uri.clone(), one.required, one.params.as_ref().map(Json::to_value))).collect()
        };
        assert_eq!((&seen.skills, told(&seen.extensions)), (&profile.skills, told(&profile.extensions)));
        assert_eq!((seen.streaming, seen.extended, &seen.provider), (facts.streaming, true, &facts.provider));
        assert_eq!((seen.schemes.len(), seen.security.len()), (2, 2));
        let choice = seen.choose(None, Some(InterfaceBinding::Grpc)).unwrap();
        assert_eq!((choice.url.as_str(), choice.peers[0].facts().name), ("h:50051", peer.facts().name));
    }
}

#[test]
fn what_a_newer_server_adds_does_not_cost_the_rest() {
    for (peer, wire) in pairs() {
        // A state, a field and a kind of part that are not known.
        let mut bytes = written(|w| {
            w.string(1, "t");
            w.message(3, |w| {
                w.int(1, 99);
                w.message(2, |w| {
                    w.message(5, |w| w.present_bytes(1, b"read"));
                    w.message(5, |w| w.present_bytes(77, b"?"));
                });
            });
            w.string(1_000, "later");
        });
        let seen = peer.read_task(&bytes).unwrap();
        let said = seen.status.message.unwrap();
        assert_eq!((seen.status.state, said.text().as_str(), said.role), (None, "read", Role::Agent));
        assert_eq!(seen.unread.len(), 1, "{:?}", seen.unread);
        // An event of another kind is passed on; as the answer to a send it is none.
        let unknown = written(|w| w.message(9, |w| w.string(1, "x")));
        assert!(matches!(peer.read_event(&unknown).unwrap(), Seen::Unread { .. }));
        assert_eq!(peer.read_sent(&unknown).unwrap_err().kind, Kind::InvalidAgentResponse);
        // Without its status a task is none.
        bytes.truncate(3);
        assert_eq!(peer.read_task(&bytes).unwrap_err().kind, Kind::InvalidAgentResponse);
        let update = written(|w| w.message(3, |w| w.string(1, "t")));
        assert_eq!(peer.read_event(&update).unwrap_err().kind, Kind::InvalidAgentResponse, "{}", wire.name());
        // Half a message with a part in it.
        let part = written(|w| {
            w.message(4, |w| {
                w.string(1, "t");
                w.message(3, |w| {
                    w.string(1, "a");
                    w.message(5, |w| w.int(1, 7));
                    w.message(4, |w| w.int(1, 7));
                });
            });
        });
        let seen = peer.read_event(&part);
        assert!(seen.is_err() || matches!(seen, Ok(Seen::Partial { .. })), "{seen:?}");
    }
}

#[test]
fn every_status_of_our_server_becomes_its_kind() {
    for (_, wire) in pairs() {
        for fault in faults() {
            let status = wire.status(&fault, Operation::Get);
            let seen = refusal(status.code as i64, &status.message, &status.details, Operation::Get);
            assert_eq!((seen.code, &seen.message), (status.code as i64, &fault.message));
            // Kinds that share a reason, or have none, cannot be told apart by anybody.
            let kind = seen.kind.unwrap();
            let same = |one: Kind| wire.status(&model::Fault::new(one, "x"), Operation::Get).code;
            let settled = (fault.kind, kind) == (Kind::TaskSettled, Kind::Unsupported);
            assert!(
                kind == fault.kind || settled || same(kind) == status.code,
                "{:?} was read as {kind:?}",
                fault.kind
            );
        }
    }
}

#[test]
fn a_status_without_a_reason_is_read_by_its_words_and_its_code() {
    use Operation::{Cancel, ExtendedCard, Get, Send};
    for (code, message, operation, kind) in [
        (RpcCode::Unimplemented, "unknown service lf.a2a.v1.A2AService", Send, Some(Kind::MethodNotFound)),
        (RpcCode::Unimplemented, "UnsupportedOperationError: not here", Send, Some(Kind::Unsupported)),
        (RpcCode::Unimplemented, "PushNotificationNotSupportedError: no", Send, Some(Kind::PushNotSupported)),
        (RpcCode::NotFound, "TaskNotFoundError: gone", Get, Some(Kind::TaskNotFound)),
        (RpcCode::NotFound, "gone", Get, Some(Kind::TaskNotFound)),
        (RpcCode::FailedPrecondition, "done", Cancel, Some(Kind::TaskNotCancelable)),
        (RpcCode::FailedPrecondition, "no", ExtendedCard, Some(Kind::ExtendedCardNotConfigured)),
        (RpcCode::FailedPrecondition, "no", Send, Some(Kind::Unsupported)),
        (RpcCode::InvalidArgument, "bad", Send, Some(Kind::InvalidParams)),
        (RpcCode::PermissionDenied, "", Send, Some(Kind::Forbidden)),
        (RpcCode::Unauthenticated, "", Send, Some(Kind::Unauthenticated)),
        (RpcCode::ResourceExhausted, "slow down", Send, Some(Kind::RateLimited)),
        (RpcCode::ResourceExhausted, "Received message larger than max (9 vs. 4)", Send, Some(Kind::TooLarge)),
        (RpcCode::Unavailable, "away", Send, Some(Kind::Unavailable)),
        (RpcCode::DeadlineExceeded, "late", Send, Some(Kind::Unavailable)),
        (RpcCode::Internal, "broke", Send, Some(Kind::Internal)),
        (RpcCode::Unknown, "odd", Send, None),
    ] {
        let seen = refusal(code as i64, message, b"", operation);
        assert_eq!(seen.kind, kind, "{code:?} {message:?}");
        assert!(
            !seen.message.contains("Error: "),
            "a name that was understood is no word for people: {}",
            seen.message
        );
        assert!(!seen.message.is_empty());
    }
    assert_eq!(refusal(99, "odd", b"\xff", Send).kind, None);
}

#[test]
fn a_reason_says_more_than_the_codes_that_versions_disagree_on() {
    // The codes of 1.0.0 and of 1.0.1.
    for (kind, codes) in [
        (Kind::PushNotSupported, [RpcCode::Unimplemented, RpcCode::FailedPrecondition]),
        (Kind::Unsupported, [RpcCode::Unimplemented, RpcCode::FailedPrecondition]),
        (Kind::VersionNotSupported, [RpcCode::Unimplemented, RpcCode::FailedPrecondition]),
        (Kind::TaskNotCancelable, [RpcCode::FailedPrecondition, RpcCode::FailedPrecondition]),
        (Kind::ContentType, [RpcCode::InvalidArgument, RpcCode::InvalidArgument]),
    ] {
        let details = PROTO_WIRES[0].status(&model::Fault::new(kind, "x"), Operation::Send).details;
        for code in codes {
            assert_eq!(refusal(code as i64, "x", &details, Operation::Send).kind, Some(kind), "{code:?}");
        }
    }
}
