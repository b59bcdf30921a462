//! Drives one turn of a system: executes the actions of the run, and applies the events of its child tasks.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{FutureExt as _, future};
use model::ports::Future;
use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, EndState, Turn, TurnEnd};
use model::ports::children::{BOUND, Child, OpenedChild};
use model::{ContextId, Fault, Json, Kind, Message, Part, Role, State, Task, TaskId};
use systems_graph::{End, Finish, NodeEvent, Run, RunAction, SystemGraph, VisitId, VisitStart};

use super::answer;
use super::journal::{self, KEY, RunEntry, RunJournal, RunStep, artifact_key, given};
use agents::delegation::Delegation;
use agents::emitter::Emitter;

/// First and longest pause before a child task is opened again that was refused because the engine was full.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MOST: Duration = Duration::from_secs(2);

pub(super) async fn turn(emitter: Emitter, turn: Turn, name: Arc<str>, graph: Arc<SystemGraph>) {
    let journal = RunJournal::of(&turn.so_far);
    let known = journal.open_run();
    let run = known.first().map_or_else(|| turn.id.to_string(), |entry| entry.run.clone());
    let said: Vec<&Arc<Message>> = turn.so_far.history.iter().filter(|said| said.role == Role::User).collect();
    let (first, count) = known.iter().find_map(|entry| entry.input).unwrap_or_else(|| {
        let count = turn.messages.len().min(said.len());
        (said.len() - count, count)
    });
    let about: Vec<&Arc<Message>> = said.into_iter().skip(first).take(count).collect();
    let input = about.iter().flat_map(|message| message.parts.iter().cloned()).collect();
    let delegation = about
        .iter()
        .map(|message| Delegation::of(message).unwrap_or_default())
        .max_by_key(|delegation| delegation.hops);
    let delegation = delegation.unwrap_or_default().passed_on(&format!("system/{name}"), None);
    let graph = bounded(graph, &about);

    let told = match journal::events(known, &turn.so_far.artifacts) {
        Ok(events) => Run::replay(graph, input, events).map_err(|unexpected| unexpected.0),
        Err(visit) => Err(visit),
    };
    let is_new = known.is_empty();
    let mut driver = RunDriver {
        started: known.iter().filter(|entry| entry.state == RunStep::Started).filter_map(RunEntry::visit).collect(),
        question: known.last().filter(|entry| matches!(entry.state, RunStep::Approval | RunStep::Question)).cloned(),
        no: known.last().map_or(0, |entry| entry.no),
        run,
        is_new: is_new && turn.attempt == 1,
        delegation,
        name,
        emitter,
        under_way: FuturesUnordered::new(),
        turn,
    };
    match told {
        Ok(told) => driver.drive(told, is_new.then_some((first, count))).await,
        Err(visit) => {
            let says = format!("the system was changed while {visit} was under way; send the message again");
            driver.end(EndState::Failed, &says).await;
        }
    }
}

/// The graph with the caller's loop limit, if it is lower.
fn bounded(graph: Arc<SystemGraph>, about: &[&Arc<Message>]) -> Arc<SystemGraph> {
    let asked = about.iter().find_map(|message| {
        let metadata = message.metadata.as_ref().filter(|json| json.text().contains(KEY))?;
        metadata.to_value().get(KEY)?.get("max_turns")?.as_u64()
    });
    match asked.and_then(|turns| u32::try_from(turns).ok()).filter(|turns| *turns < graph.max_turns()) {
        Some(turns) => Arc::new((*graph).clone().with_max_turns(turns)),
        None => graph,
    }
}

struct RunDriver {
    emitter: Emitter,
    turn: Turn,
    name: Arc<str>,
    run: String,
    /// Number of the newest entry.
    no: u64,
    /// No child task of this run can exist yet.
    is_new: bool,
    /// The delegation entry for the children's messages.
    delegation: Delegation,
    /// The visits whose start was emitted.
    started: HashSet<VisitId>,
    /// The question that the messages of this turn answer.
    question: Option<RunEntry>,
    under_way: FuturesUnordered<Future<'static, ChildEvent>>,
}

/// An event of a visit's task.
enum ChildEvent {
    /// Whether it exists already.
    Found(VisitStart, TaskId, Result<bool, Fault>),
    /// There was no room for it; retry with this as the next pause.
    Room(VisitStart, Duration),
    Opened(VisitId, Result<OpenedChild, Fault>),
    Rested(VisitId, TaskId, Result<Option<Arc<Task>>, Fault>),
}

/// A question for the caller.
enum Question {
    Approval(VisitId, String),
    /// A node's agent asks.
    Of(VisitId, Arc<Task>),
}

impl RunDriver {
    async fn drive(&mut self, mut run: Run, begins: Option<(usize, usize)>) {
        self.emitter.say(AgentEvent::Bound(format!("{BOUND}{}", self.run))).await;
        if let Some(input) = begins {
            let entry = RunEntry { input: Some(input), ..self.entry(RunStep::Began, None) };
            self.emit(entry, format!("{}: began", self.name)).await;
        }
        let mut to_do: VecDeque<RunAction> = match self.answered(&mut run).await {
            Ok(()) => run.outstanding().into(),
            Err(asked_again) => return self.ask(asked_again, true).await,
        };
        let mut questions = VecDeque::new();
        // The tasks of outstanding visits may exist already. Those of visits that follow in this turn cannot: their
        // input is a result of this turn.
        let mut may_be_there = !self.is_new;
        loop {
            let (mut surplus, mut finish) = (Vec::new(), None);
            while let Some(action) = to_do.pop_front() {
                match action {
                    RunAction::Start(start) if may_be_there => self.look_for(start),
                    RunAction::Start(start) => self.begin(start, AGAIN).await,
                    RunAction::Ask { visit, question, .. } => questions.push_back(Question::Approval(visit, question)),
                    RunAction::Cancel(visit) => surplus.push(visit),
                    RunAction::Finish(end) => finish = Some(end),
                }
            }
            may_be_there = false;
            if let Some(finish) = finish {
                return self.finish(finish, surplus).await;
            }
            if self.under_way.is_empty() {
                // Only now, so that nothing is missed while a question is open.
                match questions.pop_front() {
                    Some(question) => return self.ask(question, false).await,
                    None => return self.end(EndState::Failed, "nothing of the system is left to do").await,
                }
            }
            let event = tokio::select! {
                biased;
                () = self.turn.cancelled.clone() => None,
                event = self.under_way.next() => event,
            };
            let Some(event) = event else {
                to_do.extend(run.apply(NodeEvent::Cancelled).unwrap_or_default());
                continue;
            };
            for event in self.handle(event, &mut questions).await {
                // A run refuses only events that it did not ask for.
                to_do.extend(run.apply(event).unwrap_or_default());
            }
        }
    }

    /// Applies the turn's messages to the open question, if there is one. An error is the same question again.
    async fn answered(&mut self, run: &mut Run) -> Result<(), Question> {
        let Some(question) = self.question.take() else { return Ok(()) };
        let Some(visit) = question.visit() else { return Ok(()) };
        if question.state == RunStep::Question {
            let child = self.turn.children.id(&self.key(&visit));
            let parts = self.turn.messages.iter().flat_map(|said| said.message.parts.iter().cloned()).collect();
            let message = self.message(format!("{}/{visit}", self.turn.id), parts, None);
            let children = self.turn.children.clone();
            let told = patient(|| children.tell(child, message.clone())).await;
            if let Err(fault) = told {
                // The task has settled by itself, or is gone; its own state tells the outcome.
                tracing::debug!(task = %self.turn.task, %child, "an answer came too late: {fault}");
            }
            let text = format!("{}: answered", visit.node);
            let entry = RunEntry { child: Some(child.to_string()), ..self.entry(RunStep::Answered, Some(&visit)) };
            self.emit(entry, text).await;
            return Ok(());
        }
        let Some(answer) = answer::read(&self.turn.messages) else {
            let again = run.outstanding().into_iter().find_map(|action| match action {
                RunAction::Ask { visit: asked, question, .. } if asked == visit => Some(question),
                RunAction::Ask { .. } | RunAction::Start(_) | RunAction::Cancel(_) | RunAction::Finish(_) => None,
            });
            return again.map_or(Ok(()), |again| Err(Question::Approval(visit, again)));
        };
        let (step, event, word) = if answer.approves {
            (RunStep::Approved, NodeEvent::Approved { visit: visit.clone() }, "approved")
        } else {
            let event = NodeEvent::Denied { visit: visit.clone(), reason: answer.reason.clone() };
            (RunStep::Denied, event, "denied")
        };
        let entry = RunEntry { reason: answer.reason, ..self.entry(step, Some(&visit)) };
        self.emit(entry, format!("{}: {word}", visit.node)).await;
        let _ = run.apply(event);
        Ok(())
    }

    /// Looks for the visit's task, which may exist.
    fn look_for(&mut self, start: VisitStart) {
        let (children, child) = (self.turn.children.clone(), self.turn.children.id(&self.key(&start.visit)));
        self.under_way.push(Box::pin(async move {
            let found = patient(|| children.find(child)).await;
            ChildEvent::Found(start, child, found)
        }));
    }

    /// Opens the task of a visit with the inputs so far. Without room, retries after a pause.
    async fn begin(&mut self, start: VisitStart, wait: Duration) {
        let VisitStart { visit, agent, input, from } = &start;
        let key = self.key(visit);
        let link = serde_json::json!({ KEY: {
            "parent": self.turn.task.to_string(),
            "system": *self.name,
            "node": *visit.node,
            "visit": visit.n,
            "from": from.iter().map(ToString::to_string).collect::<Vec<_>>(),
        } });
        let metadata = self.delegation.write(Some(&Json::from_value(&link)));
        let message = self.message(format!("{}/{visit}", self.run), input.clone(), Some(metadata));
        // One context for each node of a run, shared by all its visits.
        let context = ContextId(format!("{}/{}", self.run, visit.node).into());
        let id = self.turn.children.id(&key);
        let visit = visit.clone();
        match self.turn.children.open(Child { key, agent: agent.clone(), context, message }) {
            Ok(opened) => {
                self.under_way.push(Box::pin(async move { ChildEvent::Opened(visit, opened.await) }));
                self.emit_start(&start.visit, id).await;
            }
            Err(fault) if fault.kind == Kind::Unavailable => self.under_way.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                ChildEvent::Room(start, (wait * 2).min(AGAIN_MOST))
            })),
            Err(fault) => self.under_way.push(Box::pin(future::ready(ChildEvent::Opened(visit, Err(fault))))),
        }
    }

    /// Emits the start of a visit; if the log has it already, only that it continues.
    async fn emit_start(&mut self, visit: &VisitId, child: TaskId) {
        if self.started.insert(visit.clone()) {
            let entry = RunEntry { child: Some(child.to_string()), ..self.entry(RunStep::Started, Some(visit)) };
            self.emit(entry, format!("{}: started", visit.node)).await;
        } else {
            self.emitter.say(AgentEvent::Working(None)).await;
        }
    }

    fn follow(&mut self, visit: VisitId, child: TaskId) {
        let children = self.turn.children.clone();
        self.under_way.push(Box::pin(async move {
            let rested = patient(|| children.at_rest(child)).await;
            ChildEvent::Rested(visit, child, rested)
        }));
    }

    /// Emits this event and all others that are ready, and returns the events for the run once the log has them.
    async fn handle(&mut self, first: ChildEvent, questions: &mut VecDeque<Question>) -> Vec<NodeEvent> {
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some(event) = next {
            let ended = match event {
                ChildEvent::Found(start, child, Ok(true)) => {
                    if !self.started.contains(&start.visit) {
                        self.emit_start(&start.visit, child).await;
                    }
                    self.follow(start.visit, child);
                    None
                }
                ChildEvent::Found(start, _, Ok(false)) => {
                    self.begin(start, AGAIN).await;
                    None
                }
                ChildEvent::Room(start, wait) => {
                    self.begin(start, wait).await;
                    None
                }
                ChildEvent::Opened(visit, Ok(opened)) => match opened.over {
                    Some(task) => self.rested(visit, opened.id, Some(task), questions),
                    None => {
                        self.follow(visit, opened.id);
                        None
                    }
                },
                ChildEvent::Rested(visit, child, Ok(task)) => self.rested(visit, child, task, questions),
                ChildEvent::Opened(visit, Err(fault))
                | ChildEvent::Rested(visit, _, Err(fault))
                | ChildEvent::Found(VisitStart { visit, .. }, _, Err(fault)) => {
                    tracing::warn!(task = %self.turn.task, %visit, cause = %fault.cause_text(), "a node could not be run: {fault}");
                    Some((visit, None, End::Failed(fault.message)))
                }
            };
            if let Some((visit, child, end)) = ended {
                self.emit_end(&visit, child, &end).await;
                events.push(NodeEvent::Ended { visit, end });
            }
            next = self.under_way.next().now_or_never().flatten();
        }
        events
    }

    /// The outcome of a visit's task.
    fn rested(
        &mut self,
        visit: VisitId,
        child: TaskId,
        task: Option<Arc<Task>>,
        questions: &mut VecDeque<Question>,
    ) -> Option<(VisitId, Option<TaskId>, End)> {
        let failed = |task: &Task, otherwise: &str| {
            let words = task.status.message.as_ref().map(|message| message.text()).filter(|words| !words.is_empty());
            End::Failed(words.unwrap_or_else(|| otherwise.to_owned()))
        };
        let end = match &task {
            None => End::Failed("its task is not there any more".into()),
            Some(task) => match task.state() {
                State::Completed => End::Completed(given(task)),
                State::Failed => failed(task, "it failed"),
                State::Rejected => failed(task, "it was rejected"),
                State::Canceled => failed(task, "it was cancelled"),
                State::InputRequired | State::AuthRequired => {
                    questions.push_back(Question::Of(visit, task.clone()));
                    return None;
                }
                // It was at rest, and then received another message.
                State::Submitted | State::Working => {
                    self.follow(visit, child);
                    return None;
                }
            },
        };
        Some((visit, Some(child), end))
    }

    async fn emit_end(&mut self, visit: &VisitId, child: Option<TaskId>, end: &End) {
        let child = child.map(|child| child.to_string());
        match end {
            End::Completed(parts) => {
                let entry = RunEntry { child, ..self.entry(RunStep::Completed, Some(visit)) };
                let piece = ArtifactChunk {
                    key: artifact_key(visit),
                    name: Some(visit.node.to_string()),
                    parts: parts.clone(),
                    metadata: Some(entry.metadata()),
                    last: true,
                    ..ArtifactChunk::default()
                };
                self.emitter.say(AgentEvent::Artifact(piece)).await;
                self.emit(entry, format!("{}: completed", visit.node)).await;
            }
            End::Failed(reason) => {
                let text = format!("{}: failed: {reason}", visit.node);
                let entry =
                    RunEntry { child, reason: Some(reason.clone()), ..self.entry(RunStep::Failed, Some(visit)) };
                self.emit(entry, text).await;
            }
        }
    }

    async fn ask(&mut self, question: Question, again: bool) {
        let (state, entry, parts) = match question {
            Question::Approval(visit, question) => {
                let sorry = if again { "That was neither approve nor deny. " } else { "" };
                let text = format!("{sorry}{question} ({}: answer approve or deny)", visit.node);
                (EndState::InputRequired, self.entry(RunStep::Approval, Some(&visit)), vec![Part::text(text)])
            }
            Question::Of(visit, task) => {
                let asked = task.status.message.as_ref().map(|message| message.parts.clone());
                let parts = asked.filter(|parts| !parts.is_empty());
                let parts = parts.unwrap_or_else(|| vec![Part::text(format!("{} waits for an answer", visit.node))]);
                let state = match task.state() {
                    State::AuthRequired => EndState::AuthRequired,
                    State::InputRequired
                    | State::Submitted
                    | State::Working
                    | State::Completed
                    | State::Failed
                    | State::Canceled
                    | State::Rejected => EndState::InputRequired,
                };
                let entry = self.entry(RunStep::Question, Some(&visit));
                (state, RunEntry { child: Some(task.id.to_string()), ..entry }, parts)
            }
        };
        let words = AgentMessage { parts, metadata: Some(entry.metadata()), extensions: Vec::new() };
        self.emitter.say(AgentEvent::End(TurnEnd { state, words: Some(words) })).await;
    }

    async fn finish(&mut self, finish: Finish, surplus: Vec<VisitId>) {
        if !surplus.is_empty() {
            // No child is cancelled before the log has the entries that lead to it.
            self.logged().await;
        }
        let children: Vec<TaskId> = surplus.iter().map(|visit| self.turn.children.id(&self.key(visit))).collect();
        let port = self.turn.children.clone();
        let stopped = future::join_all(children.iter().map(|child| patient(|| port.cancel(*child)))).await;
        for fault in stopped.into_iter().filter_map(Result::err) {
            tracing::warn!(task = %self.turn.task, cause = %fault.cause_text(), "a branch could not be stopped: {fault}");
        }
        match finish {
            Finish::Completed { result, cut, .. } => {
                let piece = ArtifactChunk {
                    key: super::RESULT.into(),
                    name: Some(super::RESULT.into()),
                    parts: result,
                    last: true,
                    ..ArtifactChunk::default()
                };
                self.emitter.say(AgentEvent::Artifact(piece)).await;
                let says = if cut { "completed; a loop was ended by max_turns" } else { "completed" };
                self.end(EndState::Completed, says).await;
            }
            Finish::Failed { visit, reason } => {
                let at = visit.map(|visit| format!("{}: ", visit.node)).unwrap_or_default();
                self.end(EndState::Failed, &format!("{at}{reason}")).await;
            }
            Finish::Canceled => {
                // The engine limits this wait to its usual time for stopping.
                let rested = children.iter().map(|child| patient(|| port.at_rest(*child)));
                drop(future::join_all(rested).await);
                self.end(EndState::Canceled, "cancelled").await;
            }
        }
    }

    async fn end(&mut self, state: EndState, says: &str) {
        let entry = self.entry(RunStep::Finished, None);
        let words = AgentMessage { metadata: Some(entry.metadata()), ..AgentMessage::text(says) };
        self.emitter.end(state, Some(words)).await;
    }

    /// The next entry.
    fn entry(&mut self, state: RunStep, visit: Option<&VisitId>) -> RunEntry {
        self.no += 1;
        RunEntry {
            run: self.run.clone(),
            no: self.no,
            state,
            node: visit.map(|visit| visit.node.to_string()),
            visit: visit.map(|visit| visit.n),
            child: None,
            reason: None,
            input: None,
        }
    }

    async fn emit(&mut self, entry: RunEntry, text: String) {
        let words = AgentMessage { metadata: Some(entry.metadata()), ..AgentMessage::text(text) };
        self.emitter.say(AgentEvent::Working(Some(words))).await;
    }

    /// Waits until the log has every emission.
    async fn logged(&mut self) {
        let (run, no) = (self.run.clone(), self.no);
        let attempt = (self.turn.id, self.turn.attempt);
        let kept = self.turn.children.logged(Box::new(move |task| journal::reached(task, attempt, &run, no)));
        if let Err(fault) = kept.await {
            tracing::error!(task = %self.turn.task, cause = %fault.cause_text(), "a system cannot read its own log: {fault}");
            // The log may not have the entry, so no step may follow. The engine ends the turn.
            future::pending::<()>().await;
        }
    }

    /// The name of a visit's task among this task's children.
    fn key(&self, visit: &VisitId) -> String {
        format!("{}/{visit}", self.run)
    }

    fn message(&self, id: String, parts: Vec<Part>, metadata: Option<Json>) -> Message {
        let (extensions, references) = (Vec::new(), Vec::new());
        Message { id: id.into(), role: Role::User, parts, metadata, extensions, references }
    }
}

/// Retries until there is an answer. The turn's time limit ends it.
async fn patient<T>(mut ask: impl FnMut() -> Future<'static, Result<T, Fault>>) -> Result<T, Fault> {
    let mut wait = AGAIN;
    loop {
        match ask().await {
            Err(fault) if fault.kind == Kind::Unavailable => tokio::time::sleep(wait).await,
            done => return done,
        }
        wait = (wait * 2).min(AGAIN_MOST);
    }
}
