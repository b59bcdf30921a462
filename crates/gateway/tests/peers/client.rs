//! The client against our own server, in every form both support, and against other servers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{House, Say, Wire, fake, until};
use client::seen::{Seen, TaskSeen};
use client::{Binding, Client, Events, FailureStage, Generation, InterfaceBinding, Options, PeerCredentials, say};
use model::{Json, Kind, List, Part, PushConfig, Send, State, Wait};

/// Every generation as an option, and the form that the client then uses.
const GENERATIONS: [(Option<Generation>, &str); 4] = [
    (None, "1.0 over JSON-RPC"),
    (Some(Generation::V1_0), "1.0 over JSON-RPC"),
    (Some(Generation::V0_3), "0.3 over JSON-RPC"),
    (Some(Generation::V0_1), "0.1 over JSON-RPC"),
];

fn client(url: &str, generation: Option<Generation>) -> Client {
    Client::new(Options { generation, ..Options::new(url) }).unwrap()
}

/// A client for each form over gRPC.
fn over_grpc(url: &str) -> Vec<(String, Client)> {
    let url = url.replacen("http://", "grpc://", 1);
    let forms = [(Generation::V1_0, "1.0 over gRPC"), (Generation::V0_3, "0.3 over gRPC")];
    forms.into_iter().map(|(generation, name)| (name.to_owned(), client(&url, Some(generation)))).collect()
}

/// A client for each form our server supports; for HTTP+JSON through a card that lists no other interface.
async fn every_form(house: &House) -> Vec<(String, Client)> {
    let mut all: Vec<(String, Client)> = Vec::new();
    for (generation, name) in &GENERATIONS[1..] {
        all.push(((*name).to_owned(), client(&house.url, *generation)));
    }
    for (version, name) in [("1.0", "1.0 over HTTP+JSON"), ("0.3", "0.3 over HTTP+JSON")] {
        let card = format!(
            r#"{{"name":"n","capabilities":{{"streaming":true}},"supportedInterfaces":[{{"url":"{}","protocolBinding":"HTTP+JSON","protocolVersion":"{version}"}}]}}"#,
            house.url
        );
        let url = fake(move |_| Say::Json(200, card.clone())).await;
        all.push((name.to_owned(), client(&url, None)));
    }
    all.extend(over_grpc(&house.url));
    all
}

async fn all(mut events: Events) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap().seen);
    }
    seen
}

/// The state a stream ended in, and the text of its artifacts.
fn outcome(seen: &[Seen]) -> (Option<State>, String) {
    let (mut state, mut text) = (None, String::new());
    let texts = |parts: &[Part]| parts.iter().filter_map(Part::as_text).collect::<String>();
    for one in seen {
        match one {
            Seen::Task(task) => {
                state = task.status.state;
                text = task.artifacts.iter().map(|artifact| texts(&artifact.parts)).collect();
            }
            Seen::Status { status, .. } => state = status.state,
            Seen::Artifact { artifact, append, .. } => {
                if !append {
                    text.clear();
                }
                text.push_str(&texts(&artifact.parts));
            }
            Seen::Message { message, .. } => text = message.text(),
            Seen::Partial { .. } | Seen::Unread { .. } => panic!("{one:?}"),
        }
    }
    (state, text)
}

fn task_of(seen: Seen) -> TaskSeen {
    match seen {
        Seen::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_card_decides_what_is_spoken_unless_somebody_else_does() {
    let house = House::scripted().await;
    for (generation, name) in GENERATIONS {
        let target = client(&house.url, generation).discover().await.unwrap();
        assert_eq!(target.peer().facts().name, name);
        assert_eq!(target.card.as_ref().unwrap().name, "Scripted");
        assert!(target.streams());
    }
    // By the card itself, by a path above it, by the endpoint.
    for place in ["/.well-known/agent-card.json", "/a2a/scripted", "/a2a/scripted/", ""] {
        let target = client(&format!("{}{place}", house.url), None).discover().await.unwrap();
        assert_eq!(target.peer().facts().name, "1.0 over JSON-RPC", "{place}");
    }
    for (name, client) in every_form(&house).await {
        assert_eq!(client.discover().await.unwrap().peer().facts().name, name);
    }
}

#[tokio::test]
async fn a_message_is_sent_streamed_looked_up_and_cancelled_in_every_form() {
    let house = House::scripted().await;
    for (name, client) in every_form(&house).await {
        let task = task_of(client.send(&say("hello")).await.unwrap());
        assert_eq!(task.status.state, Some(State::Completed), "{name}");
        assert_eq!(task.artifacts[0].parts[0].as_text(), Some("hello"), "{name}");
        assert_eq!(client.get(&task.id, Some(0)).await.unwrap().status, task.status, "{name}");

        let events = client.stream(&say("chunks:3")).await.unwrap();
        let text = "chunk 0 lorem ipsum chunk 1 lorem ipsum chunk 2 lorem ipsum ";
        assert_eq!(outcome(&all(events).await), (Some(State::Completed), text.to_owned()), "{name}");

        // 0.1 cannot ask for an immediate answer; there a stream gives the id of a running task.
        let id = if name.starts_with("0.1") {
            let mut events = client.stream(&say("hang")).await.unwrap();
            match events.next().await.unwrap().unwrap().seen {
                Seen::Status { task, .. } => task,
                other => panic!("{other:?}"),
            }
        } else {
            task_of(client.send(&Send { wait: Wait::Exists, ..say("hang") }).await.unwrap()).id
        };
        let canceled = client.cancel(&id, Json::parse(r#"{"why":"late"}"#)).await.unwrap();
        assert_eq!(canceled.status.state, Some(State::Canceled), "{name}");
        let error = client.cancel(&id, None).await.unwrap_err();
        assert_eq!((error.kind, error.stage), (Kind::TaskNotCancelable, FailureStage::Refused), "{name}");
        assert!(error.said.unwrap().code != 0, "{name}");
        let error = client.get("nothing-like-it", None).await.unwrap_err();
        assert_eq!(error.kind, Kind::TaskNotFound, "{name}: {error}");
    }
}

#[tokio::test]
async fn a_question_is_answered_and_a_direct_message_is_none_to_0_1() {
    let house = House::scripted().await;
    for (name, client) in every_form(&house).await {
        let asked = task_of(client.send(&say("ask: which colour?")).await.unwrap());
        assert_eq!(asked.status.state, Some(State::InputRequired), "{name}");
        assert_eq!(asked.status.message.unwrap().text(), "which colour?");
        let answer = Send { task: Some(asked.id.clone()), ..say("complete: blue") };
        let answered = task_of(client.send(&answer).await.unwrap());
        assert_eq!((answered.id, answered.status.state), (asked.id, Some(State::Completed)), "{name}");

        match client.send(&say("message: hi")).await.unwrap() {
            Seen::Message { message, .. } => {
                assert_eq!(message.text(), "hi", "{name}");
                assert!(!name.starts_with("0.1"));
            }
            Seen::Task(task) => {
                assert!(name.starts_with("0.1"), "{name}");
                assert_eq!(task.status.message.unwrap().text(), "hi");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_after_the_last_event_heard() {
    let house = House::scripted().await;
    let wire = Wire::to(house.address).await;
    let over_json =
        GENERATIONS[1..].iter().map(|(generation, name)| ((*name).to_owned(), client(&wire.url, *generation)));
    for (name, client) in over_json.chain(over_grpc(&wire.url)) {
        let mut events = client.stream(&say("chunks:40 every:10")).await.unwrap();
        let mut heard = Vec::new();
        let mut id = String::new();
        for _ in 0..5 {
            let event = events.next().await.unwrap().unwrap();
            if let Seen::Artifact { task, .. } | Seen::Status { task, .. } = &event.seen {
                id.clone_from(task);
            }
            heard.push(event.seen);
        }
        let last = events.last_id().unwrap().to_owned();
        wire.cut();
        let broken = loop {
            match events.next().await {
                // Events received before the cut.
                Some(Ok(event)) => drop(event),
                other => break other,
            }
        };
        if let Some(Err(error)) = broken {
            assert_eq!(error.stage, FailureStage::Broken, "{error}");
        }
        assert!(events.next().await.is_none());
        let rest = all(client.subscribe(&id, Some(&last)).await.unwrap()).await;
        heard.extend(rest);
        let text: String = (0..40).map(|n| format!("chunk {n} lorem ipsum ")).collect();
        assert_eq!(outcome(&heard), (Some(State::Completed), text), "{name}");
        // A settled task accepts no subscribers: the client falls back to a get.
        let followed = all(client.follow(&id, None).await.unwrap()).await;
        assert_eq!(outcome(&followed).0, Some(State::Completed), "{name}");
    }
}

#[tokio::test]
async fn what_only_1_0_has_is_refused_before_it_is_asked_elsewhere() {
    let house = House::scripted().await;
    for (name, client) in every_form(&house).await {
        client.send(&say("hello")).await.unwrap();
        let listed = client.list(&List { page_size: Some(1), artifacts: true, ..List::default() }).await;
        if name.starts_with("1.0") {
            let page = listed.unwrap();
            assert_eq!(page.tasks.len(), 1);
            assert_eq!(page.tasks[0].artifacts[0].parts[0].as_text(), Some("hello"));
            assert!(page.total_size.unwrap() >= 1);
        } else {
            let error = listed.unwrap_err();
            assert_eq!((error.stage, error.kind), (FailureStage::Unaskable, Kind::Unsupported), "{name}");
        }
        // This server delivers no webhooks, and refuses them in every form.
        let config = PushConfig {
            task: Some("t".into()),
            id: Some("c".into()),
            url: "https://h.example".into(),
            token: None,
            scheme: None,
            credentials: None,
        };
        assert_eq!(client.push_create(&config).await.unwrap_err().kind, Kind::PushNotSupported, "{name}");
        assert_eq!(client.push_get("t", "c").await.unwrap_err().kind, Kind::PushNotSupported, "{name}");
        assert_eq!(client.push_delete("t", "c").await.unwrap_err().kind, Kind::PushNotSupported, "{name}");
    }
}

#[tokio::test]
async fn credentials_are_sent_with_every_call_and_stay_with_their_host() {
    let house = House::with_key("hunter2").await;
    let ways = [
        PeerCredentials::Bearer("hunter2".into()),
        PeerCredentials::ApiKey { header: "X-Api-Key".into(), key: "hunter2".into() },
    ];
    for auth in ways {
        let client = Client::new(Options { auth, ..Options::new(&house.url) }).unwrap();
        assert_eq!(task_of(client.send(&say("hello")).await.unwrap()).status.state, Some(State::Completed));
        assert!(client.extended_card().await.unwrap().extended);
    }
    for auth in [PeerCredentials::None, PeerCredentials::Basic { user: "u".into(), password: "hunter3".into() }] {
        let client = Client::new(Options { auth, ..Options::new(&house.url) }).unwrap();
        let error = client.send(&say("hello")).await.unwrap_err();
        assert_eq!((error.kind, error.stage), (Kind::Unauthenticated, FailureStage::Refused), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
    // Over gRPC as everywhere.
    let grpc = house.url.replacen("http://", "grpc://", 1);
    let auth = PeerCredentials::Bearer("hunter2".into());
    let client = Client::new(Options { auth, ..Options::new(&grpc) }).unwrap();
    assert_eq!(task_of(client.send(&say("hello")).await.unwrap()).status.state, Some(State::Completed));
    assert_eq!(client.discover().await.unwrap().card.as_ref().unwrap().name, "Scripted");
    let error = Client::new(Options::new(&grpc)).unwrap().send(&say("hello")).await.unwrap_err();
    assert_eq!((error.kind, error.stage), (Kind::Unauthenticated, FailureStage::Refused), "{error}");
    // A card that names another host gets no credentials there.
    let elsewhere = r#"{"name":"n","url":"https://thief.example/","protocolVersion":"0.3.0"}"#;
    let url = fake(move |_| Say::Json(200, elsewhere.into())).await;
    let client =
        Client::new(Options { auth: PeerCredentials::Bearer("hunter2".into()), ..Options::new(&url) }).unwrap();
    let error = client.send(&say("hello")).await.unwrap_err();
    assert_eq!(error.stage, FailureStage::Unaskable);
    assert!(error.message.contains("thief.example"), "{error}");
}

/// An interface over gRPC on a card: at a bare address, of the tenant that it names, by the card's preference or ours.
#[tokio::test]
async fn a_card_that_names_grpc_is_followed_there() {
    let house = House::scripted().await;
    let address = house.address;
    let card = format!(
        r#"{{"name":"n","capabilities":{{"streaming":true}},"supportedInterfaces":[
            {{"url":"{address}","protocolBinding":"GRPC","protocolVersion":"1.0","tenant":"a2a/scripted"}},
            {{"url":"http://{address}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},
            {{"url":"grpc://{address}","protocolBinding":"GRPC","protocolVersion":"0.3"}}]}}"#
    );
    let url = fake(move |_| Say::Json(200, card.clone())).await;
    for (generation, binding, name) in [
        (None, None, "1.0 over gRPC"),
        (None, Some(Binding::JsonRpc.into()), "1.0 over JSON-RPC"),
        (Some(Generation::V0_3), None, "0.3 over gRPC"),
        (Some(Generation::V0_3), Some(InterfaceBinding::Grpc), "0.3 over gRPC"),
    ] {
        let client = Client::new(Options { generation, binding, ..Options::new(&url) }).unwrap();
        let target = client.discover().await.unwrap();
        assert_eq!(target.peer().facts().name, name);
        if name.ends_with("gRPC") {
            assert_eq!(target.shown_url(), format!("grpc://{address}"));
        }
        let task = task_of(client.send(&say("hello")).await.unwrap());
        assert_eq!(task.artifacts[0].parts[0].as_text(), Some("hello"), "{name}");
    }
    let binding = Some(Binding::HttpJson.into());
    let error = Client::new(Options { binding, ..Options::new(&url) }).unwrap().discover().await.unwrap_err();
    assert!(error.message.contains("no interface over HTTP+JSON"), "{error}");
}

/// An agent is named by the path before the service.
#[tokio::test]
async fn an_address_of_grpc_may_have_a_path() {
    let house = House::scripted().await;
    let client = client(&format!("grpc://{}/a2a/scripted", house.address), None);
    assert_eq!(task_of(client.send(&say("hello")).await.unwrap()).status.state, Some(State::Completed));
    let away = Client::new(Options::new(format!("grpc://{}/a2a/nobody", house.address))).unwrap();
    let error = away.send(&say("hello")).await.unwrap_err();
    assert_eq!(error.stage, FailureStage::Refused, "{error}");
}

/// A first-generation server, which knows no other form.
fn old_server(asked: &crate::common::Asked) -> Say {
    if asked.verb == "GET" {
        return Say::Json(404, "{}".into());
    }
    let task = r#"{"id":"t","status":{"state":"completed"},"artifacts":[{"parts":[{"type":"text","text":"old"}]}]}"#;
    match asked.method().as_str() {
        "tasks/send" => Say::Json(200, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{task}}}"#)),
        _ => Say::Json(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request payload validation error"}}"#
                .into(),
        ),
    }
}

#[tokio::test]
async fn without_a_card_every_generation_is_tried_the_newest_first() {
    let url = fake(old_server).await;
    let client = client(&url, None);
    let task = task_of(client.send(&say("hello")).await.unwrap());
    assert_eq!(task.artifacts[0].parts[0].as_text(), Some("old"));
    assert_eq!(client.discover().await.unwrap().peer().facts().name, "0.1 over JSON-RPC");
    // Once the form was understood, an unknown method is an ordinary error.
    assert_eq!(client.get("t", None).await.unwrap_err().kind, Kind::InvalidRequest);
    assert_eq!(client.discover().await.unwrap().peer().facts().name, "0.1 over JSON-RPC");
    let house = House::scripted().await;
    let cardless = Client::new(Options::new(format!("{}/a2a/scripted?x=1", house.url))).unwrap();
    cardless.send(&say("hello")).await.unwrap();
}

fn event(result: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n\n")
}

const WORKING: &str = r#"{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}"#;
const DONE: &str =
    r#"{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"completed"},"final":true}"#;

fn only_0_3(url: &str) -> Options {
    let mut options = Options { generation: Some(Generation::V0_3), ..Options::new(url) };
    options.timeouts.first_byte = Duration::from_millis(400);
    options.timeouts.idle = Duration::from_millis(400);
    options.event_bytes = 4_096;
    options.body_bytes = 4_096;
    options
}

#[tokio::test]
async fn streams_are_read_as_servers_really_write_them() {
    let pieces = vec![
        "\u{feff}: hello\r\n\r\nretry: 10\r\n\r\n".to_owned(),
        format!(
            "event: message\r\nid: 7\r\ndata: {{\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":{WORKING}}}\r\n\r\n"
        ),
        "data:\n\n: ping - now\n\n".to_owned(),
        event(DONE),
    ];
    let url = fake(move |asked| match asked.verb.as_str() {
        "GET" => Say::Json(404, String::new()),
        _ => Say::Events(pieces.clone()),
    })
    .await;
    let client = Client::new(only_0_3(&url)).unwrap();
    let mut events = client.stream(&say("x")).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.id.as_deref(), task_of(first.seen).id.as_str()), (Some("7"), "t"));
    assert_eq!(outcome(&all(events).await).0, Some(State::Completed));
    // A plain send takes the first event as its answer.
    assert_eq!(task_of(client.send(&say("x")).await.unwrap()).id, "t");
}

#[tokio::test]
async fn a_server_that_does_not_stream_answers_once() {
    let url = fake(|asked| match asked.verb.as_str() {
        "GET" => Say::Json(404, String::new()),
        _ => Say::Json(200, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{WORKING}}}"#)),
    })
    .await;
    let client = Client::new(only_0_3(&url)).unwrap();
    let seen = all(client.stream(&say("x")).await.unwrap()).await;
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn nothing_a_server_does_makes_the_client_wait_for_ever_or_read_without_end() {
    for (what, stage, says) in [
        ("too large", FailureStage::Unreadable, "limit"),
        ("silence", FailureStage::Broken, "did not answer"),
        ("hang up", FailureStage::Broken, "broke off"),
        ("html", FailureStage::Unreadable, "HTTP 200"),
        ("odd", FailureStage::Unreadable, "status"),
    ] {
        let url = fake(move |asked| match (asked.verb.as_str(), what) {
            ("GET", _) => Say::Json(404, String::new()),
            (_, "too large") => Say::Json(200, "x".repeat(5_000)),
            (_, "silence") => Say::Silence,
            (_, "hang up") => Say::HangUp,
            (_, "html") => Say::Json(200, "<html>".into()),
            _ => Say::Json(200, r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t"}}"#.into()),
        })
        .await;
        let error = Client::new(only_0_3(&url)).unwrap().send(&say("x")).await.unwrap_err();
        assert_eq!(error.stage, stage, "{what}: {error}");
        assert!(error.message.contains(says), "{what}: {error}");
    }
    for (what, stage, says) in [
        ("silent stream", FailureStage::Broken, "fell silent"),
        ("endless event", FailureStage::Unreadable, "longer than"),
    ] {
        let url = fake(move |asked| match (asked.verb.as_str(), what) {
            ("GET", _) => Say::Json(404, String::new()),
            (_, "silent stream") => Say::EventsThenSilence(vec![event(WORKING)]),
            _ => Say::Events(vec![event(WORKING), format!("data: {}", "x".repeat(5_000))]),
        })
        .await;
        let client = Client::new(only_0_3(&url)).unwrap();
        let mut events = client.stream(&say("x")).await.unwrap();
        events.next().await.unwrap().unwrap();
        let error = events.next().await.unwrap().unwrap_err();
        assert_eq!(error.stage, stage, "{what}: {error}");
        assert!(error.message.contains(says), "{what}: {error}");
        assert!(events.next().await.is_none());
    }
    let error = client("http://127.0.0.1:1/", None).send(&say("x")).await.unwrap_err();
    assert_eq!((error.stage, error.is_passing()), (FailureStage::Unreachable, true), "{error}");
    assert_eq!(Client::new(Options::new("ftp://x")).unwrap_err().stage, FailureStage::Unaskable);
}

#[tokio::test]
async fn errors_within_a_stream_and_before_it_are_told_alike() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"no pictures"}}"#;
    for within in [true, false] {
        let url = fake(move |asked| match asked.verb.as_str() {
            "GET" => Say::Json(404, String::new()),
            _ if within => Say::Events(vec![format!("data: {refusal}\n\n")]),
            _ => Say::Json(200, refusal.into()),
        })
        .await;
        let client = Client::new(only_0_3(&url)).unwrap();
        let error = match client.stream(&say("x")).await {
            Ok(mut events) => events.next().await.unwrap().unwrap_err(),
            Err(error) => error,
        };
        assert_eq!((error.kind, error.stage), (Kind::ContentType, FailureStage::Refused));
        assert_eq!(error.to_string(), "no pictures (code -32005)");
    }
}

#[tokio::test]
async fn a_verb_that_is_not_allowed_is_followed_by_the_other() {
    let card = |url: &str| {
        format!(
            r#"{{"name":"n","supportedInterfaces":[{{"url":"{url}","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}}]}}"#
        )
    };
    let url = fake(move |asked| {
        let here = format!("http://{}", asked.headers["host"]);
        match (asked.verb.as_str(), asked.path.as_str()) {
            ("GET", "/.well-known/agent-card.json") => Say::Json(200, card(&here)),
            ("GET", "/tasks/t:subscribe") => Say::Events(vec![
                "data: {\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}\n\n".into(),
            ]),
            _ => Say::Json(405, String::new()),
        }
    })
    .await;
    let seen = all(client(&url, None).subscribe("t", None).await.unwrap()).await;
    assert_eq!(outcome(&seen).0, Some(State::Completed));
}

#[tokio::test]
async fn what_a_send_says_in_headers_arrives() {
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let url = fake(move |asked| {
        if asked.verb == "POST" {
            heard.send(asked.headers.clone()).unwrap();
        }
        Say::Json(404, String::new())
    })
    .await;
    let mut options = Options { generation: Some(Generation::V1_0), ..Options::new(&url) };
    options.headers = vec![("X-Team".into(), "blue".into())];
    let mut send = say("x");
    send.idempotency = Some(model::call::Idempotency { key: "k1".into(), body: [0; 32] });
    send.trace = Some("00-1-2-01".into());
    send.extensions = vec!["urn:a".into(), "urn:b".into()];
    Client::new(options).unwrap().send(&send).await.unwrap_err();
    let headers = hears.recv().await.unwrap();
    for (name, value) in [
        ("idempotency-key", "k1"),
        ("traceparent", "00-1-2-01"),
        ("a2a-extensions", "urn:a, urn:b"),
        ("a2a-version", "1.0"),
        ("x-team", "blue"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[tokio::test]
async fn knowledge_of_an_agent_can_be_had_again() {
    let house = House::scripted().await;
    let wire = Wire::to(house.address).await;
    wire.sever();
    let client = Arc::new(client(&wire.url, None));
    assert!(client.discover().await.unwrap_err().is_passing());
    wire.mend();
    until("the card", async || client.discover().await.ok()).await;
    assert_eq!(client.refresh().await.unwrap().card.as_ref().unwrap().name, "Scripted");
}
