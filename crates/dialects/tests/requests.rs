//! The server understands every request of the client: every call, in every form that has it, comes out of the server's decoder as
//! it went into the client's writer, but for what the generation is known to lose.

#![allow(clippy::unwrap_used)]

mod arbitrary;
mod cases;

use std::fmt::Write as _;

use arbitrary::{message, object};
use dialects::card::Binding;
use dialects::framing::{jsonrpc, scan};
use dialects::peer::{Generation, PeerRequest, RequestOptions, peer};
use dialects::wire::{Decoded, Head, Operation, TaskView};
use dialects::{JsonWire, PEERS, Peer, decide, decide_route};
use model::{
    Call, Cancel, Content, ContextId, Get, Json, Kind, Limits, List, Message, Part, PushCall, PushConfig, Send, State,
    Subscribe, Time, Wait,
};
use proptest::prelude::*;

/// The server's side of the binding, which finds out by itself what is spoken.
fn decoded(peer: &dyn Peer, ask: &PeerRequest) -> Decoded {
    let limits = Limits::default();
    let header = |name: &str| ask.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let version = decide::stated(header("A2A-Version"), None).unwrap();
    let body = ask.body.as_deref().unwrap_or_default();
    match peer.binding() {
        Binding::JsonRpc => {
            assert_eq!((ask.verb, ask.path.as_str(), &ask.query), ("POST", "", &None));
            let request = jsonrpc::read(scan::scan(body, limits.json_depth).unwrap()).unwrap();
            let wire = dialects::decide(&request.method, version).unwrap();
            let wire = wire.resolve(Some(wire_of(peer).name()));
            assert_eq!(wire.name(), wire_of(peer).name(), "{}", request.method);
            wire.decode_rpc(&request.method, request.params, &limits).unwrap()
        }
        Binding::HttpJson => {
            let wire = decide_route(&ask.path, version).unwrap();
            assert_eq!(wire.name(), wire_of(peer).name(), "{}", ask.path);
            for verb in std::iter::once(ask.verb).chain(ask.or_verb) {
                assert_eq!(wire.route(verb, &ask.path, ask.query.as_deref()).unwrap().operation(), ask.operation);
            }
            let route = wire.route(ask.verb, &ask.path, ask.query.as_deref()).unwrap();
            route.decode(scan::scan(body, limits.json_depth).unwrap_or_default(), &limits).unwrap()
        }
    }
}

/// The server's wire for a client's form.
fn wire_of(peer: &dyn Peer) -> &'static dyn JsonWire {
    let name = match (peer.facts().generation, peer.binding()) {
        (Generation::V1_0, _) => "a2a_v1",
        (Generation::V0_3, Binding::JsonRpc) => "a2a_v0_3",
        (Generation::V0_3, Binding::HttpJson) => "a2a_v0_3_rest",
        (Generation::V0_1, _) => "a2a_v0_1",
    };
    dialects::wire(name).unwrap()
}

/// A call as the generation's server will see it.
fn as_heard(peer: &dyn Peer, call: &Call) -> Call {
    let mut call = call.clone();
    let generation = peer.facts().generation;
    // To 0.3 servers no history is the least there is; to 0.1 servers all of it is more than there is.
    let history = |asked: &mut Option<u32>| match (generation, *asked) {
        (Generation::V0_3, Some(0)) => *asked = Some(1),
        (Generation::V0_1, None) => *asked = Some(1_000_000),
        _ => {}
    };
    match &mut call {
        Call::Send(send) | Call::Stream(send) => {
            history(&mut send.history);
            if let Some(push) = &mut send.push {
                push.task = None;
            }
            if generation == Generation::V0_1 {
                send.alias = send.alias.take().or(send.task.take());
                send.task = None;
                send.wait = Wait::Rest { max_ms: Some(dialects::a2a_v0_1::MAX_WAIT_MS) };
                send.message.id = "".into();
                if let Some(push) = &mut send.push {
                    push.id = None;
                }
            } else {
                send.alias = None;
            }
        }
        Call::Get(get) => history(&mut get.history),
        Call::Push(PushCall::Create(config)) if generation == Generation::V0_1 => config.id = config.task.clone(),
        Call::Push(PushCall::Get { id, .. }) if generation == Generation::V0_1 => id.clear(),
        Call::Push(PushCall::Delete { task, id }) if generation == Generation::V0_1 => *id = task.clone(),
        Call::Push(PushCall::List { page_size, page_token, .. })
            if peer.binding() == Binding::JsonRpc && generation == Generation::V0_3 =>
        {
            (*page_size, *page_token) = (None, None);
        }
        Call::Push(_) | Call::List(_) | Call::Cancel(_) | Call::Subscribe(_) | Call::ExtendedCard => {}
    }
    call
}

/// Metadata beside a mark is put together again, and an empty one is gone.
fn settled(mut call: Call) -> Call {
    fn members(metadata: &mut Option<Json>) {
        *metadata = metadata
            .take()
            .map(|json| json.to_value())
            .filter(|v| *v != serde_json::json!({}))
            .map(|v| Json::from_value(&v));
    }
    match &mut call {
        Call::Send(send) | Call::Stream(send) => {
            members(&mut send.message.metadata);
            members(&mut send.metadata);
            for part in &mut send.message.parts {
                members(&mut part.metadata);
                if let Content::Data(data) = &mut part.content {
                    *data = Json::from_value(&data.to_value());
                }
            }
        }
        Call::Cancel(cancel) => members(&mut cancel.metadata),
        Call::Get(_) | Call::List(_) | Call::Subscribe(_) | Call::Push(_) | Call::ExtendedCard => {}
    }
    call
}

/// Whether the generation has the operation at all.
fn exists(peer: &dyn Peer, call: &Call) -> bool {
    match (peer.facts().generation, call) {
        (Generation::V1_0, _) => true,
        (Generation::V0_3, Call::List(_)) => false,
        (Generation::V0_1, Call::List(_) | Call::ExtendedCard | Call::Push(PushCall::List { .. })) => false,
        (Generation::V0_3 | Generation::V0_1, _) => true,
    }
}

fn assert_understood(call: &Call) {
    for peer in PEERS {
        let tenant = Some("acme é/x").filter(|_| peer.facts().generation == Generation::V1_0);
        let extensions = ["https://e.example/1".to_owned(), "https://e.example/2".to_owned()];
        for tenant in [None, tenant] {
            let asking = RequestOptions { tenant, extensions: &extensions, id: 7 };
            match peer.ask(call, &asking) {
                Ok(ask) => {
                    assert!(exists(*peer, call), "{peer:?} {call:?}");
                    let got = decoded(*peer, &ask);
                    assert_eq!(got.tenant.as_deref(), tenant, "{ask:?}");
                    assert_eq!(settled(got.call), settled(as_heard(*peer, call)), "{ask:?}");
                    assert_eq!(ask.operation, Operation::from(call));
                    assert!(
                        ask.headers
                            .iter()
                            .any(|(name, value)| name.contains("Extensions") && value.contains("/1, https"))
                    );
                }
                Err(fault) => {
                    assert_eq!(fault.kind, Kind::Unsupported, "{call:?}");
                    assert!(!exists(*peer, call), "{peer:?} {call:?}");
                }
            }
        }
    }
}

fn send(message: Message) -> Send {
    Send {
        message,
        task: None,
        alias: Some("mine".into()),
        context: None,
        wait: Wait::Rest { max_ms: None },
        history: None,
        accepted_output: vec![],
        metadata: None,
        push: None,
        extensions: vec![],
        trace: None,
        idempotency: None,
    }
}

fn push() -> PushConfig {
    PushConfig {
        task: Some("t 1".into()),
        id: Some("c/1".into()),
        url: "https://h.example/p?q=1".into(),
        token: Some("t".into()),
        scheme: Some("Bearer".into()),
        credentials: Some("s".into()),
    }
}

fn calls() -> Vec<Call> {
    let said = |text: &str| cases::message("m1", model::Role::User, vec![Part::text(text)]);
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
    vec![
        Call::Send(Box::new(send(said("plain")))),
        Call::Stream(Box::new(send(said("streamed")))),
        Call::Send(Box::new(rich.clone())),
        Call::Stream(Box::new(Send { history: Some(0), ..rich })),
        Call::Get(Get { task: "a b/ü:cancel".into(), history: None }),
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
    ]
}

#[test]
fn our_server_understands_what_our_client_asks() {
    for call in calls() {
        assert_understood(&call);
    }
}

/// The bytes on the wire, for review.
#[test]
fn requests_in_every_form() {
    let mut lines = String::new();
    for peer in PEERS {
        writeln!(lines, "# {}", peer.facts().name).unwrap();
        for call in calls() {
            let asking = RequestOptions { id: 1, ..RequestOptions::default() };
            match peer.ask(&call, &asking) {
                Ok(ask) => {
                    let query = ask.query.map(|query| format!("?{query}")).unwrap_or_default();
                    let body = ask.body.as_deref().unwrap_or_default();
                    writeln!(lines, "{} {}{query} {}", ask.verb, ask.path, std::str::from_utf8(body).unwrap()).unwrap();
                }
                Err(fault) => writeln!(lines, "{}: {fault}", call.name()).unwrap(),
            }
        }
    }
    insta::assert_snapshot!("requests", lines);
}

#[test]
fn a_0_1_server_is_not_asked_without_an_id() {
    let said = cases::message("m", model::Role::User, vec![Part::text("x")]);
    let v0_1 = peer(Generation::V0_1, Binding::JsonRpc).unwrap();
    let call = Call::Send(Box::new(Send { alias: None, ..send(said) }));
    assert_eq!(v0_1.ask(&call, &RequestOptions::default()).unwrap_err().kind, Kind::InvalidParams);
    assert!(peer(Generation::V0_1, Binding::HttpJson).is_none());
}

/// A part with an empty URL is none in the older forms; no client means one. Bytes that look like base64 once more would be
/// taken for a Python SDK's only where the media type cannot be text, which ours never are.
fn speakable() -> impl Strategy<Value = Message> {
    message().prop_map(|mut message| {
        for part in &mut message.parts {
            if let Content::Url(url) = &mut part.content
                && url.is_empty()
            {
                url.push('u');
            }
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
            alias: Some("mine".into()).filter(|_| task.is_none()),
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
    fn any_id_arrives(task in "\\PC{1,40}", id in "\\PC{1,40}") {
        assert_understood(&Call::Get(Get { task: task.clone(), history: Some(1) }));
        assert_understood(&Call::Cancel(Cancel { task: task.clone(), metadata: None }));
        assert_understood(&Call::Subscribe(Subscribe { task: task.clone() }));
        assert_understood(&Call::Push(PushCall::Get { task, id }));
    }
}

fn written(write: impl FnOnce(&mut dialects::framing::json::Writer)) -> String {
    let mut w = dialects::framing::json::Writer::new();
    write(&mut w);
    String::from_utf8(w.finish().as_bytes().unwrap().to_vec()).unwrap()
}

#[test]
fn answers_of_our_server_come_back_as_what_they_were() {
    for peer in PEERS {
        let wire = wire_of(*peer);
        let generation = peer.facts().generation;
        // Configs, one and many.
        let config = PushConfig { id: Some("c".into()), task: Some("t".into()), ..push() };
        let seen = peer.push_config(&written(|w| wire.push_config(w, &config, None))).unwrap();
        let kept = PushConfig { id: config.id.clone().filter(|_| generation != Generation::V0_1), ..config.clone() };
        assert_eq!(seen, kept, "{peer:?}");
        let listed = written(|w| wire.push_list(w, std::slice::from_ref(&config), None, "next"));
        let (configs, next) = peer.push_configs(&listed).unwrap();
        assert_eq!(configs, [kept]);
        let paged = generation == Generation::V1_0 || peer.binding() == Binding::HttpJson;
        assert_eq!(next.as_deref(), Some("next").filter(|_| paged));
        assert_eq!(peer.push_configs(&written(|w| wire.push_list(w, &[], None, ""))).unwrap(), (vec![], None));
        // A direct answer.
        let said = cases::message("m", model::Role::Agent, vec![Part::text("hello")]);
        let context = cases::context();
        let head = Head::new(cases::task_id(), None, &context);
        let seen = peer.sent(&written(|w| wire.sent_message(w, &said, &head))).unwrap();
        match seen {
            dialects::seen::Seen::Message { message, context, task } => {
                assert_eq!((message, context, task), (said, Some(cases::context()), None));
                assert!(peer.facts().replies);
            }
            dialects::seen::Seen::Task(task) => {
                assert_eq!((task.status.state, peer.facts().replies), (Some(State::Completed), false));
            }
            other => panic!("{other:?}"),
        }
        // Errors, through the envelope and back to their kind.
        for kind in Kind::ALL {
            let fault = model::Fault::new(kind, "said so");
            let mut out = Vec::new();
            wire.rpc_error(&mut out, &jsonrpc::Id::NULL, &fault, Operation::Get);
            let (status, body) = wire.rest_error(&fault, Operation::Get);
            let seen = match peer.binding() {
                Binding::JsonRpc => peer.result(200, std::str::from_utf8(&out).unwrap(), Operation::Get),
                Binding::HttpJson => {
                    peer.result(status, std::str::from_utf8(body.as_bytes().unwrap()).unwrap(), Operation::Get)
                }
            }
            .unwrap_err();
            let line = |kind| wire.error_line(kind, Operation::Get);
            // Kinds that share a line of the table cannot be told apart by anybody.
            let seen_kind = seen.kind.unwrap();
            let same = line(seen_kind).rpc == line(kind).rpc || line(seen_kind).http == line(kind).http;
            assert!(same, "{peer:?} {kind:?} was read as {seen_kind:?}");
        }
    }
}

#[test]
fn a_page_of_a_list_comes_back() {
    let v1 = peer(Generation::V1_0, Binding::JsonRpc).unwrap();
    let task = std::sync::Arc::new(cases::full_task());
    let tasks = [task.clone(), task];
    let view = TaskView::WHOLE;
    let page = dialects::wire::Page { tasks: &tasks, view: &view, next_page_token: "n", page_size: 2, total_size: 9 };
    let text = written(|w| assert!(wire_of(v1).list(w, &page)));
    let seen = v1.page(&text).unwrap();
    assert_eq!((seen.tasks.len(), seen.next_page_token.as_deref(), seen.total_size), (2, Some("n"), Some(9)));
    assert_eq!(v1.page(r#"{"tasks":[],"nextPageToken":""}"#).unwrap(), dialects::seen::PageSeen::default());
    let v0_3 = peer(Generation::V0_3, Binding::JsonRpc).unwrap();
    assert_eq!(v0_3.page("{}").unwrap_err().kind, Kind::Unsupported);
}

#[test]
fn push_configs_are_read_in_every_shape() {
    let v1 = peer(Generation::V1_0, Binding::HttpJson).unwrap();
    let bare = PushConfig {
        task: Some("t".into()),
        id: Some("c".into()),
        url: "https://h".into(),
        token: None,
        scheme: None,
        credentials: None,
    };
    for text in [
        r#"{"taskId":"t","id":"c","url":"https://h"}"#,
        r#"{"task_id":"t","id":"c","url":"https://h","token":""}"#,
        r#"{"taskId":"t","pushNotificationConfig":{"id":"c","url":"https://h"}}"#,
        r#"{"taskId":"t","id":"c","pushNotificationConfig":{"url":"https://h"}}"#,
        r#"{"name":"tasks/t/pushNotificationConfigs/c","pushNotificationConfig":{"url":"https://h"}}"#,
    ] {
        assert_eq!(v1.push_config(text).unwrap(), bare, "{text}");
        assert_eq!(v1.push_configs(&format!("[{text}]")).unwrap().0, std::slice::from_ref(&bare));
        assert_eq!(v1.push_configs(&format!(r#"{{"configs":[{text}]}}"#)).unwrap().0, std::slice::from_ref(&bare));
    }
    assert_eq!(v1.push_configs("{}").unwrap(), (vec![], None));
    assert_eq!(v1.push_config("{}").unwrap_err().kind, Kind::InvalidAgentResponse);
}

#[test]
fn messages_of_answers_may_lack_what_ours_must_have() {
    let v1 = peer(Generation::V1_0, Binding::JsonRpc).unwrap();
    let task = v1.task(r#"{"id":"t","status":{"state":"TASK_STATE_NEW","message":{"role":"ROLE_AGENT"}}}"#).unwrap();
    let said = task.status.message.unwrap();
    assert_eq!((task.status.state, &*said.id, said.parts.len()), (None, "", 0));
    let v0_3 = peer(Generation::V0_3, Binding::JsonRpc).unwrap();
    let text = r#"{"kind":"task","id":"t","status":{"state":"working","message":{"parts":[{"text":"x"}]}}}"#;
    let said = v0_3.task(text).unwrap().status.message.unwrap();
    assert_eq!((&*said.id, said.role, said.text()), ("", model::Role::Agent, "x".to_owned()));
}
