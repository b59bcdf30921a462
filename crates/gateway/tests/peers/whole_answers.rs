//! Tests of turns that ask the remote agent for their whole answer in one request.

use std::sync::{Arc, Mutex};

use client::{Client, Generation, say};
use engine::Engine;
use futures_util::stream::BoxStream;
use model::ports::agent::{Admission, Agent, AgentEvent, Profile, Turn};
use model::{Fault, Inbound, Json, Part, Send, State, Task, Wait};

use crate::common::{Asked, House, Say, fake, until};
use agents::a2a::{AskMode, Options};

use crate::a2a::{all, made, near, options, remote, task_of, tell, words};

/// Wraps an agent, and notes of each turn whether its whole answer was requested.
struct Noting {
    inner: Arc<dyn Agent>,
    whole: Arc<Mutex<Vec<bool>>>,
}

impl Agent for Noting {
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }
    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        self.inner.admit(message, task)
    }
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        self.whole.lock().unwrap().push(turn.whole);
        self.inner.run(turn)
    }
}

/// A far server, and the notes on its turns.
async fn noting() -> (House, Arc<Mutex<Vec<bool>>>) {
    let whole = Arc::<Mutex<Vec<bool>>>::default();
    let inner = agents::builtin("scripted", &agents::BuiltinSettings::default()).unwrap();
    (House::serving(vec![Arc::new(Noting { inner, whole: whole.clone() })], &[]).await, whole)
}

/// Sends short messages until whole answers are requested.
async fn acquainted(client: &Client, whole: &Mutex<Vec<bool>>) {
    until("a turn asked for whole", async || {
        assert_eq!(made(&tell(client, "hello").await), "hello");
        (whole.lock().unwrap().last() == Some(&true)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_short_turn_that_nobody_follows_is_asked_for_whole() {
    for (generation, wholly) in [(Generation::V1_0, true), (Generation::V0_3, false), (Generation::V0_1, false)] {
        let (far, whole) = noting().await;
        let (_house, client) = near(options(&far.url, generation)).await;
        if wholly {
            acquainted(&client, &whole).await;
        }
        let asked = || std::mem::take(&mut *whole.lock().unwrap());
        asked();
        // Messages on the way are in the history, once, however they came.
        let script = r#"{"script":[{"status":"working","text":"half way"},{"status":"working","text":"nearly"},{"complete":"ok"}]}"#;
        let mut send = say("");
        send.message.parts = vec![Part::data(Json::parse(script).unwrap())];
        let task = task_of(client.send(&send).await.unwrap());
        let said: Vec<String> = task.history.iter().map(model::Message::text).filter(|text| !text.is_empty()).collect();
        assert_eq!((words(&task).as_str(), &said[..2]), ("ok", &["half way".to_owned(), "nearly".to_owned()][..]));
        assert_eq!(asked(), [wholly], "{generation}");
        // Callers that stream, or do not wait, get everything as it arrives.
        all(client.stream(&say("hello")).await.unwrap()).await;
        let task = task_of(client.send(&Send { wait: Wait::Exists, ..say("hello") }).await.unwrap());
        until("the end", async || client.get(&task.id, None).await.unwrap().status.state.filter(|s| s.is_terminal()))
            .await;
        assert_eq!(asked(), [false, false], "{generation}");
        // A large message is not requested back, so its task cannot be found.
        tell(&client, &"large ".repeat(5_000)).await;
        assert_eq!(asked(), [false], "{generation}");
        // A question and its answer.
        let asks = tell(&client, "ask: who?").await;
        let answer = Send { task: Some(asks.id.clone()), ..say("complete: me") };
        assert_eq!(words(&task_of(client.send(&answer).await.unwrap())), "me", "{generation}");
        assert_eq!(asked(), [wholly, false], "{generation}");
        let task = tell(&client, "fail: out of paper").await;
        assert_eq!((task.status.state, words(&task).as_str()), (Some(State::Failed), "out of paper"), "{generation}");
    }
    // Nor where the config forbids it.
    let (far, whole) = noting().await;
    let (_house, client) = near(Options { ask: AskMode::Stream, ..options(&far.url, Generation::V1_0) }).await;
    for _ in 0..3 {
        tell(&client, "hello").await;
    }
    assert_eq!(*whole.lock().unwrap(), [false; 3]);
}

/// The sender that chose a task's id can cancel it before any answer.
#[tokio::test]
async fn a_cancel_reaches_a_turn_that_was_asked_for_whole() {
    let (far, whole) = noting().await;
    let (house, client) = near(options(&far.url, Generation::V1_0)).await;
    acquainted(&client, &whole).await;
    let old = client::Options { generation: Some(Generation::V0_1), ..client::Options::new(&house.url) };
    let old = Client::new(old).unwrap();
    let sending = tokio::spawn({
        let (old, send) = (old.clone(), Send { alias: Some("mine".into()), ..say("hang") });
        async move { old.send(&send).await }
    });
    until("work", async || (far.engine.figures().turns_running == 1).then_some(())).await;
    assert_eq!(whole.lock().unwrap().last(), Some(&true));
    let canceled = old.cancel("mine", None).await.unwrap();
    assert_eq!(canceled.status.state, Some(State::Canceled));
    assert_eq!(task_of(sending.await.unwrap().unwrap()).status.state, Some(State::Canceled));
    until("the far task is over", async || (far.engine.figures().turns_running == 0).then_some(())).await;
    let page = Client::new(client::Options::new(&far.url)).unwrap().list(&LAST).await.unwrap();
    assert_eq!(page.tasks[0].status.state, Some(State::Canceled), "by us, and not by its clock");
}

const LAST: model::List = model::List {
    context: None,
    state: None,
    since: None,
    page_size: Some(1),
    page_token: None,
    history: Some(0),
    artifacts: false,
};

#[tokio::test]
async fn a_turn_that_is_not_short_after_all_is_found_and_followed() {
    let (far, whole) = noting().await;
    let (_house, client) = near(options(&far.url, Generation::V1_0)).await;
    acquainted(&client, &whole).await;
    let asked = || std::mem::take(&mut *whole.lock().unwrap());
    asked();
    let sending = tokio::spawn({
        let client = client.clone();
        async move { tell(&client, "chunks:150 every:20").await }
    });
    // The working task is visible before it ends.
    until("progress", async || {
        let page = client.list(&model::List { artifacts: true, ..LAST }).await.unwrap();
        let task = page.tasks.into_iter().next()?;
        (task.status.state == Some(State::Working) && !made(&task).is_empty()).then_some(())
    })
    .await;
    let expected: String = (0..150).map(|n| format!("chunk {n} lorem ipsum ")).collect();
    assert_eq!(made(&sending.await.unwrap()), expected);
    // The next turns are streamed.
    tell(&client, "hello").await;
    assert_eq!(asked(), [true, false]);
}

#[tokio::test]
async fn what_was_said_before_a_turn_is_followed_is_not_lost() {
    let (far, whole) = noting().await;
    let (_house, client) = near(options(&far.url, Generation::V1_0)).await;
    acquainted(&client, &whole).await;
    let script = r#"{"script":[{"status":"working","text":"one"},{"status":"working","text":"two"},{"hang":true}]}"#;
    let mut send = say("");
    send.message.parts = vec![Part::data(Json::parse(script).unwrap())];
    let sending = tokio::spawn({
        let client = client.clone();
        async move { client.send(&send).await }
    });
    let task = until("both words", async || {
        let page = client.list(&model::List { history: Some(9), ..LAST }).await.unwrap();
        let task = page.tasks.into_iter().next()?;
        (words(&task) == "two").then_some(task)
    })
    .await;
    assert_eq!(whole.lock().unwrap().last(), Some(&true));
    let said: Vec<String> = task.history.iter().map(model::Message::text).filter(|text| !text.is_empty()).collect();
    assert_eq!(said.first().map(String::as_str), Some("one"));
    client.cancel(&task.id, None).await.unwrap();
    assert_eq!(task_of(sending.await.unwrap().unwrap()).status.state, Some(State::Canceled));
    until("the far task is over", async || (far.engine.figures().turns_running == 0).then_some(())).await;
}

/// A server of 1.0 without idempotency keys: it executes every request.
#[derive(Default)]
struct Keyless {
    methods: Mutex<Vec<String>>,
    /// The messages that opened its tasks.
    began: Mutex<Vec<serde_json::Value>>,
}

impl Keyless {
    fn answer(&self, asked: &Asked) -> Say {
        if asked.verb == "GET" {
            return Say::Json(404, String::new());
        }
        let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        let method = asked.method();
        self.methods.lock().unwrap().push(method.clone());
        let result =
            |result: serde_json::Value| serde_json::json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
        let mut began = self.began.lock().unwrap();
        let task = |n: usize, began: &serde_json::Value| {
            serde_json::json!({
                "id": format!("t{n}"), "contextId": began["contextId"], "status": {"state": "TASK_STATE_COMPLETED"},
                "history": [began], "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}],
            })
        };
        let tasks = |began: &[serde_json::Value]| -> Vec<serde_json::Value> {
            began.iter().enumerate().map(|(n, one)| task(n, one)).collect()
        };
        let json = |value: serde_json::Value| Say::Json(200, value.to_string());
        match method.as_str() {
            "ListTasks" => {
                let all = tasks(&began);
                let context = &body["params"]["contextId"];
                let ours: Vec<_> = all.into_iter().filter(|task| task["contextId"] == *context).collect();
                json(result(serde_json::json!({"tasks": ours, "nextPageToken": "", "pageSize": 20, "totalSize": 1})))
            }
            "GetTask" => {
                let all = tasks(&began);
                json(result(all.into_iter().find(|task| task["id"] == body["params"]["id"]).unwrap()))
            }
            "SendMessage" | "SendStreamingMessage" => {
                let message = body["params"]["message"].clone();
                if method == "SendMessage" && message["parts"][0]["text"] == "only streams" {
                    let error = serde_json::json!({"code": -32601, "message": "only streams here"});
                    return json(serde_json::json!({"jsonrpc": "2.0", "id": body["id"], "error": error}));
                }
                let silent = message["parts"][0]["text"] == "silence";
                began.push(message);
                let whole = result(serde_json::json!({"task": tasks(&began).pop().unwrap()}));
                match method.as_str() {
                    _ if silent => Say::Silence,
                    "SendMessage" => json(whole),
                    _ => Say::Events(vec![format!("data: {whole}\n\n")]),
                }
            }
            other => panic!("{other}"),
        }
    }
}

/// A turn that asked for a whole answer and that a crash interrupted is found by its message, where no key prevents
/// a second execution.
#[test]
fn a_turn_that_was_asked_for_whole_is_found_again_after_a_crash() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let far_side = runtime();
    let far = Arc::new(Keyless::default());
    let url = far_side.block_on(fake({
        let far = far.clone();
        move |asked| far.answer(asked)
    }));
    let folder = tempfile::tempdir().unwrap();
    let open = async || {
        let store = stores::sqlite::SqliteStore::open(stores::sqlite::Options {
            durability: stores::sqlite::SqliteDurability::Relaxed,
            ..stores::sqlite::Options::new(folder.path())
        });
        let agent = remote(options(&url, Generation::V1_0)).await;
        Engine::builder(Arc::new(store.unwrap())).agents(vec![agent]).start().await.unwrap()
    };
    let place = || Arc::new(model::CallScope::tenant(model::Caller::anonymous(), "far", "a2a_v1"));
    let methods = || far.methods.lock().unwrap().clone();
    let first = runtime();
    first.block_on(async {
        let engine = open().await;
        until("a turn asked for whole", async || {
            let engine::SendAnswer::Task(task) = engine.send(&place(), say("hello")).await.unwrap() else { panic!() };
            assert_eq!(task.state(), State::Completed);
            (methods().last()? == "SendMessage").then_some(())
        })
        .await;
        assert_eq!(methods()[0], "SendStreamingMessage");
        let (engine, at) = (engine.clone(), place());
        let asked = methods().len();
        tokio::spawn(async move { engine.send(&at, say("silence")).await });
        until("the request", async || (methods().len() > asked).then_some(())).await;
        assert_eq!(methods().last().unwrap(), "SendMessage");
    });
    drop(first);
    let began = far.began.lock().unwrap().len();
    runtime().block_on(async {
        let engine = open().await;
        until("the end", async || (engine.figures().tasks_settled == 1).then_some(())).await;
        let page = engine.list(&place(), &LAST).await.unwrap();
        assert_eq!(page.tasks[0].state(), State::Completed);
    });
    assert_eq!(far.began.lock().unwrap().len(), began, "it was not sent again: {:?}", methods());
    assert_eq!(&methods()[methods().len() - 2..], ["ListTasks", "GetTask"]);
}

#[tokio::test]
async fn an_agent_that_has_streams_and_nothing_else_is_streamed() {
    let far = Arc::new(Keyless::default());
    let url = fake({
        let far = far.clone();
        move |asked| far.answer(asked)
    })
    .await;
    let (_house, client) = near(options(&url, Generation::V1_0)).await;
    let last = |count: usize| {
        let methods = far.methods.lock().unwrap();
        methods[methods.len().saturating_sub(count)..].to_vec()
    };
    until("a turn asked for whole", async || {
        tell(&client, "hello").await;
        (last(1)[0] == "SendMessage").then_some(())
    })
    .await;
    let task = tell(&client, "only streams").await;
    assert_eq!((task.status.state, made(&task).as_str()), (Some(State::Completed), "done"));
    assert_eq!(last(2), ["SendMessage", "SendStreamingMessage"]);
    tell(&client, "hello").await;
    assert_eq!(last(1), ["SendStreamingMessage"], "it is not tried again");
}
