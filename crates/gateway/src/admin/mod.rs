//! Commands of operators: the `rialto` command sends them to a running server through the socket in its data folder, one
//! JSON object a line and one answer a line, or to one elsewhere by its admin API ([`crate::admin_api`]), or performs them on
//! the data itself when no server runs.

mod audit;
pub(crate) mod bundle;
mod command;
mod keys;
pub(crate) mod messages;
mod push;
mod role;
mod secret;
pub(crate) mod tasks;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use engine::Engine;
use model::ports::Future;
use model::{Fault, Kind, MemoryShare, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use web::concurrency::ConcurrencyLimit;
use web::outbound::HttpPost;

use crate::CurrentGateway;
use crate::admin_api::ApiTable;
use crate::product::ProductKind;
use crate::receivers::Receivers;
use crate::scopes::{ALL_TENANTS, check_known, named_by};

pub const SOCKET: &str = "admin.sock";

/// The socket's address, relative to the open data folder.
pub fn socket_in(folder: &std::fs::File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Longest line: a catalogue comes in one line.
pub const LINE: u64 = 256 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum CoreRequest {
    TaskList {
        /// Every agent, if none is named; likewise the tenant.
        #[serde(default)]
        agent: Option<String>,
        #[serde(default)]
        tenant: Option<String>,
        #[serde(default)]
        state: Option<u8>,
        limit: u32,
    },
    TaskShow {
        id: String,
    },
    TaskCancel {
        id: String,
    },
    TaskPurge {
        id: String,
    },
    /// Store a copy of the task in a bundle.
    TaskImport {
        /// The text of the bundle.
        bundle: String,
    },
    Backup {
        to: std::path::PathBuf,
    },
    Doctor,
    /// Whether the running server can accept work.
    Health,
    /// Read the config again.
    Reload,
    KeysCreate {
        name: String,
        tenant: String,
        #[serde(default)]
        scopes: Vec<String>,
        /// Names in the rules of the operator's config: they are known scopes, too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        policy_scopes: Vec<String>,
        #[serde(default)]
        expires_in_ms: Option<u64>,
    },
    KeysList,
    KeysRevoke {
        id: String,
    },
    PushList {
        #[serde(default)]
        task: Option<String>,
        /// A code of [`model::PushState::code`].
        #[serde(default)]
        state: Option<u8>,
        limit: u32,
    },
    PushRedeliver {
        task: String,
        #[serde(default)]
        id: Option<String>,
        /// The event to begin at; without it, delivery continues where it stopped.
        #[serde(default)]
        from: Option<u64>,
    },
}

impl CoreRequest {
    /// The value of `do`.
    fn name(&self) -> &'static str {
        match self {
            CoreRequest::TaskList { .. } => "task_list",
            CoreRequest::TaskShow { .. } => "task_show",
            CoreRequest::TaskCancel { .. } => "task_cancel",
            CoreRequest::TaskPurge { .. } => "task_purge",
            CoreRequest::TaskImport { .. } => "task_import",
            CoreRequest::Backup { .. } => "backup",
            CoreRequest::Doctor => "doctor",
            CoreRequest::Health => "health",
            CoreRequest::Reload => "reload",
            CoreRequest::KeysCreate { .. } => "keys_create",
            CoreRequest::KeysList => "keys_list",
            CoreRequest::KeysRevoke { .. } => "keys_revoke",
            CoreRequest::PushList { .. } => "push_list",
            CoreRequest::PushRedeliver { .. } => "push_redeliver",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminResponse {
    Ok(Value),
    Fault(String),
}

/// Requests to the binary to read its config again; the answer is the result.
pub type Reloads = mpsc::Sender<oneshot::Sender<Value>>;

/// The data that commands work on, and the running server if there is one.
pub struct AdminContext<'a> {
    pub engine: &'a Engine,
    pub folder: &'a Path,
    pub products: &'static [&'static dyn ProductKind],
    pub running: Option<RunningGateway<'a>>,
    /// None for an operator of this machine, who may do everything.
    pub requester: Option<Requester<'a>>,
}

/// The caller of the admin API for whom a command is performed.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    pub name: &'a str,
    pub tenant: &'a str,
    /// Sees the tasks, deliveries and keys of every tenant.
    pub all_tenants: bool,
}

/// The parts of the running server that the admin API works on; every version of the server shares them.
#[derive(Clone)]
pub(crate) struct AdminDoor {
    pub(crate) serving: Weak<CurrentGateway>,
    pub(crate) reloads: Reloads,
    pub(crate) folder: PathBuf,
    pub(crate) products: &'static [&'static dyn ProductKind],
    pub(crate) since: Instant,
    /// Makes the calls of the playground.
    pub(crate) post: Arc<HttpPost>,
    /// The calls of the playground that run now.
    pub(crate) calls: Arc<ConcurrencyLimit>,
    pub(crate) receivers: Arc<Receivers>,
    /// The operations of the admin API.
    pub(crate) table: Arc<ApiTable>,
}

#[derive(Clone, Copy)]
pub struct RunningGateway<'a> {
    pub serving: &'a CurrentGateway,
    pub reloads: &'a Reloads,
}

impl AdminContext<'_> {
    /// The tenant that the command is limited to.
    pub fn tenant(&self) -> Option<&str> {
        self.requester.filter(|requester| !requester.all_tenants).map(|requester| requester.tenant)
    }

    fn reach(&self) -> tasks::TaskReach<'_> {
        match self.requester {
            Some(_) => tasks::TaskReach { tenant: self.tenant(), aliased: tasks::ALIASED },
            None => tasks::TaskReach { tenant: None, aliased: usize::MAX },
        }
    }

    /// The own id of the task that a command names.
    pub async fn task(&self, id: &str) -> Result<model::TaskId, Fault> {
        tasks::named(self.engine, self.products, self.reach(), id).await
    }

    /// The number of rows that a list may have. A caller of the admin API gets a bounded one.
    pub fn rows(&self, limit: u32) -> Result<u32, Fault> {
        if self.requester.is_some() && limit > ROWS {
            let says = format!("limit is at most {ROWS} by way of the admin API: ask for fewer");
            return Err(Fault::params("limit", says));
        }
        Ok(limit)
    }

    /// The size of an answer that grows with tasks.
    fn answer_size(&self) -> AnswerSize {
        let server = self.running.filter(|_| self.requester.is_some()).map(|running| running.serving.now());
        AnswerSize { share: server.map(|server| server.answers.share()) }
    }

    /// Logs a change that a caller of the admin API has made. Changes through the socket are not logged, but for those of
    /// keys.
    pub(crate) fn changed(&self, what: &'static str, change: &str, mut line: Value) {
        if self.requester.is_some() {
            line["change"] = json!(change);
            self.audit(what, line);
        }
    }

    /// Appends a line to the audit log, with the caller of the admin API who made the change.
    pub fn audit(&self, what: &'static str, mut line: Value) {
        if let Some(requester) = self.requester {
            requester.sign(&mut line);
        }
        line["at"] = json!(model::Time(jiff::Timestamp::now().as_millisecond()).to_string());
        line["what"] = json!(what);
        audit::append(self.folder, &line);
    }

    /// A key was made or revoked: logs it, and applies it from the next request on.
    fn key_changed(&self, change: &str, key: &model::AccessKey) {
        keys::audit(self.folder, change, key, self.requester);
        if let Some(running) = self.running {
            running.serving.now().callers.take(key);
            // Cards state whether there are keys. The server is loaded again: its successor has the key, but maybe
            // older cards.
            running.serving.now().cards.forget();
        }
    }

    /// The same answer as `/readyz`, which a supervisor beside the server may be unable to reach.
    async fn health(&self) -> Result<Value, Fault> {
        let running = self.running.ok_or_else(|| Fault::new(Kind::Unavailable, "no server runs on this data"))?;
        let ready = running.serving.now().readiness().await;
        ready.map_err(|why| Fault::new(Kind::Unavailable, why))?;
        Ok(json!({ "ready": true }))
    }

    async fn reload(&self) -> Result<Value, Fault> {
        let nobody = || {
            Fault::new(
                Kind::Unavailable,
                "no server runs on this data; it reads its config when it starts: rialto serve",
            )
        };
        let running = self.running.ok_or_else(nobody)?;
        let (tell, told) = oneshot::channel();
        running.reloads.send(tell).await.map_err(|_| nobody())?;
        told.await.map_err(|_| nobody())
    }
}

/// Most rows of a list for a caller of the admin API.
const ROWS: u32 = 1_000;
/// Most bytes of such a caller's answer, as JSON.
const ANSWER: usize = 8 << 20;
/// A tree of JSON takes up to this many times the memory of its text.
const TREE: usize = 4;

/// The memory of an answer for a caller of the admin API, counted as it grows. Other answers are not bounded.
struct AnswerSize {
    share: Option<MemoryShare>,
}

impl AnswerSize {
    /// Counts a part of the answer; `advice` is about an answer that is too large.
    fn grow(&mut self, part: &Value, advice: &str) -> Result<(), Fault> {
        let Some(share) = &mut self.share else { return Ok(()) };
        let bytes = part.to_string().len().saturating_mul(TREE);
        if share.bytes() + bytes > ANSWER * TREE {
            let says = format!("the answer has more than {} MiB: {advice}", ANSWER >> 20);
            return Err(Fault::new(Kind::InvalidParams, says));
        }
        if !share.grow(bytes) {
            let says = "the server has as many large answers in memory as it may; try again in a moment";
            return Err(Fault::new(Kind::Unavailable, says).retry_after(2));
        }
        Ok(())
    }
}

impl Requester<'_> {
    fn sign(&self, line: &mut Value) {
        line["by"] = json!(self.name);
        line["by_tenant"] = json!(self.tenant);
    }
}

pub use audit::append as append_audit;
pub use audit::policy as audit_policy;
pub(crate) use audit::{AuditPage, read as read_audit};
pub use bundle::LARGEST as LARGEST_BUNDLE;
pub use command::{AdminCommand, AdminRequest};
pub use keys::{FirstKey, first as first_key, load as load_keys};
pub use role::{ApiRole, CommandAccess};
pub use secret::RedactedText;

/// The fault of a product's command whose arguments cannot be read.
pub fn wrong_arguments(error: serde_json::Error) -> Fault {
    Fault::new(Kind::InvalidParams, format!("not a request: {error}"))
}

/// Performs a command.
pub fn perform<'a>(context: &'a AdminContext<'a>, request: AdminRequest) -> Future<'a, Result<Value, Fault>> {
    Box::pin(async move {
        match request {
            AdminRequest::Core(request) => perform_core(context, request).await,
            AdminRequest::Product(command, arguments) => (command.perform)(context, arguments).await,
        }
    })
}

async fn perform_core(context: &AdminContext<'_>, request: CoreRequest) -> Result<Value, Fault> {
    let engine = context.engine;
    match request {
        CoreRequest::KeysCreate { name, tenant, scopes, policy_scopes, expires_in_ms } => {
            let server = context.running.map(|running| running.serving.now());
            let rules = server.as_ref().and_then(|server| server.settings.policy.as_deref()).unwrap_or_default();
            let of_products: Vec<&str> = context.products.iter().flat_map(|product| product.scopes()).collect();
            // A caller elsewhere does not say what this server's config has.
            let of_config = policy_scopes.iter().filter(|_| context.requester.is_none()).map(String::as_str);
            let named = of_config.chain(named_by(rules));
            check_known(&scopes, &of_products, named).map_err(|text| Fault::params("scopes", text))?;
            if let Some(own) = context.tenant() {
                refuse_beyond(own, &tenant, &scopes)?;
            }
            let (key, shown) =
                keys::create(engine, keys::NewKeyRequest { name, tenant, scopes, expires_in_ms }).await?;
            context.key_changed("created", &key);
            Ok(shown)
        }
        CoreRequest::KeysList => keys::list(engine, context.tenant()).await,
        CoreRequest::KeysRevoke { id } => {
            let (key, shown) = keys::revoke(engine, context.tenant(), &id).await?;
            context.key_changed("revoked", &key);
            for product in context.products {
                product.key_revoked(engine, &key).await?;
            }
            Ok(shown)
        }
        CoreRequest::TaskList { agent, tenant, state, limit } => {
            let state = state.and_then(State::from_code);
            tasks::list(context, tasks::TaskFilter { tenant, agent, state }, context.rows(limit)?).await
        }
        CoreRequest::TaskShow { id } => tasks::show(context, context.task(&id).await?).await,
        CoreRequest::TaskCancel { id } => {
            let task = engine.cancel_by_operator(context.task(&id).await?).await?;
            context.changed("tasks", "canceled", json!({ "task": task.id.to_string(), "tenant": &*task.tenant }));
            Ok(tasks::summary(&task))
        }
        CoreRequest::TaskPurge { id } => {
            let task = context.task(&id).await?;
            let tenant = tasks::tenant_of(engine, task).await?;
            if !engine.purge(task).await? {
                return Err(Fault::task_not_found(id));
            }
            context.changed("tasks", "purged", json!({ "task": task.to_string(), "tenant": tenant.as_deref() }));
            if let Some(running) = context.running {
                running.serving.now().cache.forget(task);
            }
            Ok(json!({ "purged": task.to_string() }))
        }
        CoreRequest::TaskImport { bundle } => bundle::import(context, &bundle).await,
        CoreRequest::Backup { to } => {
            engine.store().backup(to.clone()).await.map_err(|t| Fault::new(Kind::Unavailable, t.to_string()))?;
            Ok(json!({ "written": to }))
        }
        CoreRequest::Doctor => doctor(context).await,
        CoreRequest::Health => context.health().await,
        CoreRequest::Reload => {
            let outcome = context.reload().await?;
            if outcome["outcome"] == "applied" {
                context.changed("config", "reloaded", json!({}));
            }
            Ok(outcome)
        }
        CoreRequest::PushList { task, state, limit } => {
            push::list(context, task.as_deref(), state, context.rows(limit)?).await
        }
        CoreRequest::PushRedeliver { task, id, from } => push::redeliver(context, &task, id.as_deref(), from).await,
    }
}

/// A caller of one tenant makes keys of that tenant alone, and none that reaches further.
fn refuse_beyond(own: &str, tenant: &str, scopes: &[String]) -> Result<(), Fault> {
    let refused = |what: &str| {
        let says = format!("your key is for the tenant {own} alone: it cannot make {what}");
        Err(Fault::new(Kind::Forbidden, says))
    };
    if tenant != own {
        return refused("a key of another tenant");
    }
    if scopes.iter().any(|scope| scope == ALL_TENANTS) {
        return refused("a key for all tenants");
    }
    Ok(())
}

/// Most open turns that a report names.
const NAMED: usize = 20;

fn cause(fault: &Fault) -> String {
    fault.cause.as_ref().map_or_else(|| fault.message.clone(), |cause| cause.to_string())
}

async fn doctor(context: &AdminContext<'_>) -> Result<Value, Fault> {
    let engine = context.engine;
    let left_alone = context.running.map(|running| running.serving.now().settings.left_alone.clone());
    let health = engine.health().await?;
    let store = engine.store();
    let (mut open, mut unreadable) = (Vec::new(), Vec::new());
    for (id, _) in store.unfinished(None, NAMED).await.map_err(|t| Fault::new(Kind::Unavailable, t.to_string()))? {
        match engine.task(id).await {
            Ok(Some(task)) if context.tenant().is_none_or(|own| *own == *task.tenant) => {
                open.push(tasks::summary(&task));
            }
            Ok(Some(_) | None) => {}
            // An unreadable task is a finding of the report, not an error. Its tenant is in its log.
            Err(fault) if context.tenant().is_none() => {
                unreadable.push(json!({ "id": id.to_string(), "cause": cause(&fault) }));
            }
            Err(_) => {}
        }
    }
    let mut setbacks = Vec::new();
    for setback in engine.setbacks(NAMED) {
        if !tasks::is_within(engine, context.tenant(), setback.task).await? {
            continue;
        }
        setbacks.push(json!({
            "id": setback.task.to_string(),
            "chore": setback.chore.name(),
            "since": setback.since.to_string(),
            "attempts": setback.attempts,
            "cause": setback.cause,
        }));
    }
    let replicas = store.replicas().await.map_err(|t| Fault::new(Kind::Unavailable, t.to_string()))?;
    let replicas = replicas.into_iter().map(|replica| {
        let about = replica.about.as_deref().map(|about| serde_json::from_str::<Value>(about).unwrap_or_default());
        json!({
            "no": replica.no,
            "own": replica.own,
            "alive": replica.alive,
            "silent_ms": replica.silent_ms,
            "lease_ms": replica.lease_ms,
            "about": about,
        })
    });
    let states = health.states.iter().map(|(state, n)| (state.word().to_owned(), json!(n)));
    // They are about the machine.
    let is_whole = context.tenant().is_none();
    let folder = context.running.filter(|_| is_whole).map(|_| context.folder);
    let disk = folder.and_then(|folder| rustix::fs::statvfs(folder).ok());
    Ok(json!({
        "data": folder,
        "disk_free_bytes": disk.map(|disk| disk.f_bavail * disk.f_frsize),
        "store": health.kind,
        "left_alone": left_alone,
        "schema": health.schema,
        "starts": health.epoch,
        "tasks": health.tasks,
        "states": states.collect::<serde_json::Map<_, _>>(),
        "running_turns": health.running,
        "open_turns": open,
        "unreadable": unreadable,
        "replicas": replicas.collect::<Vec<_>>(),
        "setbacks": setbacks,
        "turn_timeout_ms": engine.limits().turn_timeout_ms,
        "now": model::Time(jiff::Timestamp::now().as_millisecond()).to_string(),
        "log_rows": health.events_rows,
        "blobs": health.blobs,
        "blob_bytes": health.blob_bytes,
        "timers": health.timers,
        "push_active": health.push_active,
        "push_dead": health.push_dead,
        "idempotency_keys": health.keys,
        "file_bytes": health.file_bytes,
        "wal_bytes": health.wal_bytes,
        "trouble": health.trouble.map(|t| t.to_string()),
        "lost": health.loss.map(|loss| json!({ "pages": loss.pages, "of": loss.of, "found_at": loss.at.to_string() })),
    }))
}

/// Listens on the socket until the process ends. Only the owner of the data folder can reach it. `post` makes the calls of
/// operators to other servers.
pub fn serve<'a>(
    serving: Arc<CurrentGateway>,
    reloads: Reloads,
    folder: &'a Path,
    products: &'static [&'static dyn ProductKind],
    post: Arc<HttpPost>,
) -> Future<'a, std::io::Result<()>> {
    Box::pin(async move {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        // A socket's path has at most 108 bytes; relative to an open folder any path is short enough.
        let held = std::fs::File::open(folder)?;
        let path = socket_in(&held);
        // This process holds the lock of the data folder: an existing socket is that of an ended process.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        // Between the two calls above, others may have connected if the folder is open to them.
        let owner = std::fs::metadata(&path)?.uid();
        let folder = folder.to_owned();
        let door = AdminDoor {
            serving: Arc::downgrade(&serving),
            reloads: reloads.clone(),
            folder: folder.clone(),
            products,
            since: Instant::now(),
            post,
            calls: Arc::default(),
            receivers: Arc::default(),
            table: Arc::new(ApiTable::new(products)),
        };
        serving.now().open_admin(door);
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) if !is_operator(&stream, owner) => {
                        tracing::warn!("another user of this machine asked at the admin socket and was refused");
                    }
                    Ok((stream, _)) => {
                        drop(tokio::spawn(converse(
                            serving.clone(),
                            reloads.clone(),
                            folder.clone(),
                            products,
                            stream,
                        )));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the admin socket could not accept");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(())
    })
}

/// Whether the peer is the owner of the data folder, or root.
fn is_operator(stream: &UnixStream, owner: u32) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == owner || peer.uid() == 0)
}

async fn converse(
    serving: Arc<CurrentGateway>,
    reloads: Reloads,
    folder: PathBuf,
    products: &'static [&'static dyn ProductKind],
    mut stream: UnixStream,
) {
    let (reading, mut writing) = stream.split();
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(reading, LINE)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let response = match AdminRequest::read(&line, products) {
            Ok(request) => {
                // A supervisor asks for the health every few seconds.
                if !matches!(request, AdminRequest::Core(CoreRequest::Health)) {
                    tracing::info!(command = request.name(), "admin command");
                }
                let server = serving.now();
                let running = RunningGateway { serving: &serving, reloads: &reloads };
                let context = AdminContext {
                    engine: &server.engine,
                    folder: &folder,
                    products,
                    running: Some(running),
                    requester: None,
                };
                let done = perform(&context, request).await;
                match done {
                    Ok(value) => AdminResponse::Ok(value),
                    Err(fault) => AdminResponse::Fault(fault.message),
                }
            }
            Err(error) => AdminResponse::Fault(format!("not a request: {error}")),
        };
        let Ok(mut text) = serde_json::to_vec(&response) else { return };
        text.push(b'\n');
        if writing.write_all(&text).await.is_err() {
            return;
        }
    }
}
