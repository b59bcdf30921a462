//! The store agent on an engine: each message is a task that runs one skill.

use std::sync::Arc;

use engine::SendAnswer;
use model::{CallScope, Caller, Content, Fault, Json, Kind, Message, Part, Role, Send, State, Task, Wait};
use serde_json::{Value, json};
use shop::admission::StoreAdmission;
use shop::service::{AGENT, StoreAgent};
use shop_rules::ShopRules;

use crate::common::{Mall, TestStorage};

async fn send(mall: &Mall, parts: Vec<Part>) -> Result<Arc<Task>, Fault> {
    send_to(mall, None, parts).await
}

async fn send_to(mall: &Mall, task: Option<&Task>, parts: Vec<Part>) -> Result<Arc<Task>, Fault> {
    let name = "somebody".into();
    let caller = Caller { tenant: "ws_1".into(), name, authenticated: true, scopes: Arc::default() };
    let message =
        Message { id: "m1".into(), role: Role::User, parts, metadata: None, extensions: vec![], references: vec![] };
    let send = Send {
        message,
        task: task.map(|task| task.id.to_string()),
        alias: None,
        context: None,
        wait: Wait::Rest { max_ms: None },
        history: None,
        accepted_output: Vec::new(),
        metadata: None,
        push: None,
        extensions: Vec::new(),
        trace: None,
        idempotency: None,
    };
    match mall.shop.engine().send(&CallScope::tenant(caller, AGENT, "aly"), send).await? {
        SendAnswer::Task(task) => Ok(task),
        SendAnswer::Reply(_) => panic!("a store agent has tasks"),
    }
}

fn data(value: &Value) -> Vec<Part> {
    vec![Part::data(Json::from_value(value))]
}

/// Id and content of the only artifact.
fn artifact(task: &Task) -> (String, Value) {
    let [artifact] = &task.artifacts[..] else { panic!("{:?}", task.artifacts) };
    let Content::Data(data) = &artifact.parts[0].content else { panic!("{:?}", artifact.parts) };
    assert_eq!(artifact.name.as_deref(), Some(&*artifact.id.to_string()));
    (artifact.id.to_string(), data.to_value())
}

#[tokio::test]
async fn a_message_runs_one_skill_and_the_task_has_what_came_of_it() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    mall.serve(StoreAgent::guarded(mall.shop.clone(), AGENT));
    let task = send(&mall, vec![Part::text("Search for hats on store acme.")]).await.unwrap();
    assert_eq!(task.core.state, State::Completed);
    let (name, results) = artifact(&task);
    assert_eq!((name.as_str(), &results["total"]), ("search_results", &json!(3)));
    let metadata = task.metadata.as_ref().unwrap().to_value();
    assert_eq!((&metadata["skill"], &metadata["site_slug"]), (&json!("product-search"), &json!("acme")));

    let task = send(&mall, data(&json!({"action": "create", "site_slug": "acme"}))).await.unwrap();
    let (name, cart) = artifact(&task);
    assert_eq!((name.as_str(), &cart["status"], task.core.state), ("cart", &json!("active"), State::Completed));
    let task = send(&mall, data(&json!({"action": "create"}))).await.unwrap();
    assert_eq!((task.core.state, task.artifacts.len()), (State::InputRequired, 0));
    let task = send(&mall, data(&json!({"skill": "store-info", "site_slug": "nowhere"}))).await.unwrap();
    assert_eq!(task.core.state, State::Failed);
}

#[tokio::test]
async fn what_cannot_be_read_makes_no_task() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    mall.serve(StoreAgent::guarded(mall.shop.clone(), AGENT));
    let before = mall.shop.engine().health().await.unwrap().tasks;
    let fault = send(&mall, data(&json!({"skill": "dance"}))).await.unwrap_err();
    assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("skill")));
    assert_eq!(mall.shop.engine().health().await.unwrap().tasks, before);
}

/// An agent without a permission check writes nothing.
#[tokio::test]
async fn an_agent_for_anybody_has_the_public_skills_alone() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    mall.serve(StoreAgent::public(mall.shop.clone(), AGENT));
    for value in [json!({"action": "create", "site_slug": "acme"}), json!({"skill": "checkout"})] {
        assert_eq!(send(&mall, data(&value)).await.unwrap_err().kind, Kind::Unauthenticated);
    }
    let task = send(&mall, vec![Part::text("about store acme")]).await.unwrap();
    assert_eq!((task.core.state, artifact(&task).0.as_str()), (State::Completed, "store_info"));
    assert_eq!(mall.shop.engine().profile(AGENT).unwrap().skills.len(), 4);
}

/// The question stays with its task: the answer completes the request that came before it.
#[tokio::test]
async fn an_answer_completes_the_earlier_request() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    mall.serve(StoreAgent::guarded(mall.shop.clone(), AGENT));
    for answer in [vec![Part::text("acme")], data(&json!({"site_slug": "acme"}))] {
        let asks = send(&mall, vec![Part::text("Search for hats")]).await.unwrap();
        assert_eq!(asks.core.state, State::InputRequired);
        let done = send_to(&mall, Some(&asks), answer).await.unwrap();
        assert_eq!((done.id, done.core.state), (asks.id, State::Completed));
        let (name, results) = artifact(&done);
        assert_eq!(
            (name.as_str(), &results["query"], &results["total"]),
            ("search_results", &json!("hats"), &json!(3))
        );
    }
    let asks = send(&mall, vec![Part::text("Create a cart")]).await.unwrap();
    let done = send_to(&mall, Some(&asks), vec![Part::text("acme")]).await.unwrap();
    assert_eq!((artifact(&done).0.as_str(), done.core.state), ("cart", State::Completed));
}

/// An answer needs what the request before it needs.
#[tokio::test]
async fn an_answer_to_a_request_for_orders_needs_the_scope_for_orders() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    mall.serve(StoreAgent::guarded(mall.shop.clone(), AGENT));
    let needs = async |task: Option<&Task>, text: &str| {
        let parts = vec![Part::text(text)];
        let message = Message {
            id: "m2".into(),
            role: Role::User,
            parts,
            metadata: None,
            extensions: vec![],
            references: vec![],
        };
        let needs = mall.shop.needs(task, &message).await.unwrap();
        (needs.scope, needs.workspace)
    };
    let cart = send(&mall, vec![Part::text("Create a cart")]).await.unwrap();
    let search = send(&mall, vec![Part::text("Search for hats")]).await.unwrap();
    let acme = Some("ws_1".into());
    assert_eq!(needs(Some(&cart), "acme").await, (Some("write:orders"), acme.clone()));
    assert_eq!(needs(Some(&search), "acme").await, (None, acme));
    assert_eq!(needs(None, "acme").await, (None, None));
    // A part that is stored outside the log is not read, so its request is unknown.
    let padding = "x".repeat(100_000);
    let large = send(&mall, data(&json!({"action": "create", "note": padding}))).await.unwrap();
    assert_eq!(needs(Some(&large), "acme").await.0, Some("write:orders"));
}
