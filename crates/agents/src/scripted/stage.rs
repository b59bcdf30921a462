//! Test harness for agents: a real task, folded from a real log, and as much of an engine as turns need.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::{BoxStream, StreamExt as _};
use model::ports::agent::{Agent, AgentEvent, AgentMessage, EndState, Restart, Turn};
use model::{
    Artifact, Body, Chunk, Content, Event, Fault, Inbound, Json, Message, Opened, Part, Role, Seq, State, StatusChange,
    Task, Time, TurnId, View,
};
use tokio::sync::oneshot;

pub(crate) struct ScriptContext {
    agent: Arc<dyn Agent>,
    log: Vec<Event>,
    task: Option<Task>,
    waiting: Vec<Arc<Inbound>>,
    turns: u32,
    open: Option<Open>,
}

/// A running turn, or an interrupted one.
struct Open {
    id: TurnId,
    attempt: u32,
    messages: Vec<Arc<Inbound>>,
    said: Option<BoxStream<'static, AgentEvent>>,
    cancel: Option<oneshot::Sender<()>>,
}

impl ScriptContext {
    pub(crate) fn new(agent: Arc<dyn Agent>) -> ScriptContext {
        ScriptContext { agent, log: vec![], task: None, waiting: vec![], turns: 0, open: None }
    }

    /// Admits and logs a caller's message.
    pub(crate) fn try_say(&mut self, id: &str, parts: Vec<Part>) -> Result<(), Fault> {
        let inbound = Arc::new(inbound(id, parts));
        let admission = self.agent.admit(&inbound, self.task.as_ref())?;
        if self.task.is_none() {
            let opened = Event { seq: Seq(1), at: Time(1), body: Body::Opened(Box::new(opened(admission.undecided))) };
            self.task = Some(Task::open(&opened).unwrap());
            self.log.push(opened);
        }
        self.commit(Body::Message(inbound.clone()));
        self.waiting.push(inbound);
        Ok(())
    }

    pub(crate) fn say(&mut self, id: &str, parts: Vec<Part>) {
        self.try_say(id, parts).unwrap();
    }

    pub(crate) fn task(&self) -> &Task {
        self.task.as_ref().unwrap()
    }

    /// Begins a turn with the waiting messages.
    pub(crate) fn start(&mut self) {
        self.turns += 1;
        let id: TurnId = format!("0190f3c4-1111-7222-8333-{:012}", self.turns).parse().unwrap();
        self.attempt(id, 1, vec![]);
    }

    /// Begins the open turn again, as after a crash: with another process's agent, and from the log alone.
    pub(crate) fn retry(&mut self) {
        self.restart(self.agent.clone());
        let open = self.open.take().expect("a turn was cut off");
        self.attempt(open.id, open.attempt + 1, open.messages);
    }

    /// Another process takes over: only the log remains.
    pub(crate) fn restart(&mut self, agent: Arc<dyn Agent>) {
        self.agent = agent;
        self.task = Task::fold(&self.log).unwrap();
    }

    fn attempt(&mut self, id: TurnId, attempt: u32, mut messages: Vec<Arc<Inbound>>) {
        messages.append(&mut self.waiting);
        self.commit(Body::TurnStarted { turn: id, attempt, hold: None });
        let (cancel, asked) = oneshot::channel();
        let task = self.task();
        let turn = Turn {
            id,
            attempt,
            task: task.id,
            context: task.context.clone(),
            tenant: "t".into(),
            caller: "c".into(),
            messages: messages.clone(),
            so_far: Arc::new(task.clone()),
            earlier: model::ports::agent::Earlier::none(),
            bound: task.bound.clone(),
            cancelled: asked.map(|_| ()).boxed().shared(),
            whole: false,
            children: model::ports::children::none(),
        };
        let said = Some(self.agent.run(turn));
        self.open = Some(Open { id, attempt, messages, said, cancel: Some(cancel) });
    }

    /// The open turn's next emission.
    pub(crate) async fn next(&mut self) -> Option<AgentEvent> {
        let emission = self.open.as_mut()?.said.as_mut()?.next().await?;
        self.keep(&emission);
        Some(emission)
    }

    /// Runs the open turn to its end.
    pub(crate) async fn finish(&mut self) -> Vec<AgentEvent> {
        let mut all = vec![];
        while let Some(emission) = self.next().await {
            all.push(emission);
        }
        all
    }

    pub(crate) async fn turn(&mut self) -> Vec<AgentEvent> {
        self.start();
        self.finish().await
    }

    /// Sends one message and runs its turn.
    pub(crate) async fn hear(&mut self, parts: Vec<Part>) -> Vec<AgentEvent> {
        let id = format!("m{}", self.log.len());
        self.say(&id, parts);
        self.turn().await
    }

    /// Cancels the open turn.
    pub(crate) fn cancel(&mut self) {
        self.open.as_mut().unwrap().cancel.take().unwrap().send(()).unwrap();
    }

    /// Cancels the open turn after this time; returns its emissions and the time it took to end.
    pub(crate) async fn cancelled_after(&mut self, time_ms: u64) -> (Vec<AgentEvent>, u128) {
        let cancel = self.open.as_mut().unwrap().cancel.take().unwrap();
        let began = tokio::time::Instant::now();
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(time_ms)).await;
            // The turn may have ended already.
            let _ = cancel.send(());
        };
        let (all, ()) = tokio::join!(self.finish(), cancelling);
        (all, began.elapsed().as_millis())
    }

    fn keep(&mut self, emission: &AgentEvent) {
        let status = |state, words: &Option<AgentMessage>| {
            let message = words.as_ref().map(|words| {
                let (parts, metadata) = (words.parts.clone(), words.metadata.clone());
                let plain = Message::clone(&inbound("agent", vec![]).message);
                Arc::new(Message { parts, metadata, role: Role::Agent, ..plain })
            });
            Body::Status(StatusChange { state, message, metadata: None })
        };
        let body = match emission {
            AgentEvent::Working(words) => status(State::Working, words),
            AgentEvent::Metadata(json) => Body::Metadata(json.clone()),
            AgentEvent::Bound(remote) => Body::Bound { remote: remote.clone() },
            AgentEvent::Reply(words) => match self.task().core.shape {
                model::Shape::Undecided => Body::Replied(Arc::new(Message {
                    parts: words.parts.clone(),
                    role: Role::Agent,
                    ..Message::clone(&inbound("agent", vec![]).message)
                })),
                model::Shape::Task | model::Shape::Reply => status(State::Completed, &Some(words.clone())),
            },
            AgentEvent::End(end) if end.state == EndState::Completed && !self.waiting.is_empty() => {
                status(State::Working, &end.words)
            }
            AgentEvent::End(end) => status(end.state.into(), &end.words),
            AgentEvent::Artifact(piece) => {
                let known = &self.task().artifacts;
                let ordinal = known.iter().position(|known| *known.id == piece.key).unwrap_or(known.len());
                Body::Artifact(Chunk {
                    artifact: Arc::new(Artifact {
                        id: piece.key.as_str().into(),
                        name: piece.name.clone(),
                        description: piece.description.clone(),
                        parts: piece.parts.clone(),
                        metadata: piece.metadata.clone(),
                        extensions: piece.extensions.clone(),
                    }),
                    ordinal: u32::try_from(ordinal).unwrap(),
                    append: piece.append,
                    bordered: false,
                    last: piece.last,
                    metadata: None,
                })
            }
        };
        self.commit(body);
    }

    fn commit(&mut self, body: Body) {
        let seq = self.task().seq().next();
        let event = Event { seq, at: Time(i64::try_from(seq.0).unwrap()), body };
        self.task.as_mut().unwrap().apply(&event).unwrap();
        self.log.push(event);
    }
}

fn opened(undecided: bool) -> Opened {
    Opened {
        id: "0190f3c4-1111-7222-8333-444455556666".parse().unwrap(),
        context: "c".into(),
        agent: "scripted".into(),
        tenant: "t".into(),
        owner: "o".into(),
        parties: vec![],
        views: vec![View::tenant("t", "scripted")],
        dialect: "a2a_v1".into(),
        alias: None,
        follows: None,
        undecided,
    }
}

pub(crate) fn inbound(id: &str, parts: Vec<Part>) -> Inbound {
    let message =
        Message { id: id.into(), role: Role::User, parts, metadata: None, extensions: vec![], references: vec![] };
    Inbound {
        message: Arc::new(message),
        metadata: None,
        accepted_output: vec![],
        extensions: vec![],
        trace: None,
        payer: None,
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|| panic!("JSON: {text}"))
}

/// Text, bytes, a URL and data, with every member of a part.
pub(crate) fn every_kind_of_part() -> Vec<Part> {
    let full = |content| Part {
        content,
        filename: Some("f".into()),
        media_type: Some("x/y".into()),
        metadata: Some(json(r#"{"z":1.0,"a":[12345678901234567890]}"#)),
    };
    vec![
        full(Content::Text("chunks:20".into())),
        full(Content::Raw(Bytes::from_static(&[0, 255, 128]))),
        full(Content::Url("https://example.com/f".into())),
        full(Content::Data(json(r#"{"b":1e2, "a":[null,18446744073709551616]}"#))),
        Part::text(""),
        Part::data(json("null")),
    ]
}

/// Emissions in short, for tests that compare whole turns.
pub(crate) fn brief(said: &[AgentEvent]) -> Vec<String> {
    said.iter().map(brief_one).collect()
}

fn brief_one(emission: &AgentEvent) -> String {
    let words = |name: &str, words: &Option<AgentMessage>| match words {
        Some(words) => format!("{name} {}", content(&words.parts)),
        None => name.to_owned(),
    };
    match emission {
        AgentEvent::Working(said) => words("working", said),
        AgentEvent::Reply(said) => words("reply", &Some(said.clone())),
        AgentEvent::Bound(remote) => format!("bound {remote}"),
        AgentEvent::Metadata(json) => format!("metadata {}", json.text()),
        AgentEvent::End(end) => words(&format!("{:?}", end.state), &end.words),
        AgentEvent::Artifact(piece) => {
            let flags = match (piece.append, piece.last) {
                (false, true) => "=",
                (false, false) => "=…",
                (true, false) => "+…",
                (true, true) => "+",
            };
            format!("{}{flags} {}", piece.key, content(&piece.parts))
        }
    }
}

fn content(parts: &[Part]) -> String {
    let one = |part: &Part| match &part.content {
        Content::Text(text) => text.clone(),
        Content::Raw(bytes) => format!("<{} bytes>", bytes.len()),
        Content::Url(url) => format!("<{url}>"),
        Content::Data(json) => json.text().to_owned(),
        Content::Blob(_) => "<blob>".to_owned(),
    };
    parts.iter().map(one).collect::<Vec<_>>().join("|")
}

/// The crash rule that a message is admitted with.
pub(crate) fn restart_rule(agent: &dyn Agent, parts: Vec<Part>, task: Option<&Task>) -> Restart {
    agent.admit(&inbound("m", parts), task).unwrap().restart
}
