//! Incoming messages: a message opens a task or continues one, and a turn begins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use model::content::Reply;
use model::ports::agent::{Agent, AgentEvent, Earlier, Turn};
use model::ports::store::{Commit, Conflict, Guard, KeyUse, Outcome, StoreError};
use model::{
    Body, CallScope, ContextId, Event, EventId, Fault, Inbound, Kind, Opened, Send, Seq, Shape, State, Task, TaskId,
    Time, TurnId, Wait, depth,
};
use sha2::{Digest, Sha256};

use crate::alias::AliasClaim;
use crate::batch::{EventBatch, Stamp};
use crate::billing::{self, Reserved};
use crate::live::{AppendDraft, AppendError, Live, TurnHandle};
use crate::pending::{self, Pending};
use crate::push::{self, Registration};
use crate::subscription::{Subscription, Until};
use crate::turn::{self, TurnRun};
use crate::visibility::LookupKind;
use crate::{Engine, RunningTurn, Shared, children, clock, conversation, doubt, modes, troubled};

/// How long a send that does not wait gives an agent to decide between a task and a direct reply.
const FIRST_WORD: Duration = Duration::from_millis(100);

/// The answer to a send.
#[derive(Clone, Debug)]
pub enum SendAnswer {
    Task(Arc<Task>),
    Reply(Reply),
}

/// The progress of a send before its caller has to wait.
pub(crate) enum OpenProgress {
    /// Opened and at rest in one commit; the task was never live.
    Over { task: Arc<Task>, events: Vec<Event> },
    /// A turn runs; `at` is the task as of the message.
    Going { live: Arc<Live>, at: Arc<Task> },
    /// A repeat of an earlier request.
    Repeat { task: TaskId, seq: Seq },
    /// Another send has taken the alias meanwhile.
    Taken,
}

impl Engine {
    pub fn send<'a>(&'a self, place: &'a CallScope, send: Send) -> model::ports::Future<'a, Result<SendAnswer, Fault>> {
        Box::pin(async move {
            let wait = send.wait;
            match self.begin(place, send).await? {
                OpenProgress::Over { task, .. } => answer(&task),
                OpenProgress::Going { live, .. } => self.answer_from(live, wait).await,
                OpenProgress::Repeat { task, .. } => {
                    let live = self.shared.live(task).await?.ok_or_else(|| Fault::task_not_found(task))?;
                    self.answer_from(live, wait).await
                }
                OpenProgress::Taken => Err(alias_lost()),
            }
        })
    }

    /// Sends, and subscribes to the task.
    pub fn stream<'a>(
        &'a self,
        place: &'a CallScope,
        send: Send,
    ) -> model::ports::Future<'a, Result<Subscription, Fault>> {
        Box::pin(async move { self.stream_until(place, send, Until::Question).await })
    }

    /// Resumes the stream of an earlier [`Engine::stream`] after an event. Sends nothing: it reads the task, if it is
    /// visible in this scope.
    pub fn resume_stream<'a>(
        &'a self,
        place: &'a CallScope,
        from: EventId,
    ) -> model::ports::Future<'a, Result<Subscription, Fault>> {
        Box::pin(async move { self.resume(place, from, None, Until::Question).await })
    }

    /// Sends, and subscribes until the task has settled, across interruptions.
    pub fn stream_to_end<'a>(
        &'a self,
        place: &'a CallScope,
        send: Send,
    ) -> model::ports::Future<'a, Result<Subscription, Fault>> {
        Box::pin(async move { self.stream_until(place, send, Until::Settled).await })
    }

    async fn stream_until(&self, place: &CallScope, send: Send, until: Until) -> Result<Subscription, Fault> {
        let stopped = self.shared.stopped.clone();
        // A streaming caller does not wait for the answer.
        let send = Send { wait: Wait::Exists, ..send };
        match self.begin(place, send).await? {
            OpenProgress::Over { events, .. } => Subscription::of_finished(events, stopped),
            OpenProgress::Going { live, at } => Ok(Subscription::new(self.shared.clone(), live, at, until)),
            OpenProgress::Repeat { task, seq } => self.resume(place, EventId { task, seq }, None, until).await,
            OpenProgress::Taken => Err(alias_lost()),
        }
    }

    /// The agent of a message, which may be sent to it as far as no task decides.
    pub(crate) fn checked_agent(&self, place: &CallScope, send: &Send) -> Result<Arc<dyn Agent>, Fault> {
        let agent = self.shared.agent(&place.agent)?;
        let profile = agent.profile();
        depth::check_message(&send.message, self.shared.limits.data_depth)?;
        depth::check(send.metadata.as_ref(), "metadata", self.shared.limits.data_depth)?;
        modes::check_extensions(&send.extensions, profile)?;
        if !self.shared.limits.any_input_mode {
            modes::check_modes(&send.message.parts, &profile.input_modes)?;
        }
        Ok(agent)
    }

    async fn begin(&self, place: &CallScope, send: Send) -> Result<OpenProgress, Fault> {
        self.shared.refuse_if_draining()?;
        if place.reads.is_empty() {
            let message = format!("this credential is not bound to {}", place.agent);
            return Err(Fault::new(Kind::Forbidden, message));
        }
        let agent = self.checked_agent(place, &send)?;
        if let Some(config) = &send.push {
            push::check(&self.shared, config)?;
        }
        let key = self.key(place, &send);
        let shared = &self.shared;
        if send.task.is_none() && send.alias.is_none() {
            // The commit checks the key itself. Only a fault before the commit needs a check for a repeat.
            return match open(shared, place, agent, send, key, None).await {
                Err(fault) if !doubt::is_unknown(&fault) => self.repeated(key).await?.ok_or(fault),
                begun => begun,
            };
        }
        if let Some(repeat) = self.repeated(key).await? {
            return Ok(repeat);
        }
        if send.alias.is_some() {
            let (shared, place) = (shared.clone(), place.clone());
            return Shared::detached(async move { Self::begin_alias(&shared, &place, agent, send, key).await }).await;
        }
        match &send.task {
            Some(id) => {
                let named = shared.named(place, id).await?;
                let to = To { alias: named.by_alias.then(|| id.as_str().into()), ..To::task(named.task) };
                let (shared, place) = (shared.clone(), place.clone());
                Shared::detached(async move { follow_up(&shared, &place, agent, to, send, key).await }).await
            }
            None => open(shared, place, agent, send, key, None).await,
        }
    }

    /// The stored form of the request's idempotency key, and the time from which an earlier use counts.
    fn key(&self, place: &CallScope, send: &Send) -> Option<(KeyUse, Time)> {
        let idempotency = send.idempotency.as_ref()?;
        let mut hash = Sha256::new();
        for text in [&*place.caller.tenant, &*place.caller.name, &*place.agent, idempotency.key.as_str()] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        let now = self.shared.clock.now();
        let not_before =
            Time(now.0.saturating_sub(i64::try_from(self.shared.limits.idempotency_ms).unwrap_or(i64::MAX)));
        let key: [u8; 32] = hash.finalize().into();
        Some((KeyUse { key, body: idempotency.body, task: clock::task_id(), seq: Seq::ZERO, at: now }, not_before))
    }

    /// The earlier request with this key, if there is one.
    async fn repeated(&self, key: Option<(KeyUse, Time)>) -> Result<Option<OpenProgress>, Fault> {
        let Some((fresh, not_before)) = key else { return Ok(None) };
        let known = self.shared.store.key(fresh.key, not_before).await.map_err(troubled)?;
        let Some(known) = known else { return Ok(None) };
        same_request(&known, &fresh)?;
        Ok(Some(OpenProgress::Repeat { task: known.task, seq: known.seq }))
    }

    /// Waits as the caller asked, then answers.
    async fn answer_from(&self, live: Arc<Live>, wait: Wait) -> Result<SendAnswer, Fault> {
        match wait {
            Wait::Exists => {
                // An agent that answers with a message usually does so at once; a slower one is shown as a task.
                let decided = live.wait_until(|task| task.core.shape != Shape::Undecided);
                if let Ok(task) = tokio::time::timeout(FIRST_WORD, decided).await {
                    return answer(&task?);
                }
                let shared = self.shared.clone();
                Shared::detached(async move { answer(&reveal(&shared, &live).await?) }).await
            }
            Wait::Rest { max_ms } => {
                let long_enough = async {
                    match max_ms {
                        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                        None => std::future::pending().await,
                    }
                };
                let task = tokio::select! {
                    biased;
                    task = live.wait_until(|task| task.core.is_at_rest()) => task?,
                    () = self.shared.stopped.cancelled() => live.snapshot()?,
                    () = long_enough => {
                        let (shared, live) = (self.shared.clone(), live.clone());
                        Shared::detached(async move { reveal(&shared, &live).await }).await?
                    }
                };
                answer(&task)
            }
        }
    }
}

pub(crate) fn answer(task: &Arc<Task>) -> Result<SendAnswer, Fault> {
    match (&task.reply, task.core.shape) {
        (Some(message), Shape::Reply) => {
            Ok(SendAnswer::Reply(Reply { message: message.clone(), context: task.context.clone(), exchange: task.id }))
        }
        (_, Shape::Task) => Ok(SendAnswer::Task(task.clone())),
        (_, Shape::Undecided | Shape::Reply) => {
            Err(Fault::new(Kind::Unavailable, "the server is shutting down; try again shortly").retry_after(2))
        }
    }
}

fn alias_lost() -> Fault {
    Fault::internal("an alias was taken from a send that has none")
}

/// Makes an undecided exchange a task, because a caller is about to see it.
async fn reveal(shared: &Shared, live: &Live) -> Result<Arc<Task>, Fault> {
    let shown = live.append(shared, |task| {
        let undecided = task.core.shape == Shape::Undecided;
        let bodies = if undecided { vec![pending::status(State::Submitted, None)] } else { Vec::new() };
        Ok(AppendDraft::outside(bodies))
    });
    shown.await.map_err(Fault::from)
}

fn same_request(known: &KeyUse, now: &KeyUse) -> Result<(), Fault> {
    if known.body == now.body {
        return Ok(());
    }
    let message = "this Idempotency-Key was used with another request; use a new key for a new request";
    Err(Fault { field: Some("Idempotency-Key".into()), ..Fault::new(Kind::KeyReused, message) })
}

fn inbound(mut send: Send, payer: Option<Arc<str>>) -> Arc<Inbound> {
    // Messages of the first protocol generation have no id; readers of every other dialect expect one.
    if send.message.id.is_empty() {
        send.message.id = clock::text_id();
    }
    Arc::new(Inbound {
        message: Arc::new(send.message),
        metadata: send.metadata,
        accepted_output: send.accepted_output,
        extensions: send.extensions,
        trace: send.trace,
        payer,
    })
}

/// Opens a task.
pub(crate) async fn open(
    shared: &Arc<Shared>,
    place: &CallScope,
    agent: Arc<dyn Agent>,
    send: Send,
    key: Option<(KeyUse, Time)>,
    alias: Option<AliasClaim>,
) -> Result<OpenProgress, Fault> {
    let id = key.map_or_else(clock::task_id, |(key, _)| key.task);
    let (start, runs_ahead) =
        OpeningCommit::new(shared, place, &agent, send, NewTaskIds { id, key, alias, is_child: false })?;
    if !runs_ahead {
        let shared = shared.clone();
        return Shared::detached(async move { commit_first(&shared, agent, start).await }).await;
    }
    // A turn that ends without waiting costs one commit.
    let Ahead { bodies, stream, handle } = start.ahead(shared, &agent)?;
    let Some(stream) = stream else {
        return match start.push.clone() {
            None => finish(shared, start, bodies)?.await,
            Some(push) => {
                let shared = shared.clone();
                Shared::detached(async move { finish_and_tell(&shared, start, bodies, push).await }).await
            }
        };
    };
    let shared = shared.clone();
    Shared::detached(async move {
        let mut running = shared.take_turn()?;
        let (turn, whole) = (start.turn, start.whole);
        let begun = commit_opening(&shared, start, bodies, &mut running).await?;
        if let OpenProgress::Going { live, .. } = &begun {
            let (shared, live) = (shared.clone(), live.clone());
            TurnRun { shared, live, agent, turn, attempt: 1, whole, handle, running }.spawn(Some(stream));
        }
        Ok(begun)
    })
    .await
}

/// The ids of a new task.
pub(crate) struct NewTaskIds {
    pub(crate) id: TaskId,
    pub(crate) key: Option<(KeyUse, Time)>,
    pub(crate) alias: Option<AliasClaim>,
    /// Other attempts of the parent may have opened it before, or concurrently.
    pub(crate) is_child: bool,
}

/// The parts of a task's first commit.
pub(crate) struct OpeningCommit {
    opened: Opened,
    fresh_context: bool,
    message: Arc<Inbound>,
    pub(crate) turn: TurnId,
    /// As in [`Turn::whole`].
    pub(crate) whole: bool,
    stamp: Stamp,
    key: Option<(KeyUse, Time)>,
    alias: Option<AliasClaim>,
    push: Option<Registration>,
    /// The reservation for the turn.
    pub(crate) reserved: Option<Reserved>,
}

impl OpeningCommit {
    /// Prepares the opening of a task by this message, and returns whether the agent may run before the commit.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        place: &CallScope,
        agent: &Arc<dyn Agent>,
        mut send: Send,
        name: NewTaskIds,
    ) -> Result<(OpeningCommit, bool), Fault> {
        let NewTaskIds { id, key, alias, is_child } = name;
        let push = match send.push.take() {
            Some(config) => {
                let alias = alias.as_ref().map(|claim| claim.text.clone());
                Some(Registration::inline(shared, place, id, config, &send, alias)?)
            }
            None => None,
        };
        let whole = push.is_none() && matches!(send.wait, Wait::Rest { .. });
        let fresh_context = send.context.is_none();
        let context = send.context.take().unwrap_or_else(|| ContextId(clock::text_id()));
        let till = agent.till();
        let message = inbound(send, till.as_ref().map(|_| place.caller.name.clone()));
        let admission = turn::admit(agent, &message, None)?;
        let opened = Opened {
            id,
            context,
            agent: place.agent.clone(),
            tenant: place.caller.tenant.clone(),
            owner: place.caller.name.clone(),
            parties: place.parties.clone(),
            views: place.views.clone(),
            dialect: place.dialect.clone(),
            alias: alias.as_ref().map(|claim| claim.text.clone()),
            follows: alias.as_ref().and_then(AliasClaim::follows),
            // A caller that chose an id expects a task under it.
            undecided: admission.undecided && alias.is_none() && !is_child,
        };
        let stamp = Stamp { now: shared.clock.now(), epoch: Some(shared.store.hold(1)) };
        let turn = clock::turn_id();
        let reserved = match &till {
            Some(till) => {
                let asked = billing::asked(place, (id, &opened.context), turn, true, stamp.now);
                till.hold(&asked)?.map(|held| Reserved::new(till, held))
            }
            None => None,
        };
        // An agent with a price does not run before its reservation is committed.
        let runs_ahead = admission.idempotent && reserved.is_none();
        let start = OpeningCommit { opened, fresh_context, message, turn, whole, stamp, key, alias, push, reserved };
        Ok((start, runs_ahead))
    }

    /// Runs an idempotent agent before the first commit, until it first waits. No caller can name the task yet.
    pub(crate) fn ahead(&self, shared: &Arc<Shared>, agent: &Arc<dyn Agent>) -> Result<Ahead, Fault> {
        let handle = TurnHandle::new();
        let first = Event { seq: Seq(1), at: self.stamp.now, body: Body::Opened(Box::new(self.opened.clone())) };
        let mut so_far = Task::open(&first).map_err(Fault::internal)?;
        for (i, body) in self.bodies().into_iter().enumerate() {
            so_far.apply(&Event { seq: Seq(i as u64 + 2), at: self.stamp.now, body }).map_err(Fault::internal)?;
        }
        let mut pending = Pending::new(&so_far, &shared.limits);
        let so_far = Arc::new(so_far);
        let mut stream = turn::start(
            agent,
            Turn {
                id: self.turn,
                attempt: 1,
                task: so_far.id,
                context: so_far.context.clone(),
                tenant: so_far.tenant.clone(),
                caller: so_far.owner.clone(),
                messages: vec![self.message.clone()],
                so_far: so_far.clone(),
                earlier: if self.fresh_context { Earlier::none() } else { conversation::of(shared, &so_far) },
                bound: None,
                cancelled: handle.cancelled(),
                whole: self.whole,
                children: children::of(shared, &so_far, &handle),
            },
        );
        turn::run_ahead(&mut stream, &mut pending);
        let over = pending.ended();
        let mut bodies = self.bodies();
        bodies.extend(pending.take().resolve(&so_far).0);
        Ok(Ahead { bodies, stream: (!over).then_some(stream), handle })
    }

    pub(crate) fn bodies(&self) -> Vec<Body> {
        let hold = self.reserved.as_ref().map(Reserved::hold);
        vec![Body::Message(self.message.clone()), Body::TurnStarted { turn: self.turn, attempt: 1, hold }]
    }

    pub(crate) fn batch(self, shared: &Shared, bodies: Vec<Body>) -> Result<(EventBatch, Task), Fault> {
        let batch = EventBatch::opening(self.opened, self.fresh_context, bodies, self.stamp, &shared.limits);
        let (mut batch, task) = batch.map_err(Fault::internal)?;
        if let Some((mut key, not_before)) = self.key {
            // Up to and including the message: a repeat is answered from there on.
            key.seq = Seq(2);
            batch.commit.guards.push(Guard::KeyFree { key: key.key, not_before });
            batch.commit.keys.push(key);
        }
        if let Some(alias) = &self.alias {
            alias.add_to(&mut batch.commit, task.id);
        }
        if let Some(push) = &self.push {
            batch.commit.push.extend(push.put_opening(&task));
        }
        if let Some(reserved) = &self.reserved {
            reserved.along().add_to(task.id, &mut batch.commit);
        }
        Ok((batch, task))
    }
}

/// An agent's progress before its task's first commit.
pub(crate) struct Ahead {
    /// The events of the first commit.
    pub(crate) bodies: Vec<Body>,
    /// The rest of the turn, unless it has ended.
    pub(crate) stream: Option<BoxStream<'static, AgentEvent>>,
    pub(crate) handle: TurnHandle,
}

/// Writes a complete turn in one commit. If the caller goes away during the write, nothing remains to be done.
/// Everything before the commit runs outside the returned future, because each request copies its future as a whole.
fn finish(
    shared: &Arc<Shared>,
    start: OpeningCommit,
    bodies: Vec<Body>,
) -> Result<impl Future<Output = Result<OpenProgress, Fault>>, Fault> {
    let key = start.key;
    let (EventBatch { commit, events, .. }, task) = start.batch(shared, bodies)?;
    let task = Arc::new(task);
    let written = shared.store.commit(commit);
    Ok(async move {
        let outcome = match written.await {
            Outcome::Unknown(trouble) => {
                let (shared, id) = (shared.clone(), task.id);
                Box::pin(Shared::detached(async move { look_up(&shared, id, trouble).await })).await?
            }
            known @ (Outcome::Done | Outcome::Conflict(_) | Outcome::Refused(_)) => known,
        };
        match outcome {
            Outcome::Done => {
                shared.count(&task, &events);
                Ok(OpenProgress::Over { task, events })
            }
            other => not_opened(other, key),
        }
    })
}

/// Like [`finish`], for a task with a webhook: deliveries begin after the commit even if the caller has gone away.
async fn finish_and_tell(
    shared: &Arc<Shared>,
    start: OpeningCommit,
    bodies: Vec<Body>,
    push: Registration,
) -> Result<OpenProgress, Fault> {
    let key = start.key;
    let (batch, task) = start.batch(shared, bodies)?;
    let live = shared.lives.entry(task.id);
    // The lock keeps other requests from changing the config before it is known here.
    let _still = live.hold(shared).await.map_err(troubled)?;
    match commit_new(shared, task.id, batch.commit).await? {
        Outcome::Done => {
            shared.count(&task, &batch.events);
            push.begin(shared, push.opening(&task));
            Ok(OpenProgress::Over { task: Arc::new(task), events: batch.events })
        }
        other => not_opened(other, key),
    }
}

/// Commits a task's first batch. An unknown outcome is looked up by the task's id, which no other commit can have
/// opened.
pub(crate) fn commit_new(
    shared: &Shared,
    task: TaskId,
    commit: Commit,
) -> impl Future<Output = Result<Outcome, Fault>> {
    let written = shared.store.commit(commit);
    async move {
        match written.await {
            Outcome::Unknown(trouble) => Box::pin(look_up(shared, task, trouble)).await,
            known @ (Outcome::Done | Outcome::Conflict(_) | Outcome::Refused(_)) => Ok(known),
        }
    }
}

async fn look_up(shared: &Shared, task: TaskId, trouble: StoreError) -> Result<Outcome, Fault> {
    let head = doubt::read_back(shared, task, || shared.store.head(task)).await.map_err(troubled)?;
    Ok(if head.is_some() { Outcome::Done } else { Outcome::Refused(trouble) })
}

/// Commits the turn before the agent runs: for agents with side effects.
async fn commit_first(
    shared: &Arc<Shared>,
    agent: Arc<dyn Agent>,
    start: OpeningCommit,
) -> Result<OpenProgress, Fault> {
    let mut running = shared.take_turn()?;
    let (turn, whole) = (start.turn, start.whole);
    let bodies = start.bodies();
    let begun = commit_opening(shared, start, bodies, &mut running).await?;
    if let OpenProgress::Going { live, .. } = &begun {
        let handle = TurnHandle::new();
        TurnRun { shared: shared.clone(), live: live.clone(), agent, turn, attempt: 1, whole, handle, running }
            .spawn(None);
    }
    Ok(begun)
}

async fn commit_opening(
    shared: &Arc<Shared>,
    start: OpeningCommit,
    bodies: Vec<Body>,
    running: &mut RunningTurn,
) -> Result<OpenProgress, Fault> {
    let (key, push, reserved) = (start.key, start.push.clone(), start.reserved.clone());
    // The answer shows the task as of message and turn, without the output of an agent that ran ahead.
    let said_ahead = bodies.len() > 2;
    let (batch, task) = start.batch(shared, bodies)?;
    let timers = batch.commit.timers.clone();
    // Registered before the commit, so that a reader that learns of the task from the store finds this same `Live`.
    let live = shared.lives.entry(task.id);
    running.begin_at(&live);
    // The lock keeps other requests from changing the config before it is known here.
    let still = if push.is_some() { Some(live.hold(shared).await.map_err(troubled)?) } else { None };
    match commit_new(shared, task.id, batch.commit).await? {
        Outcome::Done => {}
        Outcome::Conflict(met) => {
            if let Some(fault) = reserved.and_then(|reserved| reserved.refused(&met)) {
                return Err(fault);
            }
            return not_opened(Outcome::Conflict(met), key);
        }
        other @ (Outcome::Refused(_) | Outcome::Unknown(_)) => return not_opened(other, key),
    }
    shared.count(&task, &batch.events);
    shared.alarm.set(&timers);
    let task = Arc::new(task);
    let at = if said_ahead { Task::fold(&batch.events[..3]).map_err(Fault::internal)?.map(Arc::new) } else { None };
    let at = at.unwrap_or_else(|| task.clone());
    let begins = push.map(|push| (push.opening(&task), push));
    live.opened(task, batch.events, &shared.limits).await;
    if let Some((progress, push)) = begins {
        push.begin(shared, progress);
    }
    drop(still);
    Ok(OpenProgress::Going { live, at })
}

/// The result of a first commit that did not happen, or may not have.
fn not_opened(outcome: Outcome, fresh: Option<(KeyUse, Time)>) -> Result<OpenProgress, Fault> {
    match outcome {
        Outcome::Done => Err(Fault::internal("a commit that happened was taken for one that did not")),
        Outcome::Conflict(Conflict::Key(known)) => {
            if let Some((fresh, _)) = &fresh {
                same_request(&known, fresh)?;
            }
            Ok(OpenProgress::Repeat { task: known.task, seq: known.seq })
        }
        Outcome::Conflict(Conflict::Alias(_)) => Ok(OpenProgress::Taken),
        Outcome::Conflict(conflict) => Err(Fault::internal(format!("a new task met a conflict: {conflict:?}"))),
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble)),
    }
}

/// The task a message is for, and the alias that named it.
pub(crate) struct To {
    pub(crate) task: TaskId,
    pub(crate) alias: Option<Arc<str>>,
    /// The message is refused unless the task waits for one.
    pub(crate) only_waiting: bool,
}

impl To {
    pub(crate) fn task(task: TaskId) -> To {
        To { task, alias: None, only_waiting: false }
    }
}

/// Sends a message to an existing task.
pub(crate) async fn follow_up(
    shared: &Arc<Shared>,
    place: &CallScope,
    agent: Arc<dyn Agent>,
    to: To,
    mut send: Send,
    key: Option<(KeyUse, Time)>,
) -> Result<OpenProgress, Fault> {
    let (id, to_waiting) = (to.task, to.only_waiting);
    let found = shared.visible_live(place, id, LookupKind::Task).await?;
    let (live, task) = found.ok_or_else(|| Fault::task_not_found(id))?;
    if send.context.as_ref().is_some_and(|context| *context != task.context) {
        let message = "contextId is not the context of the task; leave it out or send the task's own";
        return Err(Fault::params("message.contextId", message));
    }
    // A held fold would be copied by the next event.
    drop(task);
    let push = match send.push.take() {
        Some(config) => Some(Registration::inline(shared, place, id, config, &send, to.alias)?),
        None => None,
    };
    let fresh = key.map(|(key, _)| key);
    let key = key.map(|(key, not_before)| (KeyUse { task: id, ..key }, not_before));
    let till = agent.till();
    let message = inbound(send, till.as_ref().map(|_| place.caller.name.clone()));
    let turn = clock::turn_id();
    let (mut running, mut begins, mut reserved) = (None, false, None);
    let appended = live.append(shared, |task| {
        if task.core.is_settled() {
            let message = "the task has settled and takes no more messages; send without taskId to start another";
            return Err(Fault::new(Kind::TaskSettled, message).fact("taskId", id.to_string()));
        }
        if to_waiting && !task.core.is_at_rest() {
            let message = format!("the task does not wait for an answer: it is {}", task.state().word());
            return Err(Fault::new(Kind::TaskSettled, message).fact("taskId", id.to_string()));
        }
        if task.core.waiting >= shared.limits.waiting_messages {
            return Err(Fault::new(Kind::Unavailable, "too many messages wait on this task").retry_after(1));
        }
        turn::admit(&agent, &message, Some(task))?;
        begins = task.core.turn.is_none();
        if begins && running.is_none() {
            running.insert(shared.take_turn()?).begin_at(&live);
        }
        // For a message that waits, this only checks that its turn can be paid for; the reservation is made when the
        // turn begins.
        reserved = match &till {
            Some(till) => {
                let asked = billing::asked(place, (id, &task.context), turn, false, shared.clock.now());
                till.hold(&asked)?.filter(|_| begins).map(|held| Reserved::new(till, held))
            }
            None => None,
        };
        let mut bodies = vec![Body::Message(message.clone())];
        if begins {
            bodies.push(pending::status(State::Working, None));
            bodies.push(Body::TurnStarted { turn, attempt: 1, hold: reserved.as_ref().map(Reserved::hold) });
        }
        let draft = if begins { AppendDraft::held(bodies, task, &*shared.store) } else { AppendDraft::outside(bodies) };
        Ok(AppendDraft { key, push: push.clone(), along: reserved.as_ref().map(Reserved::along), ..draft })
    });
    let at = match appended.await {
        Ok(at) => at,
        Err(AppendError::Key(known)) => {
            if let Some(fresh) = &fresh {
                same_request(&known, fresh)?;
            }
            return Ok(OpenProgress::Repeat { task: known.task, seq: known.seq });
        }
        Err(AppendError::Met(met)) => {
            let refused = reserved.and_then(|reserved| reserved.refused(&met));
            return Err(refused.unwrap_or_else(|| AppendError::Met(met).into()));
        }
        Err(failed) => return Err(failed.into()),
    };
    if begins && let Some(running) = running.take() {
        let handle = TurnHandle::new();
        TurnRun { shared: shared.clone(), live: live.clone(), agent, turn, attempt: 1, whole: false, handle, running }
            .spawn(None);
    }
    Ok(OpenProgress::Going { live, at })
}
