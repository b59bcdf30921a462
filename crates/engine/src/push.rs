//! Push configs, as callers set, read and remove them. The `outbox` delivers them.
//!
//! A config is set and removed while the task's log is locked, so that its first event is well defined: the first event
//! after it, or, for a config that comes with a message, that message.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{Commit, Outcome};
use model::ports::webhook::WebhookSender;
use model::{
    CallScope, Epoch, Fault, Kind, Limits, PushCall, PushChange, PushConfig, PushProgress, PushRow, PushSpec,
    PushState, Send, Seq, Shape, Task, TaskId, Time,
};

use crate::outbox::ConfigKey;
use crate::{Engine, Shared, clock, doubt, troubled};

pub use crate::outbox::DeliveryStatus;

/// The answer to a push call. Configs are returned without secrets, and with the caller's id of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushAnswer {
    Config(PushConfig),
    List {
        configs: Vec<PushConfig>,
        next_page_token: String,
    },
    /// The caller's id of the task.
    Deleted(String),
}

pub(crate) fn unsupported() -> Fault {
    Fault::new(Kind::PushNotSupported, "Push Notification is not supported")
}

impl Engine {
    /// Whether the server delivers push notifications.
    pub fn has_push(&self) -> bool {
        self.shared.courier.is_some()
    }

    /// Encrypts configs, and secrets that products store.
    pub fn courier(&self) -> Option<&Arc<dyn WebhookSender>> {
        self.shared.courier.as_ref()
    }

    pub fn push<'a>(&'a self, place: &'a CallScope, call: PushCall) -> Future<'a, Result<PushAnswer, Fault>> {
        Box::pin(async move {
            let courier = self.shared.courier.clone().ok_or_else(unsupported)?;
            match call {
                PushCall::Create(config) => self.set_push(place, config).await,
                PushCall::Get { task, id } => {
                    let (found, _) = self.push_task(place, &task).await?;
                    let rows = self.shared.store.push(found).await.map_err(troubled)?;
                    // In dialects without config ids a task has one config, the newest.
                    let row = if id.is_empty() { rows.last() } else { rows.iter().find(|row| *row.id == *id) };
                    let row = row.ok_or_else(|| missing(&task))?;
                    Ok(PushAnswer::Config(shown(&*courier, row, &task)?))
                }
                PushCall::List { task, page_size, page_token } => {
                    let (found, _) = self.push_task(place, &task).await?;
                    let rows = self.shared.store.push(found).await.map_err(troubled)?;
                    let (page, next_page_token) = page(found, rows, page_size, page_token.as_deref(), self.limits())?;
                    let configs = page.iter().map(|row| shown(&*courier, row, &task)).collect::<Result<_, Fault>>()?;
                    Ok(PushAnswer::List { configs, next_page_token })
                }
                PushCall::Delete { task, id } => {
                    if id.is_empty() {
                        return Err(Fault::params("id", "the id of the config is missing"));
                    }
                    let (found, _) = self.push_task(place, &task).await?;
                    let shared = self.shared.clone();
                    Shared::detached(async move { remove(&shared, found, id.into()).await }).await?;
                    Ok(PushAnswer::Deleted(task))
                }
            }
        })
    }

    /// The task of a push call, and the alias that named it.
    async fn push_task(&self, place: &CallScope, id: &str) -> Result<(TaskId, Option<Arc<str>>), Fault> {
        let named = self.shared.named(place, id).await?;
        if !self.shared.is_visible(place, named.task).await? {
            return Err(Fault::task_not_found(id));
        }
        Ok((named.task, named.by_alias.then(|| id.into())))
    }

    async fn set_push(&self, place: &CallScope, config: PushConfig) -> Result<PushAnswer, Fault> {
        let task = config.task.clone().ok_or_else(|| Fault::params("taskId", "taskId is missing"))?;
        let (found, alias) = self.push_task(place, &task).await?;
        check(&self.shared, &config)?;
        let new = Registration::new(&self.shared, place, found, config, Origin { alias, trace: None })?;
        let answer = new.shown(&task);
        let shared = self.shared.clone();
        Shared::detached(async move { set(&shared, found, new).await }).await?;
        Ok(PushAnswer::Config(answer))
    }
}

/// Refuses a config that could not be stored or delivered.
pub(crate) fn check(shared: &Shared, config: &PushConfig) -> Result<(), Fault> {
    let courier = shared.courier.as_ref().ok_or_else(unsupported)?;
    if config.id.as_ref().is_some_and(|id| id.len() > shared.limits.id_bytes) {
        let message = format!("the config's id is longer than {} bytes", shared.limits.id_bytes);
        return Err(Fault::params("id", message));
    }
    // If no configs are allowed, even the first is one too many.
    room_among(std::iter::empty(), "", &shared.limits)?;
    courier.check(config)
}

/// Refuses a config beyond the limit. A config with the id of an existing one replaces it.
pub(crate) async fn room(shared: &Shared, task: TaskId, id: &str) -> Result<(), Fault> {
    let rows = shared.store.push(task).await.map_err(troubled)?;
    room_among(rows.iter().map(|row| &*row.id), id, &shared.limits)
}

fn room_among<'a>(ids: impl Iterator<Item = &'a str>, id: &str, limits: &Limits) -> Result<(), Fault> {
    if ids.filter(|known| *known != id).count() < limits.push.configs {
        return Ok(());
    }
    let message = format!(
        "a task has at most {} push notification configs; delete one, or replace one by setting its id again",
        limits.push.configs
    );
    Err(Fault::new(Kind::InvalidParams, message))
}

/// The origin of a config.
struct Origin {
    /// The alias by which its caller named the task.
    alias: Option<Arc<str>>,
    trace: Option<String>,
}

/// A config that is about to be stored.
#[derive(Clone)]
pub(crate) struct Registration {
    task: TaskId,
    pub(crate) id: Arc<str>,
    edition: u64,
    spec: Arc<PushSpec>,
    sealed: Bytes,
    made_at: Time,
    /// The config is removed with its task's end; for a task that has already ended none is stored.
    clears: bool,
}

impl Registration {
    fn new(
        shared: &Shared,
        place: &CallScope,
        task: TaskId,
        config: PushConfig,
        origin: Origin,
    ) -> Result<Registration, Fault> {
        let courier = shared.courier.as_ref().ok_or_else(unsupported)?;
        let PushConfig { task: _, id, url, token, scheme, credentials } = config;
        let id = id.filter(|id| !id.is_empty()).map_or_else(clock::text_id, Arc::from);
        let Origin { alias: shown, trace } = origin;
        let spec = PushSpec { url, token, scheme, credentials, dialect: place.dialect.clone(), shown, trace };
        let sealed = courier.seal(task, &spec)?;
        let (made_at, clears) = (shared.clock.of_sleepers(), courier.clears(&spec.dialect));
        Ok(Registration { task, id, edition: clock::number(), spec: Arc::new(spec), sealed, made_at, clears })
    }

    /// A config that comes with a message.
    pub(crate) fn inline(
        shared: &Shared,
        place: &CallScope,
        task: TaskId,
        mut config: PushConfig,
        send: &Send,
        alias: Option<Arc<str>>,
    ) -> Result<Registration, Fault> {
        // Where callers choose ids, a task has one config, whose id is the task's.
        if config.id.is_none() {
            config.id.clone_from(&send.alias);
        }
        Registration::new(shared, place, task, config, Origin { alias, trace: send.trace.clone() })
    }

    /// The progress of a config that comes with the opening message: it begins with the opening, or is over if the
    /// exchange was a direct reply.
    pub(crate) fn opening(&self, task: &Task) -> PushProgress {
        self.progress(Seq(1), task.core.shape == Shape::Reply)
    }

    /// The stored form of a config that comes with the opening message.
    pub(crate) fn put_opening(&self, task: &Task) -> Option<PushChange> {
        let progress = self.opening(task);
        (progress.state == PushState::Active || !self.clears).then(|| self.put(progress))
    }

    /// The first progress: from event `next` on, or already over.
    pub(crate) fn progress(&self, next: Seq, over: bool) -> PushProgress {
        let state = if over { PushState::Done } else { PushState::Active };
        PushProgress { state, ..PushProgress::from(next, self.made_at) }
    }

    pub(crate) fn put(&self, progress: PushProgress) -> PushChange {
        PushChange::Put(PushRow {
            task: self.task,
            id: self.id.clone(),
            edition: self.edition,
            epoch: Epoch::default(),
            spec: self.sealed.clone(),
            made_at: self.made_at,
            progress,
        })
    }

    /// After the commit: starts the deliveries.
    pub(crate) fn begin(&self, shared: &Shared, progress: PushProgress) {
        let (task, id, edition) = (self.task, self.id.clone(), self.edition);
        let key = ConfigKey { task, id, edition, epoch: Epoch::default() };
        shared.outbox.take(shared, key, self.spec.clone(), progress);
    }

    fn shown(&self, task: &str) -> PushConfig {
        without_secrets(&self.spec, &self.id, task)
    }
}

fn shown(courier: &dyn WebhookSender, row: &PushRow, task: &str) -> Result<PushConfig, Fault> {
    Ok(without_secrets(&courier.open(row.task, &row.spec)?, &row.id, task))
}

fn without_secrets(spec: &PushSpec, id: &str, task: &str) -> PushConfig {
    PushConfig {
        task: Some(task.to_owned()),
        id: Some(id.to_owned()),
        url: spec.url.clone(),
        token: None,
        scheme: spec.scheme.clone(),
        credentials: None,
    }
}

fn missing(task: &str) -> Fault {
    let message = "the task has no such push notification config; list them to see which there are";
    Fault::new(Kind::TaskNotFound, message).fact("taskId", task)
}

async fn set(shared: &Arc<Shared>, task: TaskId, new: Registration) -> Result<(), Fault> {
    let live = shared.lives.entry(task);
    let _still = live.hold(shared).await.map_err(troubled)?;
    let head = shared.store.head(task).await.map_err(troubled)?.ok_or_else(|| Fault::task_not_found(task))?;
    if head.row.settled && new.clears {
        return Err(Fault::new(Kind::TaskSettled, "the task has ended: nothing more will be told of it"));
    }
    room(shared, task, &new.id).await?;
    let progress = new.progress(head.seq.next(), head.row.settled);
    let commit = Commit { push: vec![new.put(progress.clone())], ..Commit::default() };
    let is_there = |rows: &[PushRow]| rows.iter().any(|row| row.edition == new.edition);
    commit_known(shared, task, commit, is_there).await?;
    new.begin(shared, progress);
    Ok(())
}

async fn remove(shared: &Arc<Shared>, task: TaskId, id: Arc<str>) -> Result<(), Fault> {
    let live = shared.lives.entry(task);
    let _still = live.hold(shared).await.map_err(troubled)?;
    let commit = Commit { push: vec![PushChange::Remove { task, id: id.clone() }], ..Commit::default() };
    commit_known(shared, task, commit, |rows: &[PushRow]| rows.iter().all(|row| row.id != id)).await?;
    shared.outbox.forget_config(task, &id);
    Ok(())
}

/// Commits a change of a task's configs. An unknown outcome is looked up; the lock keeps other requests from changing
/// them meanwhile.
pub(crate) async fn commit_known(
    shared: &Shared,
    task: TaskId,
    commit: Commit,
    happened: impl Fn(&[PushRow]) -> bool,
) -> Result<(), Fault> {
    let trouble = match shared.store.commit(commit).await {
        Outcome::Done => return Ok(()),
        Outcome::Conflict(conflict) => return Err(Fault::internal(format!("a push config met {conflict:?}"))),
        Outcome::Refused(trouble) => return Err(troubled(trouble)),
        Outcome::Unknown(trouble) => trouble,
    };
    let rows = doubt::read_back(shared, task, || shared.store.push(task)).await.map_err(troubled)?;
    if happened(&rows) { Ok(()) } else { Err(troubled(trouble)) }
}

/// A page of a task's configs, in the order of creation, and the token of the next.
fn page(
    task: TaskId,
    mut rows: Vec<PushRow>,
    size: Option<u32>,
    token: Option<&str>,
    limits: &Limits,
) -> Result<(Vec<PushRow>, String), Fault> {
    let size = size.unwrap_or(limits.page_size_default);
    if size == 0 || size > limits.page_size {
        return Err(Fault::params("pageSize", format!("pageSize must be between 1 and {}", limits.page_size)));
    }
    let mut shown = match token.filter(|token| !token.is_empty()) {
        Some(token) => read_token(task, token)
            .ok_or_else(|| Fault::params("pageToken", "pageToken is not one of this list; start again without it"))?,
        None => Vec::new(),
    };
    rows.retain(|row| !shown.contains(&row.edition));
    let more = rows.len() > size as usize;
    rows.truncate(size as usize);
    shown.extend(rows.iter().map(|row| row.edition));
    let token = if more { write_token(task, &shown) } else { String::new() };
    Ok((rows, token))
}

/// The editions shown so far. There are few, and with the list of them no config is missed or repeated when configs are
/// set or removed between pages.
fn write_token(task: TaskId, shown: &[u64]) -> String {
    let mut bytes = task.0.as_bytes().to_vec();
    bytes.extend(shown.iter().flat_map(|edition| edition.to_be_bytes()));
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read_token(task: TaskId, token: &str) -> Option<Vec<u64>> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (owner, shown) = bytes.split_first_chunk::<16>()?;
    let (shown, []) = shown.as_chunks::<8>() else { return None };
    (owner == task.0.as_bytes()).then(|| shown.iter().map(|edition| u64::from_be_bytes(*edition)).collect())
}
