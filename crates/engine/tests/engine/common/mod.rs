//! Helpers of the tests.

mod agents;
mod heard;
mod house;
mod post;
mod shelf;
mod square;

use std::future::Future;
use std::time::Duration;

use engine::{Engine, SendAnswer};
use model::call::Idempotency;
use model::{
    CallScope, Caller, Cancel, ContextId, Event, Fault, Kind, Message, Part, PushConfig, Role, Send, Seq, Subscribe,
    Task, TaskId, Wait,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(crate) use agents::{Acting, Cue, Manners, Puppet, acting, echo, ended, piece, scripted, text_piece, working};
pub(crate) use heard::{apply_public, collect, hear, last_words, next_heard, told};
pub(crate) use house::{House, on_both_stores, quick};
pub(crate) use post::{Play, Post, Sent, failed};
pub(crate) use shelf::{Mood, Shelf};
pub(crate) use square::{Process, Square};

/// The scope of the anonymous caller at this agent.
pub(crate) fn at(agent: &str) -> CallScope {
    CallScope::tenant(Caller::anonymous(), agent, "a2a_v1")
}

/// The scope of another caller.
pub(crate) fn of(tenant: &str, name: &str, agent: &str) -> CallScope {
    let caller = Caller { tenant: tenant.into(), name: name.into(), authenticated: true, scopes: Arc::default() };
    CallScope::tenant(caller, agent, "a2a_v1")
}

/// A message with these parts, answered when the task is at rest.
pub(crate) fn send_parts(parts: Vec<Part>) -> Send {
    let id = uuid::Uuid::now_v7().to_string();
    let message = Message {
        id: id.into(),
        role: Role::User,
        parts,
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    };
    Send::new(message)
}

pub(crate) fn say(text: &str) -> Send {
    send_parts(vec![Part::text(text)])
}

/// A script for the scripted agent.
pub(crate) fn script(steps: &serde_json::Value) -> Send {
    send_parts(vec![Part::data(model::Json::from_value(&serde_json::json!({ "script": steps })))])
}

/// A webhook with this URL.
pub(crate) fn hook(url: &str) -> PushConfig {
    PushConfig { task: None, id: None, url: url.into(), token: None, scheme: None, credentials: None }
}

/// A webhook under this id, for a task.
pub(crate) fn hook_of(task: TaskId, id: &str, url: &str) -> PushConfig {
    PushConfig { task: Some(task.to_string()), id: Some(id.into()), ..hook(url) }
}

/// Options that a test adds to a send.
pub(crate) trait Adverbs: Sized {
    fn telling(self, url: &str) -> Self;
    fn to(self, task: TaskId) -> Self;
    fn within(self, context: &str) -> Self;
    fn soon(self) -> Self;
    fn at_most_ms(self, ms: u64) -> Self;
    fn keyed(self, key: &str) -> Self;
}

impl Adverbs for Send {
    /// With a webhook.
    fn telling(self, url: &str) -> Self {
        Send { push: Some(hook(url)), ..self }
    }
    fn to(self, task: TaskId) -> Self {
        Send { task: Some(task.to_string()), ..self }
    }
    fn within(self, context: &str) -> Self {
        Send { context: Some(ContextId::from(context)), ..self }
    }
    /// Answered as soon as the task exists.
    fn soon(self) -> Self {
        Send { wait: Wait::Exists, ..self }
    }
    fn at_most_ms(self, ms: u64) -> Self {
        Send { wait: Wait::Rest { max_ms: Some(ms) }, ..self }
    }
    /// With an idempotency key; it is bound to the text and the task of the message.
    fn keyed(self, key: &str) -> Self {
        let mut body = Sha256::new();
        body.update(self.message.text());
        body.update(self.task.as_deref().unwrap_or_default());
        let body = body.finalize().into();
        Send { idempotency: Some(Idempotency { key: key.into(), body }), ..self }
    }
}

pub(crate) fn task_of(answer: Result<SendAnswer, Fault>) -> Arc<Task> {
    match answer {
        Ok(SendAnswer::Task(task)) => task,
        Ok(SendAnswer::Reply(reply)) => panic!("a task was expected, not the message {:?}", reply.message.text()),
        Err(fault) => panic!("a task was expected, not the fault {fault:?}"),
    }
}

pub(crate) fn reply_of(answer: Result<SendAnswer, Fault>) -> model::content::Reply {
    match answer {
        Ok(SendAnswer::Reply(reply)) => reply,
        Ok(SendAnswer::Task(task)) => panic!("a message was expected, not the task {task:?}"),
        Err(fault) => panic!("a message was expected, not the fault {fault:?}"),
    }
}

/// The kind of the returned fault.
pub(crate) fn kind<T>(result: Result<T, Fault>) -> Kind {
    match result {
        Ok(_) => panic!("a fault was expected"),
        Err(fault) => fault.kind,
    }
}

/// Sends, and returns the task as soon as it exists.
pub(crate) async fn begin(engine: &Engine, agent: &str, send: Send) -> Arc<Task> {
    task_of(engine.send(&at(agent), send.soon()).await)
}

pub(crate) async fn get(engine: &Engine, agent: &str, id: TaskId) -> Arc<Task> {
    engine.get(&at(agent), &id.to_string()).await.unwrap()
}

pub(crate) async fn cancel(engine: &Engine, agent: &str, id: TaskId) -> Result<Arc<Task>, Fault> {
    engine.cancel(&at(agent), Cancel { task: id.to_string(), metadata: None }).await
}

pub(crate) fn named(id: TaskId) -> Subscribe {
    Subscribe { task: id.to_string() }
}

pub(crate) async fn subscribe(engine: &Engine, agent: &str, id: TaskId) -> engine::Subscription {
    engine.subscribe(&at(agent), &named(id), None).await.unwrap()
}

/// The current log.
pub(crate) async fn log(engine: &Engine, id: TaskId) -> Vec<Event> {
    engine.store().events(id, Seq::ZERO, usize::MAX).await.unwrap()
}

/// Polls until the condition holds. For conditions without a notification; nothing here depends on timing.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The task once it satisfies the condition.
pub(crate) async fn task_when(engine: &Engine, id: TaskId, holds: impl Fn(&Task) -> bool) -> Arc<Task> {
    loop {
        if let Some(task) = engine.task(id).await.unwrap()
            && holds(&task)
        {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Spawns the work.
pub(crate) fn aside<T: std::marker::Send + 'static>(
    work: impl Future<Output = T> + std::marker::Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

/// The texts of a task's history, oldest first.
pub(crate) fn history(task: &Task) -> Vec<String> {
    task.history.iter().map(|message| message.text()).collect()
}

/// The text of each artifact.
pub(crate) fn artifacts(task: &Task) -> Vec<String> {
    task.artifacts.iter().map(|artifact| artifact.parts.iter().filter_map(Part::as_text).collect()).collect()
}
