//! Aly's endpoints over their socket: who may ask what, tasks by every name and route, streams, push configs, cards.

use std::sync::Arc;

use engine::Engine;
use gateway::settings::{AuthMode, MountSettings};
use gateway::webhooks::{HttpPost, HttpWebhookSender, Options, OutboundPolicy, Seal, SystemResolver};
use gateway::{GatewayVersion, Settings};
use model::ports::Future;
use model::{Content, Fault, Message, Task};
use serde_json::{Value, json};
use shop::admission::{Needs, ShopCard, StoreAdmission};
use shop::aly::SCOPES;
use shop::oauth::NewWorkspaceKey;
use shop::{self, ShopService, StoreAgentSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use testkit::{As, Running, key, settings, start_on, until};

/// The admission of two sites, each in its own workspace. The agent behind it plays a script.
pub(crate) struct Keeper;

impl StoreAdmission for Keeper {
    fn needs<'a>(&'a self, _task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>> {
        let data = message.parts.iter().find_map(|part| match &part.content {
            Content::Data(json) => Some(json.to_value()),
            _ => None,
        });
        Box::pin(async move {
            let Some(data) = data else { return Ok(Needs::default()) };
            let skill = data["skill"].as_str().unwrap_or("product-search");
            if !["product-search", "cart-management", "checkout"].contains(&skill) {
                return Err(Fault::params("skill", format!("there is no skill {skill}")));
            }
            let workspace = match data["site_slug"].as_str() {
                Some("acme") => Some("acme-ws".into()),
                Some("other") => Some("other-ws".into()),
                _ => None,
            };
            Ok(Needs { scope: self.scope(skill), workspace })
        })
    }

    fn scope(&self, skill: &str) -> Option<&'static str> {
        matches!(skill, "cart-management" | "checkout").then_some("write:orders")
    }

    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<ShopCard>, Fault>> {
        let shop = (host == "acme.shop.example").then(|| ShopCard {
            slug: "acme".into(),
            title: "Acme".into(),
            description: Some("Hats".into()),
        });
        Box::pin(async move { Ok(shop) })
    }
}

pub(crate) async fn open(change: impl FnOnce(&mut Settings, &mut StoreAgentSettings)) -> Running {
    gateway::crypto::install();
    let store = Arc::new(stores::memory::MemoryStore::new());
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let policy = OutboundPolicy { loopback: true, ..OutboundPolicy::default() };
    let post = Arc::new(HttpPost::new(policy, Arc::new(SystemResolver)));
    let options = Options { post, product_wires: vec![&shop::aly::WIRE], ..Options::default() };
    let courier = HttpWebhookSender::new(store.clone(), Seal::new(&[1; 32]).unwrap(), None, options).unwrap();
    let engine = Engine::builder(store).agents(agents).webhook_sender(Some(Arc::new(courier))).start().await.unwrap();
    let (mut settings, mut aly) = (settings(), StoreAgentSettings::new("scripted", Arc::new(Keeper)));
    settings.keys = vec![key("house", "acme-ws")];
    change(&mut settings, &mut aly);
    settings.products.push(Arc::new(ShopService::new(engine.clone(), aly)));
    settings.product_scopes = SCOPES.iter().map(|(name, _)| *name).collect();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    start_on(engine, settings, http).await
}

async fn plain() -> Running {
    open(|_, _| {}).await
}

/// A key of a workspace.
pub(crate) async fn key_of(running: &Running, workspace: &str, scopes: &[&str]) -> String {
    let server: Arc<GatewayVersion> = running.serving.now();
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let new = NewWorkspaceKey { workspace: workspace.into(), name: "a test".into(), scopes, expires_at: None };
    server.product::<ShopService>().unwrap().oauth().make_key(new).await.unwrap().0
}

fn saying(text: &str) -> Value {
    json!({ "message": { "messageId": "msg_1", "contextId": "ctx_4f11", "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

fn wanting(data: &Value) -> Value {
    let part = json!({ "mediaType": "application/json", "data": data });
    json!({ "message": { "messageId": "msg_2", "contextId": "ctx_4f11", "role": "ROLE_USER", "parts": [part] } })
}

fn cart(site: &str) -> Value {
    wanting(&json!({ "skill": "cart-management", "action": "create", "site_slug": site }))
}

/// The answer to a JSON-RPC request; its HTTP status is always the same.
pub(crate) async fn ask(running: &Running, token: Option<&str>, method: &str, params: &Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": "req_1", "method": method, "params": params });
    let mut request = running.post("/api/a2a", &body).header("a2a-version", "1.0");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status(), &answer.headers()["a2a-version"]), (reqwest::StatusCode::OK, &"1.0".parse().unwrap()));
    assert_eq!(answer.headers()["x-a2a-dialect"], "aly");
    let answer: Value = answer.json().await.unwrap();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("req_1")));
    answer
}

pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no refusal: {answer}"))
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("no task: {task}"))
}

/// An HTTP+JSON answer: its status and body.
async fn http(request: reqwest::RequestBuilder, token: Option<&str>) -> (u16, Value) {
    let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["a2a-version"], "1.0");
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A task that stays open, of a workspace, and its id.
async fn asking(running: &Running, token: &str) -> String {
    let task = ask(running, Some(token), "SendMessage", &saying("ask: which colour?")).await["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(task["history"].as_array().unwrap().last(), Some(&task["status"]["message"]));
    task["id"].as_str().unwrap().to_owned()
}

/// The data of the frames of a stream, which has ended.
fn frames(text: &str) -> Vec<Value> {
    let data = |line: &str| line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
    text.lines().filter_map(data).collect()
}

#[tokio::test]
async fn a_message_opens_a_task_that_is_found_by_every_name() {
    let running = plain().await;
    let token = key_of(&running, "acme-ws", &[]).await;
    let sent = ask(&running, Some(&token), "SendMessage", &saying("Search for hats on store acme.")).await;
    let task = &sent["result"]["task"];
    assert_eq!((state(task), &task["contextId"]), ("TASK_STATE_COMPLETED", &json!("ctx_4f11")));
    assert_eq!(task["history"][0]["parts"][0]["text"], "Search for hats on store acme.");
    assert!(task["artifacts"].is_array() && task["metadata"].is_object(), "{task}");
    let id = task["id"].as_str().unwrap();
    assert!(id.starts_with("task_") && id.len() == 37, "{id}");
    for params in [json!({ "id": id }), json!({ "taskId": id }), json!({ "task_id": id, "historyLength": 0 })] {
        assert_eq!(&ask(&running, Some(&token), "GetTask", &params).await["result"], task, "{params}");
        // Also once it is kept.
        assert_eq!(&ask(&running, Some(&token), "GetTask", &params).await["result"], task, "{params}");
    }
    for mount in ["", "/aly"] {
        let (status, found) = http(running.get(&format!("{mount}/api/a2a/tasks/{id}")), Some(&token)).await;
        assert_eq!((status, &found), (200, task));
    }
    // A structured payload, in the other spelling, over the other binding; the task it names is of no interest.
    let data = json!({ "skill": "product-search", "site_slug": "acme" });
    let message = json!({ "message_id": "m", "task_id": id, "role": "ROLE_USER", "parts": [{ "data": data, "media_type": "application/json" }] });
    let (status, other) =
        http(running.post("/api/a2a/message:send", &json!({ "message": message })), Some(&token)).await;
    assert_eq!((status, state(&other["task"])), (200, "TASK_STATE_COMPLETED"), "{other}");
    assert_ne!(other["task"]["id"], task["id"]);
    let context = other["task"]["contextId"].as_str().unwrap();
    assert!(context.starts_with("ctx_") && context.len() == 36, "{context}");
    // The same message again is another task.
    let again = ask(&running, Some(&token), "SendMessage", &saying("Search for hats on store acme.")).await;
    assert_ne!(again["result"]["task"]["id"], task["id"]);
    // A request that wants no answer is carried out all the same.
    let body = json!({ "jsonrpc": "2.0", "method": "SendMessage", "params": saying("quietly") });
    let answer = running.post("/api/a2a", &body).bearer_auth(&token).send().await.unwrap();
    assert_eq!(answer.status(), 204);
    let all = ask(&running, Some(&token), "ListTasks", &json!({})).await;
    assert_eq!(all["result"]["totalSize"], 4);
}

#[tokio::test]
async fn skills_with_a_scope_are_refused_before_there_is_a_task() {
    let running = plain().await;
    let full = key_of(&running, "acme-ws", &[]).await;
    let writes = key_of(&running, "acme-ws", &["read:orders", "write:orders"]).await;
    let reads = key_of(&running, "acme-ws", &["read:orders"]).await;
    let foreign = key_of(&running, "other-ws", &["write:orders"]).await;
    for method in ["SendMessage", "SendStreamingMessage"] {
        let refused = async |token: Option<&str>| code(&ask(&running, token, method, &cart("acme")).await);
        assert_eq!(refused(None).await, -32000);
        assert_eq!(refused(Some(&reads)).await, -32003);
        assert_eq!(refused(Some(&foreign)).await, -32003, "another workspace's shop");
        assert_eq!(refused(Some("aly_nothing")).await, -32000);
        let unknown = wanting(&json!({ "skill": "juggling", "site_slug": "acme" }));
        assert_eq!(code(&ask(&running, Some(&full), method, &unknown).await), -32602);
    }
    for (path, body) in [
        ("message:send", cart("acme")),
        ("message:stream", cart("acme")),
        ("streaming", json!({ "params": cart("acme") })),
    ] {
        let post = || running.post(&format!("/api/a2a/{path}"), &body);
        let (status, refused) = http(post(), None).await;
        assert_eq!((status, code(&refused)), (401, -32000), "{path}");
        let (status, refused) = http(post(), Some(&reads)).await;
        assert_eq!((status, code(&refused)), (403, -32003), "{path}");
    }
    for workspace in [&full, &foreign] {
        let all = ask(&running, Some(workspace), "ListTasks", &json!({})).await;
        assert_eq!(all["result"]["totalSize"], 0, "nothing is kept of what is refused");
    }
    for token in [&*full, &writes, "key-of-house"] {
        let done = ask(&running, Some(token), "SendMessage", &cart("acme")).await;
        assert_eq!(state(&done["result"]["task"]), "TASK_STATE_COMPLETED", "{done}");
    }
}

#[tokio::test]
async fn tasks_are_for_tokens_of_their_workspace() {
    let running = plain().await;
    let ours = key_of(&running, "acme-ws", &["read:analytics"]).await;
    let theirs = key_of(&running, "other-ws", &[]).await;
    // Of a sender without a token the task is the shop's.
    let public = wanting(&json!({ "skill": "product-search", "site_slug": "acme" }));
    let session = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1In0.c2ln";
    let mut ids = Vec::new();
    for token in [None, Some(session)] {
        let sent = ask(&running, token, "SendMessage", &public).await;
        assert_eq!(state(&sent["result"]["task"]), "TASK_STATE_COMPLETED", "{sent}");
        ids.push(sent["result"]["task"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ask(&running, Some(&ours), "ListTasks", &json!({})).await["result"]["totalSize"], 2);
    assert_eq!(ask(&running, Some(&theirs), "ListTasks", &json!({})).await["result"]["totalSize"], 0);
    let named = json!({ "id": ids[0], "taskId": ids[0], "url": "https://h.example/1" });
    for method in shop::aly::decode::METHODS.iter().filter(|method| !method.starts_with("Send")) {
        assert_eq!(code(&ask(&running, None, method, &named).await), -32000, "{method}");
        assert_eq!(code(&ask(&running, Some(session), method, &named).await), -32000, "{method}");
        assert_eq!(code(&ask(&running, Some("aly_oauth_x"), method, &named).await), -32000, "{method}");
        if *method != "ListTasks" {
            let hidden = if *method == "CancelTask" { -32002 } else { -32001 };
            assert_eq!(code(&ask(&running, Some(&theirs), method, &named).await), hidden, "{method}");
        }
    }
    let missing = json!({ "id": "task_01977c3a000070008000000000000000" });
    let refusal = |answer: Value| answer["error"].clone();
    let other = json!({ "id": ids[0] });
    assert_eq!(
        refusal(ask(&running, Some(&theirs), "GetTask", &other).await),
        refusal(ask(&running, Some(&theirs), "GetTask", &missing).await),
        "another's looks like none"
    );
    let path = format!("/api/a2a/tasks/{}", ids[0]);
    let answer = running.get(&path).send().await.unwrap();
    let how = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert_eq!(answer.status(), 401);
    assert!(
        how.contains("resource_metadata=\"http://") && how.contains("/.well-known/oauth-protected-resource"),
        "{how}"
    );
    assert_eq!(http(running.get(&path), Some(session)).await.0, 401);
    let (status, body) = http(running.get(&path), Some(&theirs)).await;
    assert_eq!((status, code(&body)), (404, -32001));
    assert_eq!(http(running.get(&path), Some(&ours)).await.0, 200);
    assert_eq!(running.get(&path).caller("house").send().await.unwrap().status(), 200);
    // Every caller is told of mistakes in its request.
    assert_eq!(code(&ask(&running, None, "tasks/get", &named).await), -32601);
    for (text, expected) in [("{", -32700), ("[]", -32600), (r#"{"jsonrpc":"2.0","id":1}"#, -32600)] {
        let url = running.url("/api/a2a");
        let request = reqwest::Client::new().post(url).header("content-type", "application/json").body(text);
        assert_eq!(code(&request.send().await.unwrap().json().await.unwrap()), expected, "{text}");
    }
    assert_eq!(code(&ask(&running, None, "SendMessage", &json!({ "message": {} })).await), -32602);
}

#[tokio::test]
async fn where_everybody_must_be_known_nothing_is_public_unless_the_mount_says_so() {
    let closed = open(|settings, _| settings.auth_required = true).await;
    assert_eq!(code(&ask(&closed, None, "SendMessage", &saying("hi")).await), -32000);
    assert_eq!(http(closed.post("/api/a2a/message:send", &saying("hi")), None).await.0, 401);
    let token = key_of(&closed, "acme-ws", &[]).await;
    assert!(ask(&closed, Some(&token), "SendMessage", &saying("hi")).await["result"]["task"].is_object());
    let open = open(|settings, _| {
        settings.auth_required = true;
        settings.mounts =
            vec![("scripted".into(), MountSettings { door: Some(AuthMode::Optional), ..MountSettings::default() })];
    });
    let open = open.await;
    assert!(ask(&open, None, "SendMessage", &saying("hi")).await["result"]["task"].is_object());
    assert_eq!(code(&ask(&open, None, "ListTasks", &json!({})).await), -32000);
}

#[tokio::test]
async fn a_cancel_ends_what_is_open_and_nothing_else() {
    let running = plain().await;
    let token = key_of(&running, "acme-ws", &[]).await;
    let done = ask(&running, Some(&token), "SendMessage", &saying("done")).await["result"]["task"]["id"].clone();
    assert_eq!(code(&ask(&running, Some(&token), "CancelTask", &json!({ "taskId": done })).await), -32002);
    assert_eq!(code(&ask(&running, Some(&token), "CancelTask", &json!({ "taskId": "task_8e3" })).await), -32002);
    let id = asking(&running, &token).await;
    let canceled = ask(&running, Some(&token), "CancelTask", &json!({ "taskId": id })).await;
    assert_eq!((state(&canceled["result"]), &canceled["result"]["id"]), ("TASK_STATE_CANCELED", &json!(id)));
    for end in ["/cancel", ":cancel"] {
        let id = asking(&running, &token).await;
        let post = || running.post(&format!("/api/a2a/tasks/{id}{end}"), &json!({}));
        let (status, canceled) = http(post(), Some(&token)).await;
        assert_eq!((status, state(&canceled)), (200, "TASK_STATE_CANCELED"), "{end}");
        let (status, refused) = http(post(), Some(&token)).await;
        assert_eq!((status, code(&refused)), (409, -32002), "{end}");
        let nothing = running.post(&format!("/api/a2a/tasks/task_8e3{end}"), &json!({}));
        let (status, refused) = http(nothing, Some(&token)).await;
        assert_eq!((status, code(&refused)), (404, -32002), "{end}");
    }
}

#[tokio::test]
async fn lists_have_pages_under_both_names_and_one_filter() {
    let running = plain().await;
    let token = key_of(&running, "acme-ws", &[]).await;
    for i in 0..5 {
        let mut params = saying("x");
        params["message"]["contextId"] = json!(if i == 4 { "ctx_b" } else { "ctx_a" });
        ask(&running, Some(&token), "SendMessage", &params).await;
    }
    let list = async |params: Value| ask(&running, Some(&token), "ListTasks", &params).await["result"].clone();
    let ids = |page: &Value| -> Vec<String> {
        page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = list(json!({})).await;
    assert_eq!(
        (ids(&all).len(), &all["totalSize"], &all["pageSize"], &all["nextPageToken"]),
        (5, &json!(5), &json!(20), &json!(""))
    );
    let (mut by_limit, mut by_size) = (Vec::new(), Vec::new());
    let (mut cursor, mut token_) = (String::new(), String::new());
    for _ in 0..3 {
        let page = list(json!({ "limit": 2, "cursor": cursor })).await;
        cursor = page["nextPageToken"].as_str().unwrap().to_owned();
        by_limit.extend(ids(&page));
        let query = format!("/api/a2a/tasks?pageSize=2&pageToken={token_}");
        let (status, page) = http(running.get(&query), Some(&token)).await;
        assert_eq!((status, &page["totalSize"], &page["pageSize"]), (200, &json!(5), &json!(2)));
        token_ = page["nextPageToken"].as_str().unwrap().to_owned();
        by_size.extend(ids(&page));
    }
    assert_eq!((&by_limit, &by_size, &*cursor, &*token_), (&ids(&all), &ids(&all), "", ""));
    let filtered = list(json!({ "contextId": "ctx_a", "status": "TASK_STATE_FAILED", "historyLength": 0 })).await;
    assert_eq!((ids(&filtered).len(), &filtered["totalSize"]), (4, &json!(4)));
    assert!(filtered["tasks"][0]["history"].as_array().is_some_and(|history| !history.is_empty()));
    let (_, page) = http(running.get("/api/a2a/tasks?context_id=ctx_b&limit=1"), Some(&token)).await;
    assert_eq!((ids(&page).len(), &page["totalSize"]), (1, &json!(1)));
    for wrong in [json!({ "pageToken": "nonsense" }), json!({ "limit": 0 }), json!({ "limit": 101 })] {
        let refused = ask(&running, Some(&token), "ListTasks", &wrong).await;
        assert_eq!(code(&refused), -32602, "{wrong}");
    }
    assert_eq!(http(running.get("/api/a2a/tasks?cursor=nonsense"), Some(&token)).await.0, 400);
}

#[tokio::test]
async fn streams_are_bare_or_framed_and_begin_with_a_status() {
    let running = plain().await;
    let said = saying("Show products on store acme.");
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": said });
    let mut told = Vec::new();
    for (path, body) in [
        ("/api/a2a/streaming", json!({ "params": said })),
        ("/aly/api/a2a/streaming", json!({ "params": said })),
        ("/api/a2a/message:stream", said.clone()),
        ("/api/a2a", body),
    ] {
        let answer = running.post(path, &body).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        assert_eq!(answer.headers()["a2a-version"], "1.0");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("event:"), "{text}");
        let mut frames = frames(&text);
        if path == "/api/a2a" {
            for frame in &mut frames {
                assert_eq!((&frame["jsonrpc"], &frame["id"]), (&json!("2.0"), &json!(7)), "{frame}");
                *frame = frame["result"].take();
            }
        }
        let [working, artifact, completed] = &*frames else { panic!("{path}: {frames:?}") };
        let id = working["statusUpdate"]["taskId"].as_str().unwrap();
        assert!(id.starts_with("task_"), "{id}");
        assert_eq!(state(&working["statusUpdate"]), "TASK_STATE_WORKING");
        assert_eq!(
            (&artifact["artifactUpdate"]["lastChunk"], &artifact["artifactUpdate"]["taskId"]),
            (&json!(true), &json!(id))
        );
        assert_eq!(state(&completed["statusUpdate"]), "TASK_STATE_COMPLETED");
        for frame in &frames {
            let update = frame.as_object().unwrap().values().next().unwrap();
            assert_eq!(update["contextId"], "ctx_4f11");
            assert!(update.get("final").is_none() && frame.get("task").is_none(), "{frame}");
        }
        told.push(artifact["artifactUpdate"]["artifact"]["parts"].clone());
    }
    assert!(told.iter().all(|parts| *parts == told[0]), "{told:?}");
    for (path, body, expected) in
        [("/api/a2a/streaming", said.clone(), 400), ("/api/a2a/message:stream", json!({ "message": {} }), 400)]
    {
        let (status, refused) = http(running.post(path, &body), None).await;
        assert_eq!((status, code(&refused)), (expected, -32602), "{path}");
    }
    let refused = running.get("/api/a2a/streaming").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["allow"]), (405, &"POST".parse().unwrap()));
}

#[tokio::test]
async fn an_open_task_is_followed_to_its_end_and_a_settled_one_is_not() {
    let running = plain().await;
    let token = key_of(&running, "acme-ws", &[]).await;
    for (i, end) in ["/subscribe", ":subscribe"].into_iter().enumerate() {
        for get in [true, false] {
            let id = asking(&running, &token).await;
            let path = format!("/api/a2a/tasks/{id}{end}");
            let request = if get { running.get(&path) } else { running.post(&path, &json!({})) };
            let mut stream = request.bearer_auth(&token).send().await.unwrap();
            assert_eq!(stream.status(), 200, "{end} {get}");
            let mut text = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
            ask(&running, Some(&token), "CancelTask", &json!({ "id": id })).await;
            while let Some(chunk) = stream.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
            let states: Vec<String> =
                frames(&text).iter().map(|frame| state(&frame["statusUpdate"]).to_owned()).collect();
            assert_eq!(states, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"], "{i}");
            let request = if get { running.get(&path) } else { running.post(&path, &json!({})) };
            let (status, refused) = http(request, Some(&token)).await;
            assert_eq!((status, code(&refused)), (409, -32004));
            let refused = ask(&running, Some(&token), "SubscribeToTask", &json!({ "task_id": id })).await;
            assert_eq!(code(&refused), -32004);
        }
    }
    let refused = ask(&running, Some(&token), "SubscribeToTask", &json!({ "id": "task_8e3" })).await;
    assert_eq!(code(&refused), -32001);
}

/// Takes what is posted, and says yes to it.
async fn receiver() -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://localhost:{}/hook", listener.local_addr().unwrap().port());
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                loop {
                    let mut piece = [0; 4_096];
                    let Ok(n @ 1..) = socket.read(&mut piece).await else { return };
                    bytes.extend_from_slice(&piece[..n]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.to_lowercase();
                    let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                    if body.len() < length.and_then(|n| n.trim().parse().ok()).unwrap_or(usize::MAX) {
                        continue;
                    }
                    let mut news: Value = serde_json::from_str(body).unwrap();
                    let token = head.lines().find_map(|line| line.strip_prefix("x-a2a-notification-token: "));
                    news["token"] = json!(token);
                    told.send(news).unwrap();
                    bytes.clear();
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            });
        }
    });
    (url, heard)
}

#[tokio::test]
async fn push_configs_go_by_the_products_rules() {
    let running = plain().await;
    let token = key_of(&running, "acme-ws", &[]).await;
    let id = asking(&running, &token).await;
    let path = |rest: &str| format!("/api/a2a/tasks/{id}/push-configs{rest}");
    let register = async |config: &Value| http(running.post(&path(""), config), Some(&token)).await;
    let (url, mut heard) = receiver().await;

    let (status, made) = register(&json!({ "id": "mine", "url": url, "token": "secret" })).await;
    assert_eq!((status, &made["id"], &made["url"], &made["taskId"]), (200, &json!("mine"), &json!(url), &json!(id)));
    assert!(!made.to_string().contains("secret"), "{made}");
    for refused in ["http://example.org/hook", "ftp://localhost/x", "nowhere", "http://10.0.0.1/x"] {
        let (status, answer) = register(&json!({ "url": refused })).await;
        assert_eq!((status, code(&answer)), (400, -32003), "{refused}");
        let params = json!({ "taskId": id, "url": refused });
        let answer = ask(&running, Some(&token), "CreateTaskPushNotificationConfig", &params).await;
        assert_eq!(code(&answer), -32003, "{refused}");
    }
    assert_eq!(code(&register(&json!({})).await.1), -32602, "no url at all");
    for i in 1..20 {
        let (status, answer) =
            register(&json!({ "id": format!("c-{i}"), "url": format!("http://localhost:1/{i}") })).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (status, answer) = register(&json!({ "url": "https://one.example/more" })).await;
    assert_eq!((status, code(&answer)), (400, -32003));
    assert_eq!(register(&json!({ "id": "c-1", "url": "http://localhost:1/again" })).await.0, 200, "one in its place");
    for spelled in [path(""), format!("/api/a2a/tasks/{id}/pushNotificationConfigs")] {
        let (status, all) = http(running.get(&spelled), Some(&token)).await;
        assert_eq!((status, all["configs"].as_array().unwrap().len()), (200, 20));
    }
    // By id, by address, and by neither.
    let by_url = path("/http%3A%2F%2Flocalhost%3A1%2F2");
    assert_eq!(http(running.get(&by_url), Some(&token)).await.1["id"], "c-2");
    assert_eq!(http(running.get(&path("/http://localhost:1/3")), Some(&token)).await.1["id"], "c-3");
    assert_eq!(http(running.get(&path("/c-4")), Some(&token)).await.1["url"], "http://localhost:1/4");
    let remove = |at: &str| reqwest::Client::new().delete(running.url(at));
    assert_eq!(http(remove(&by_url), Some(&token)).await, (200, json!({})));
    for request in [running.get(&by_url), remove(&by_url), running.get(&path("/c-2"))] {
        let (status, answer) = http(request, Some(&token)).await;
        assert_eq!((status, code(&answer)), (404, -32001));
    }
    let params = json!({ "taskId": id, "id": "http://localhost:1/3" });
    let removed = ask(&running, Some(&token), "DeleteTaskPushNotificationConfig", &params).await;
    assert_eq!(removed["result"], json!({}));
    assert_eq!(code(&ask(&running, Some(&token), "GetTaskPushNotificationConfig", &params).await), -32001);

    // The end is told, and then there is nothing left.
    ask(&running, Some(&token), "CancelTask", &json!({ "id": id })).await;
    let news = tokio::time::timeout(std::time::Duration::from_secs(30), heard.recv()).await.unwrap().unwrap();
    assert_eq!((state(&news["statusUpdate"]), &news["statusUpdate"]["taskId"]), ("TASK_STATE_CANCELED", &json!(id)));
    assert_eq!(news["token"], "secret");
    assert_eq!(http(running.get(&path("")), Some(&token)).await.1["configs"], json!([]));
    assert_eq!(code(&http(running.get(&path("/mine")), Some(&token)).await.1), -32001);
    let (status, answer) = register(&json!({ "url": url })).await;
    assert_eq!((status, code(&answer)), (409, -32003));
    let nothing = "/api/a2a/tasks/task_8e3/push-configs";
    assert_eq!(code(&http(running.get(nothing), Some(&token)).await.1), -32001);

    // One that comes with a message.
    let mut params = saying("hello");
    params["configuration"] = json!({ "task_push_notification_config": { "url": url, "token": "secret" } });
    assert_eq!(code(&ask(&running, None, "SendMessage", &params).await), -32000);
    let sent = ask(&running, Some(&token), "SendMessage", &params).await;
    let sent = &sent["result"]["task"]["id"];
    let end = async {
        loop {
            let news = heard.recv().await.unwrap();
            if news["statusUpdate"]["taskId"] == *sent
                && news["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            {
                break;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), end).await.expect("the end is told");
    // The data is removed from the store, not only hidden.
    let server = running.serving.now();
    let kept = async |shown: &str| -> Vec<String> {
        let task = shop::aly::own_id(shown).parse().unwrap();
        let kept = server.engine().deliveries(Some(task), None, 100).await.unwrap();
        kept.into_iter().map(|delivery| delivery.id.to_string()).collect()
    };
    let (first, second) = (id.as_str(), sent.as_str().unwrap());
    until("the told config is gone", || async { kept(second).await.is_empty() }).await;
    until("the told config is gone", || async { !kept(first).await.contains(&"mine".to_owned()) }).await;
    assert!(kept(first).await.contains(&"c-4".to_owned()), "what could not be told yet is not given up");
    params["configuration"]["task_push_notification_config"]["url"] = json!("http://example.org/");
    assert_eq!(code(&ask(&running, Some(&token), "SendMessage", &params).await), -32003);
}

#[tokio::test]
async fn cards_are_the_hosts() {
    let running = plain().await;
    let card = async |path: &str, host: Option<&str>| -> Value {
        let mut request = running.get(path);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        request.send().await.unwrap().json().await.unwrap()
    };
    let platform = card("/aly/.well-known/agent-card.json", None).await;
    assert_eq!(
        (&platform["name"], &platform["capabilities"]["pushNotifications"]),
        (&json!("Rialto shops"), &json!(true))
    );
    let base = running.url("");
    assert_eq!(platform["supportedInterfaces"][0]["url"], format!("{base}/aly/api/a2a"));
    let oauth = &platform["securitySchemes"]["aly_oauth"]["oauth2SecurityScheme"];
    assert_eq!(oauth["oauth2MetadataUrl"], format!("{base}/.well-known/oauth-authorization-server"));
    assert_eq!(oauth["flows"]["authorizationCode"]["scopes"].as_object().unwrap().len(), SCOPES.len());
    assert_eq!(
        card("/api/a2a/.well-known/agent-card.json", None).await["supportedInterfaces"][1]["url"],
        format!("{base}/api/a2a")
    );
    for path in ["/.well-known/agent-card.json", "/aly/.well-known/agent.json", "/.well-known/agent.json"] {
        let shop = card(path, Some("ACME.shop.example:8080")).await;
        assert_eq!(
            (&shop["name"], &shop["description"]),
            (&json!("Acme (acme.shop.example)"), &json!("Hats")),
            "{path}"
        );
    }
    assert_ne!(
        card("/.well-known/agent-card.json", Some("else.example")).await["name"],
        "Rialto shops",
        "the default agent's"
    );
    assert_eq!(card("/aly/.well-known/agent-card.json", Some("else.example")).await["name"], "Rialto shops");
}

#[tokio::test]
async fn without_a_shop_there_is_nothing() {
    let running = testkit::start(settings()).await;
    for path in ["/api/a2a", "/aly/api/a2a", "/oauth/token", "/.well-known/oauth-authorization-server"] {
        assert_eq!(running.post(path, &json!({})).send().await.unwrap().status(), 404, "{path}");
    }
    let refused = shop::check(&StoreAgentSettings::new("nobody", Arc::new(Keeper)), &settings()).unwrap_err();
    assert!(refused.to_string().contains("nobody"));
    let running = plain().await;
    for path in ["/aly", "/aly/", "/aly/else", "/api/a2ab", "/oauthx", "/oauth/else", "/api/a2a/else"] {
        assert_eq!(running.get(path).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn a_stream_is_resumed_with_a_token_of_the_tasks_workspace_alone() {
    let running = plain().await;
    let (own, foreign) = (key_of(&running, "acme-ws", &[]).await, key_of(&running, "other-ws", &[]).await);
    let made = ask(&running, Some(&own), "SendMessage", &cart("acme")).await;
    let id = made["result"]["task"]["id"].as_str().unwrap().strip_prefix("task_").unwrap().to_owned();
    let event = format!("{}.1", uuid::Uuid::parse_str(&id).unwrap());
    // It names the site of the workspace, and needs no scope.
    let search = wanting(&json!({ "skill": "product-search", "site_slug": "acme" }));
    let by_rpc = json!({ "jsonrpc": "2.0", "id": "r", "method": "SendStreamingMessage", "params": search });
    let direct = json!({ "params": search });
    for mount in ["", "/aly"] {
        for (path, body) in [("", &by_rpc), ("/message:stream", &search), ("/streaming", &direct)] {
            for (token, may) in [(None, false), (Some(&foreign), false), (Some(&own), true)] {
                let request = running.post(&format!("{mount}/api/a2a{path}"), body).header("last-event-id", &event);
                let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
                let answer = request.send().await.unwrap().text().await.unwrap();
                let place = format!("{mount}{path} {token:?}: {answer}");
                assert_eq!(answer.contains("TASK_STATE_"), may, "{place}");
                assert_eq!(answer.contains("\"error\""), !may, "{place}");
            }
        }
    }
}
