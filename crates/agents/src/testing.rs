//! Shared test helpers: a turn, and an agent that a test runs.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::stream::{BoxStream, StreamExt as _};
use model::ports::agent::{Agent, AgentEvent, Earlier, Turn};
use model::{Message, Part, Role};
use tokio::sync::oneshot;

use crate::AgentConfig;
use crate::scripted::stage::{ScriptContext, inbound};

/// A turn of a fresh task with one message, as an agent is given it.
pub(crate) fn turn(parts: Vec<Part>) -> Turn {
    let mut stage = ScriptContext::new(Arc::new(crate::echo::EchoAgent::new()));
    let message = Arc::new(inbound("m1", parts.clone()));
    stage.say("m1", parts);
    let task = stage.task().clone();
    Turn {
        id: "0190f3c4-1111-7222-8333-000000000001".parse().unwrap(),
        attempt: 1,
        task: task.id,
        context: task.context.clone(),
        tenant: "acme".into(),
        caller: "ada".into(),
        messages: vec![message],
        so_far: Arc::new(task),
        earlier: Earlier::none(),
        bound: None,
        cancelled: futures_util::future::pending().boxed().shared(),
        whole: false,
        children: model::ports::children::none(),
    }
}

pub(crate) fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

/// Messages of an earlier task.
pub(crate) fn earlier(said: &[(Role, &str)]) -> Earlier {
    let message = |(i, (role, said)): (usize, &(Role, &str))| {
        let message = Message::clone(&inbound(&format!("e{i}"), text(said)).message);
        Arc::new(Message { role: *role, ..message })
    };
    let messages: Vec<_> = said.iter().enumerate().map(message).collect();
    Earlier::new(move || std::future::ready(Ok(messages.clone())).boxed())
}

/// The agent of a config, with its limits.
pub(crate) async fn agent(config: serde_json::Value) -> Arc<dyn Agent> {
    crate::build("tested", read(config)).await.unwrap()
}

pub(crate) fn read(config: serde_json::Value) -> AgentConfig {
    AgentConfig::read(config.as_object().unwrap().clone()).unwrap()
}

/// Why a config is refused, by its parser or its check.
pub(crate) fn refused(config: serde_json::Value) -> String {
    let read = AgentConfig::read(config.as_object().unwrap().clone());
    read.and_then(|config| config.check()).unwrap_err().to_string()
}

/// A running turn, which can be cancelled.
pub(crate) struct Running {
    pub(crate) said: BoxStream<'static, AgentEvent>,
    cancel: oneshot::Sender<()>,
}

impl Running {
    pub(crate) fn start(agent: &dyn Agent, turn: Turn) -> Running {
        let (cancel, asked) = oneshot::channel::<()>();
        let cancelled = asked.then(|asked| async move {
            if asked.is_err() {
                std::future::pending::<()>().await;
            }
        });
        let said = agent.run(Turn { cancelled: cancelled.boxed().shared(), ..turn });
        Running { said, cancel }
    }

    pub(crate) async fn next(&mut self) -> AgentEvent {
        self.said.next().await.expect("the turn goes on")
    }

    /// Cancels, and collects the rest.
    pub(crate) async fn cancelled(self) -> Vec<AgentEvent> {
        self.cancel.send(()).unwrap();
        self.said.collect().await
    }
}

/// Runs the whole turn.
pub(crate) async fn run(agent: &dyn Agent, turn: Turn) -> Vec<AgentEvent> {
    agent.run(turn).collect().await
}

/// Polls until the condition holds; panics after a limit.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < patience, "waited in vain until {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
