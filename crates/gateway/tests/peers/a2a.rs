//! Tests of remote agents: `near` is a server whose agent is remote, `far` the server it calls, with a scripted
//! agent. Every case runs over each generation that the two can speak.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Asked, House, Say, Wire, fake, until};
use agents::a2a::{A2aAgent, Options};
use agents::delegation::{Delegation, KEY};
use client::seen::{Seen, TaskSeen};
use client::{Client, Events, Generation, say};
use engine::Engine;
use model::ports::agent::Agent;
use model::{Json, Kind, Part, Send, State, Wait};

/// A generation, over gRPC or over what its card prefers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Form {
    generation: Generation,
    is_grpc: bool,
}

const FORMS: [Form; 5] = [
    Form { generation: Generation::V1_0, is_grpc: false },
    Form { generation: Generation::V1_0, is_grpc: true },
    Form { generation: Generation::V0_3, is_grpc: false },
    Form { generation: Generation::V0_3, is_grpc: true },
    Form { generation: Generation::V0_1, is_grpc: false },
];

impl From<Generation> for Form {
    fn from(generation: Generation) -> Form {
        Form { generation, is_grpc: false }
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.generation, if self.is_grpc { " over gRPC" } else { "" })
    }
}

pub(crate) fn options(url: &str, form: impl Into<Form>) -> Options {
    let form = form.into();
    let url = if form.is_grpc { url.replacen("http://", "grpc://", 1) } else { url.to_owned() };
    Options { generation: Some(form.generation), patience_ms: Some(20_000), ..Options::new(url) }
}

pub(crate) async fn remote(options: Options) -> Arc<dyn Agent> {
    Arc::new(A2aAgent::connect("far", options).await.unwrap())
}

/// A server whose agent has these options, and a client for it.
pub(crate) async fn near(options: Options) -> (House, Client) {
    let house = House::serving(vec![remote(options).await], &[]).await;
    let client = Client::new(client::Options::new(&house.url)).unwrap();
    (house, client)
}

pub(crate) async fn all(mut events: Events) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap().seen);
    }
    seen
}

pub(crate) fn task_of(seen: Seen) -> TaskSeen {
    match seen {
        Seen::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn tell(client: &Client, text: &str) -> TaskSeen {
    task_of(client.send(&say(text)).await.unwrap())
}

pub(crate) fn words(task: &TaskSeen) -> String {
    task.status.message.as_ref().map(model::Message::text).unwrap_or_default()
}

pub(crate) fn made(task: &TaskSeen) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(Part::as_text).collect()
}

fn opened(house: &House) -> u64 {
    house.engine.figures().tasks_opened
}

#[tokio::test]
async fn its_card_is_the_remote_agents_and_without_one_it_is_plain() {
    let far = House::scripted().await;
    let agent = remote(Options::new(&far.url)).await;
    let profile = agent.profile();
    assert_eq!((&*profile.name, profile.title.as_str(), profile.skills.len()), ("far", "Scripted", 2));
    let away = remote(Options::new("http://127.0.0.1:1")).await;
    assert_eq!((&*away.profile().name, away.profile().input_modes.as_slice()), ("far", &["*/*".to_owned()][..]));
    assert!(A2aAgent::connect("far", Options::new("nowhere")).await.unwrap_err().contains("https://host"));
}

#[tokio::test]
async fn work_is_passed_on_and_what_comes_of_it_is_passed_back() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        let task = tell(&client, "hello").await;
        assert_eq!((task.status.state, made(&task).as_str()), (Some(State::Completed), "hello"), "{form}");
        let task = tell(&client, "complete: all done").await;
        assert_eq!((task.status.state, words(&task).as_str()), (Some(State::Completed), "all done"), "{form}");
        let task = tell(&client, "fail: out of paper").await;
        assert_eq!((task.status.state, words(&task).as_str()), (Some(State::Failed), "out of paper"), "{form}");
        let task = tell(&client, "reject: not my job").await;
        assert_eq!((task.status.state, words(&task).as_str()), (Some(State::Rejected), "not my job"), "{form}");
        let task = tell(&client, "auth: sign in first").await;
        assert_eq!((task.status.state, words(&task).as_str()), (Some(State::AuthRequired), "sign in first"));
        let task = tell(&client, "file").await;
        assert_eq!(task.artifacts[0].parts[0].filename.as_deref(), Some("hello.txt"), "{form}");
        let script = r#"{"script":[{"metadata":{"usage":{"tokens":7}}},{"status":"working","text":"half way"},{"complete":"ok"}]}"#;
        let mut send = say("");
        send.message.parts = vec![Part::data(Json::parse(script).unwrap())];
        let task = task_of(client.send(&send).await.unwrap());
        assert_eq!(task.status.state, Some(State::Completed), "{form}");
        assert!(task.history.iter().any(|said| said.text() == "half way"), "{form}: {:?}", task.history);
    }
}

#[tokio::test]
async fn chunks_are_passed_on_as_they_come() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        let seen = all(client.stream(&say("chunks:20")).await.unwrap()).await;
        let chunks: Vec<(bool, bool, String)> = seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Artifact { artifact, append, last, .. } => {
                    Some((*append, *last, artifact.parts.iter().filter_map(Part::as_text).collect()))
                }
                _ => None,
            })
            .collect();
        let expected: Vec<(bool, bool, String)> =
            (0..20).map(|n| (n > 0, n == 19, format!("chunk {n} lorem ipsum "))).collect();
        assert_eq!(chunks, expected, "{form}");
        assert!(matches!(seen.last(), Some(Seen::Status { status, .. }) if status.state == Some(State::Completed)));
    }
}

#[tokio::test]
async fn a_question_is_answered_in_the_task_that_asked_it() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        let before = opened(&far);
        let script = r#"{"script":[{"input":"your name?"},{"input":"really?"},{"echo":true},{"complete":"thanks"}]}"#;
        let mut send = say("");
        send.message.parts = vec![Part::data(Json::parse(script).unwrap())];
        let first = task_of(client.send(&send).await.unwrap());
        assert_eq!((first.status.state, words(&first).as_str()), (Some(State::InputRequired), "your name?"));
        let answer = |text: &str| Send { task: Some(first.id.clone()), ..say(text) };
        let second = task_of(client.send(&answer("Ada")).await.unwrap());
        assert_eq!((second.status.state, words(&second).as_str()), (Some(State::InputRequired), "really?"), "{form}");
        let third = task_of(client.send(&answer("yes")).await.unwrap());
        assert_eq!((third.status.state, words(&third).as_str()), (Some(State::Completed), "thanks"), "{form}");
        assert_eq!(made(&third), "yes", "{form}");
        assert_eq!(opened(&far) - before, 1, "{form}: one task there for one here");
    }
}

#[tokio::test]
async fn a_direct_answer_is_one_here_too() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        match client.send(&say("message: hi")).await.unwrap() {
            Seen::Message { message, .. } => {
                assert_eq!((message.text().as_str(), form.generation != Generation::V0_1), ("hi", true), "{form}");
            }
            Seen::Task(task) => {
                assert_eq!(
                    (words(&task).as_str(), task.status.state, form.generation),
                    ("hi", Some(State::Completed), Generation::V0_1)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_cancel_is_passed_on() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        let settled = far.engine.figures().tasks_settled;
        let task = task_of(client.send(&Send { wait: Wait::Exists, ..say("hang") }).await.unwrap());
        until("the task is at work", async || {
            let task = client.get(&task.id, Some(0)).await.unwrap();
            (task.status.state == Some(State::Working)).then_some(())
        })
        .await;
        let canceled = client.cancel(&task.id, None).await.unwrap();
        assert_eq!(canceled.status.state, Some(State::Canceled), "{form}");
        until("the far task is over", async || (far.engine.figures().tasks_settled > settled).then_some(())).await;
    }
}

#[tokio::test]
async fn a_broken_connection_loses_nothing_and_repeats_nothing() {
    let far = House::scripted().await;
    let wire = Wire::to(far.address).await;
    for form in FORMS {
        let (_house, client) = near(options(&wire.url, form)).await;
        let before = opened(&far);
        let mut events = client.stream(&say("chunks:60 every:10")).await.unwrap();
        let (mut text, mut heard, mut state) = (String::new(), 0, None);
        while let Some(event) = events.next().await {
            match event.unwrap().seen {
                Seen::Artifact { artifact, append, .. } => {
                    if !append {
                        text.clear();
                    }
                    text.extend(artifact.parts.iter().filter_map(Part::as_text));
                    heard += 1;
                    if heard % 15 == 5 {
                        wire.cut();
                    }
                }
                Seen::Status { status, .. } => state = status.state,
                Seen::Task(_) | Seen::Message { .. } | Seen::Partial { .. } | Seen::Unread { .. } => {}
            }
        }
        let whole: String = (0..60).map(|n| format!("chunk {n} lorem ipsum ")).collect();
        assert_eq!((state, text), (Some(State::Completed), whole), "{form}");
        assert_eq!(opened(&far) - before, 1, "{form}");
    }
}

#[tokio::test]
async fn an_agent_that_is_away_is_waited_for_and_one_that_is_gone_is_given_up() {
    let far = House::scripted().await;
    for form in FORMS {
        let wire = Wire::to(far.address).await;
        let (_house, client) = near(Options { patience_ms: Some(400), ..options(&wire.url, form) }).await;
        let task = task_of(client.send(&Send { wait: Wait::Exists, ..say("hang") }).await.unwrap());
        let state = async || client.get(&task.id, Some(0)).await.unwrap();
        until("work", async || (state().await.status.state == Some(State::Working)).then_some(())).await;
        wire.sever();
        let failed =
            until("the end", async || Some(state().await).filter(|task| task.status.state == Some(State::Failed)))
                .await;
        assert!(words(&failed).contains("remote agent"), "{form}: {}", words(&failed));
        // A server that never existed.
        let task = tell(&client, "hello").await;
        assert_eq!(task.status.state, Some(State::Failed), "{form}");
        assert!(words(&task).contains("remote agent"), "{}", words(&task));
        // A server that comes back in time.
        let wire = Wire::to(far.address).await;
        let (_house, client) = near(options(&wire.url, form)).await;
        wire.sever();
        let task = task_of(client.send(&Send { wait: Wait::Exists, ..say("hello") }).await.unwrap());
        wire.mend();
        let state = async || client.get(&task.id, Some(0)).await.unwrap();
        let done =
            until("the end", async || Some(state().await).filter(|task| task.status.state == Some(State::Completed)))
                .await;
        assert_eq!(made(&done), "hello", "{form}");
    }
}

/// The near server dies during a turn, and another takes its data over: the far task is found again, not repeated.
#[test]
fn a_turn_that_a_crash_cut_off_is_found_again() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let far_side = runtime();
    let far = far_side.block_on(House::scripted());
    for form in FORMS {
        for text in ["chunks:30 every:20", "ask: still there?", "sleep:300"] {
            let folder = tempfile::tempdir().unwrap();
            let open = async || {
                let store = stores::sqlite::SqliteStore::open(stores::sqlite::Options {
                    durability: stores::sqlite::SqliteDurability::Relaxed,
                    ..stores::sqlite::Options::new(folder.path())
                });
                let agent = remote(options(&far.url, form)).await;
                Engine::builder(Arc::new(store.unwrap())).agents(vec![agent]).start().await.unwrap()
            };
            let place = || Arc::new(model::CallScope::tenant(model::Caller::anonymous(), "far", "a2a_v1"));
            let before = opened(&far);
            let first = runtime();
            let id = first.block_on(async {
                let engine = open().await;
                let answer = engine.send(&place(), Send { wait: Wait::Exists, ..say(text) }).await.unwrap();
                let engine::SendAnswer::Task(task) = answer else { panic!() };
                until("the binding", async || {
                    let task = engine.get(&place(), &task.id.to_string()).await.unwrap();
                    task.bound.clone()
                })
                .await;
                task.id.to_string()
            });
            // Everything stops here.
            drop(first);
            let second = runtime();
            second.block_on(async {
                let engine = open().await;
                let task = until("the end", async || {
                    let task = engine.get(&place(), &id).await.unwrap();
                    task.core.is_at_rest().then_some(task)
                })
                .await;
                let made: String = task.artifacts.iter().flat_map(|a| &a.parts).filter_map(Part::as_text).collect();
                if text.starts_with("chunks") {
                    let whole: String = (0..30).map(|n| format!("chunk {n} lorem ipsum ")).collect();
                    assert_eq!((task.state(), made), (State::Completed, whole), "{form}");
                } else if text.starts_with("ask") {
                    assert_eq!(task.state(), State::InputRequired, "{form}");
                    let answer = Send { task: Some(id.clone()), ..say("complete: yes") };
                    let engine::SendAnswer::Task(task) = engine.send(&place(), answer).await.unwrap() else { panic!() };
                    assert_eq!(task.state(), State::Completed, "{form}");
                } else {
                    assert_eq!(task.state(), State::Completed, "{form}");
                }
            });
            assert_eq!(opened(&far) - before, 1, "{form}: {text}");
        }
    }
}

/// A turn that was sent and never answered is sent again with the same bytes by the server that takes the data
/// over.
#[test]
fn a_turn_that_a_crash_cut_off_unanswered_is_sent_again_as_it_was() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let far_side = runtime();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let url = far_side.block_on(fake(move |asked| {
        if asked.verb == "GET" {
            return Say::Json(404, String::new());
        }
        let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        heard.send((asked.headers["idempotency-key"].clone(), body["params"].to_string())).unwrap();
        Say::Silence
    }));
    let folder = tempfile::tempdir().unwrap();
    let open = async || {
        let store = stores::sqlite::SqliteStore::open(stores::sqlite::Options {
            durability: stores::sqlite::SqliteDurability::Relaxed,
            ..stores::sqlite::Options::new(folder.path())
        });
        let agent = remote(options(&url, Generation::V0_3)).await;
        Engine::builder(Arc::new(store.unwrap())).agents(vec![agent]).start().await.unwrap()
    };
    let first = runtime();
    let sent = first.block_on(async {
        let engine = open().await;
        let place = Arc::new(model::CallScope::tenant(model::Caller::anonymous(), "far", "a2a_v1"));
        let mut send = Send { wait: Wait::Exists, ..say("hello") };
        send.message.metadata = Some(Delegation { deadline_ms: Some(60_000), ..Delegation::default() }.write(None));
        engine.send(&place, send).await.unwrap();
        hears.recv().await.unwrap()
    });
    drop(first);
    let second = runtime();
    let again = second.block_on(async {
        let _engine = open().await;
        hears.recv().await.unwrap()
    });
    assert_eq!(sent, again);
}

/// A server of 0.3 without idempotency keys and streams.
fn plain_server(asked: &Asked, state: &'static str) -> Say {
    let result = |result: String| Say::Json(200, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
    let task = |state: &str, more: &str| {
        format!(r#"{{"kind":"task","id":"t","contextId":"theirs","status":{{"state":"{state}"}}{more}}}"#)
    };
    if asked.verb == "GET" {
        return match asked.path.as_str() {
            "/.well-known/agent.json" => {
                let here = &asked.headers["host"];
                Say::Json(
                    200,
                    format!(
                        r#"{{"name":"Plain","url":"http://{here}/rpc","version":"1","protocolVersion":"0.2.6","capabilities":{{}},"defaultInputModes":["text"],"skills":[]}}"#
                    ),
                )
            }
            _ => Say::Json(404, String::new()),
        };
    }
    match asked.method().as_str() {
        "message/send" => result(task("working", "")),
        "tasks/get" => {
            result(task(state, r#","artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"plain"}]}]"#))
        }
        _ => Say::Json(200, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#.into()),
    }
}

#[tokio::test]
async fn an_agent_that_does_not_stream_is_looked_at_until_it_is_done() {
    let url = fake(|asked| plain_server(asked, "completed")).await;
    let (_house, client) = near(Options::new(&url)).await;
    let task = tell(&client, "hello").await;
    assert_eq!((task.status.state, made(&task).as_str()), (Some(State::Completed), "plain"));
    assert_eq!(task.artifacts.len(), 1);
}

#[tokio::test]
async fn what_the_other_side_refuses_is_told_in_its_words_without_our_secrets() {
    for (code, state, says) in [
        (-32602, State::Rejected, "the remote agent refused: bad [secret]"),
        (-32005, State::Rejected, "the remote agent refused: bad [secret]"),
        (-32603, State::Failed, "the remote agent failed: bad [secret]"),
        (-32041, State::Failed, "does not accept our credentials: bad [secret]"),
    ] {
        let url = fake(move |asked| match asked.verb.as_str() {
            "GET" => Say::Json(404, String::new()),
            _ => Say::Json(
                200,
                format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"bad hunter2"}}}}"#),
            ),
        })
        .await;
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&secret, "hunter2").unwrap();
        let text =
            format!(r#"{{"url":"{url}","generation":"1.0","auth":{{"bearer":"file:{}"}}}}"#, secret.path().display());
        let (_house, client) = near(serde_json::from_str(&text).unwrap()).await;
        let task = tell(&client, "hello").await;
        assert_eq!(task.status.state, Some(state), "{code}: {}", words(&task));
        assert!(words(&task).contains(says), "{code}: {}", words(&task));
    }
}

/// The requests to a far server, and how many.
#[tokio::test]
async fn a_turn_has_one_message_id_and_one_key_and_says_how_it_was_passed_on() {
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let url = fake(move |asked| {
        if asked.verb == "GET" {
            return Say::Json(404, String::new());
        }
        if asked.method() == "ListTasks" {
            return Say::Json(200, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no lists"}}"#.into());
        }
        let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        let first = heard.send((asked.headers["idempotency-key"].clone(), body["params"].clone())).is_ok();
        assert!(first);
        Say::HangUp
    })
    .await;
    let (_house, client) = near(Options { patience_ms: Some(250), ..options(&url, Generation::V1_0) }).await;
    let mut send = say("hello");
    send.message.metadata = Json::parse(r#"{"mine":1}"#);
    send.context = Some("c".into());
    let failed = task_of(client.send(&send).await.unwrap());
    assert_eq!(failed.status.state, Some(State::Failed));
    let mut all = Vec::new();
    while let Ok(one) = hears.try_recv() {
        all.push(one);
    }
    assert!(all.len() >= 2, "it is tried again");
    assert!(all.iter().all(|one| *one == all[0]), "and always the same: {all:?}");
    let (key, params) = &all[0];
    assert_eq!(params["message"]["messageId"], key.as_str());
    assert_eq!(params["message"]["metadata"]["mine"], 1);
    assert_eq!(params["message"]["metadata"][KEY]["hops"], 1);
    // Our context has another id there, always the same one.
    let theirs = params["message"]["contextId"].as_str().unwrap().to_owned();
    assert_ne!(theirs, "c");
    client.send(&send).await.unwrap();
    assert_eq!(hears.recv().await.unwrap().1["message"]["contextId"], theirs.as_str());
}

#[tokio::test]
async fn a_ring_of_agents_is_broken_before_a_task_exists() {
    // Near's agent is far, and far's agent is near.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let far_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (near_house, client) = near(Options { patience_ms: Some(5_000), ..Options::new(&far_url) }).await;
    let back: Arc<dyn Agent> = Arc::new(A2aAgent::connect("back", Options::new(&near_house.url)).await.unwrap());
    let far = House::serving(vec![back], &[]).await;
    let wire = Wire::at(&far_url, far.address).await;
    let task = tell(&client, "hello").await;
    assert_eq!(task.status.state, Some(State::Rejected), "{}", words(&task));
    assert!(words(&task).contains("break the ring"), "{}", words(&task));
    drop(wire);
}

#[tokio::test]
async fn a_message_that_was_passed_on_too_often_or_too_late_is_refused() {
    let far = House::scripted().await;
    let (_house, client) = near(Options { max_hops: Some(2), ..Options::new(&far.url) }).await;
    let passed = |hops: u32, deadline_ms: Option<u64>, text: &str| {
        let mut send = say(text);
        send.message.metadata = Some(Delegation { hops, visited: vec![], deadline_ms }.write(None));
        send
    };
    assert_eq!(task_of(client.send(&passed(1, None, "hello")).await.unwrap()).status.state, Some(State::Completed));
    let before = opened(&far);
    for send in [passed(2, None, "hello"), passed(0, Some(0), "hello")] {
        assert_eq!(client.send(&send).await.unwrap_err().kind, Kind::InvalidParams);
    }
    assert_eq!(opened(&far), before);
    let late = task_of(client.send(&passed(0, Some(300), "hang")).await.unwrap());
    assert_eq!((late.status.state, words(&late).contains("run out")), (Some(State::Failed), true));
    until("the far task is canceled", async || (far.engine.figures().turns_running == 0).then_some(())).await;
}

#[tokio::test]
async fn what_is_said_to_a_task_at_work_is_passed_on_when_its_turn_comes() {
    let far = House::scripted().await;
    for form in FORMS {
        let (_house, client) = near(options(&far.url, form)).await;
        let task = task_of(client.send(&Send { wait: Wait::Exists, ..say("sleep:300") }).await.unwrap());
        let more = Send { task: Some(task.id.clone()), ..say("and this") };
        let done = task_of(client.send(&more).await.unwrap());
        assert_eq!((done.status.state, made(&done).as_str()), (Some(State::Completed), "and this"), "{form}");
    }
}

#[tokio::test(start_paused = false)]
async fn every_case_ends() {
    // A silent server holds a turn up only for its time limit.
    let url = fake(|asked| if asked.verb == "GET" { Say::Json(404, String::new()) } else { Say::Silence }).await;
    let options =
        Options { first_byte_timeout_ms: Some(200), patience_ms: Some(100), ..options(&url, Generation::V1_0) };
    let (_house, client) = near(options).await;
    let task = tokio::time::timeout(Duration::from_secs(10), tell(&client, "hello")).await.unwrap();
    assert!(words(&task).contains("did not answer"), "{}", words(&task));
}
