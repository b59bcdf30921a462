//! The server itself: numbers, the doctor's report, replicas, the audit log, and a reload of the config.

use std::collections::BTreeMap;

use model::{Fault, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use web::body::Response;

use super::problem::ApiProblem;
use super::routes::USUAL_PAGE;
use super::{ApiContext, ok};
use crate::admin::tasks::count;
use crate::admin::{AuditPage, CoreRequest, read_audit};

/// Numbers of tasks.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskCounts")]
pub(super) struct ApiTaskCounts {
    /// Submitted or working.
    open: u64,
    /// Waiting for input or for an authorisation.
    waiting: u64,
    /// All that failed and are kept.
    failed: u64,
    /// False where a tenant has so many tasks that they were not all counted.
    exact: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeliveryCounts")]
pub(super) struct ApiDeliveryCounts {
    active: u64,
    /// Given up; waiting for an operator.
    dead: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Overview")]
pub(super) struct ApiOverview {
    version: String,
    uptime_s: u64,
    /// Those of the caller's tenant, or of all.
    tasks: ApiTaskCounts,
    /// Of the whole server; null for a caller of one tenant.
    running_turns: Option<u64>,
    /// Of the whole server; null for a caller of one tenant.
    deliveries: Option<ApiDeliveryCounts>,
    agents: usize,
    /// The processes that serve the store now.
    replicas: usize,
    /// Open streams of the process that answers; null for a caller of one tenant.
    streams: Option<u64>,
    /// Webhooks of the process that answers that wait for another attempt or for their turn; null for a caller of one tenant.
    retrying: Option<u64>,
    /// Null for a caller of one tenant.
    disk: Option<ApiDisk>,
}

/// In bytes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Disk")]
pub(super) struct ApiDisk {
    /// Of the store.
    file_bytes: u64,
    wal_bytes: u64,
    /// Free where the data folder is; null where the store is elsewhere.
    free_bytes: Option<u64>,
}

/// The free space of a folder.
fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn unavailable(trouble: model::ports::store::StoreError) -> Fault {
    Fault::new(model::Kind::Unavailable, trouble.to_string())
}

pub(super) async fn overview(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let server = context.server;
    let health = server.engine.health().await?;
    let replicas = server.engine.store().replicas().await.map_err(unavailable)?;
    let mut exact = true;
    let mut sum = async |states: &[State]| -> Result<u64, Fault> {
        let mut all = 0;
        for state in states {
            all += match context.tenant() {
                None => health.states.iter().find(|(known, _)| known == state).map_or(0, |(_, number)| *number),
                Some(tenant) => {
                    let (number, is_whole) = count(&server.engine, tenant, *state).await?;
                    exact &= is_whole;
                    number
                }
            };
        }
        Ok(all)
    };
    let open = sum(&[State::Submitted, State::Working]).await?;
    let waiting = sum(&[State::InputRequired, State::AuthRequired]).await?;
    let failed = sum(&[State::Failed]).await?;
    let is_whole = context.tenant().is_none();
    let shared = server.engine.store().is_shared();
    ok(&ApiOverview {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: context.door.since.elapsed().as_secs(),
        tasks: ApiTaskCounts { open, waiting, failed, exact },
        running_turns: is_whole.then_some(health.running),
        deliveries: is_whole.then_some(ApiDeliveryCounts { active: health.push_active, dead: health.push_dead }),
        agents: server.mounts.agents().len(),
        // A store of one process lists none.
        replicas: replicas.iter().filter(|replica| replica.alive).count().max(1),
        streams: is_whole.then(|| u64::try_from(server.metrics.streams.get()).unwrap_or_default()),
        retrying: is_whole.then(|| server.engine.figures().push_waiting),
        disk: is_whole.then(|| ApiDisk {
            file_bytes: health.file_bytes,
            wal_bytes: health.wal_bytes,
            free_bytes: Some(&context.door.folder).filter(|_| !shared).and_then(|folder| free_bytes(folder)),
        }),
    })
}

/// An open turn, in the doctor's words.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "OpenTurn")]
pub(super) struct ApiOpenTurn {
    id: String,
    alias: Option<String>,
    context: String,
    agent: String,
    tenant: String,
    owner: String,
    state: String,
    status_at: String,
    created_at: String,
    message: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Unreadable")]
pub(super) struct ApiUnreadable {
    id: String,
    cause: String,
}

/// Work on a task that failed and is tried again.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Setback")]
pub(super) struct ApiSetback {
    id: String,
    chore: String,
    since: String,
    attempts: u32,
    cause: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "Replica")]
pub(super) struct ApiReplica {
    no: u64,
    /// The process that answers.
    own: bool,
    /// Its lease holds.
    alive: bool,
    silent_ms: u64,
    lease_ms: Option<u64>,
    /// What it says of itself: release, address, agents, digests of its config's sections.
    about: Option<Map<String, Value>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Replicas")]
pub(super) struct ApiReplicas {
    /// None in a store of one process.
    replicas: Vec<ApiReplica>,
}

/// The doctor's report. Lists of tasks have those that the caller sees; numbers are of the whole server.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "Health")]
pub(super) struct ApiHealth {
    store: String,
    schema: u32,
    /// How often the store was opened for serving.
    starts: u64,
    tasks: u64,
    /// The number of tasks in each state.
    states: BTreeMap<String, u64>,
    running_turns: u64,
    open_turns: Vec<ApiOpenTurn>,
    unreadable: Vec<ApiUnreadable>,
    setbacks: Vec<ApiSetback>,
    replicas: Vec<ApiReplica>,
    turn_timeout_ms: u64,
    now: String,
    log_rows: u64,
    blobs: u64,
    blob_bytes: u64,
    timers: u64,
    push_active: u64,
    push_dead: u64,
    idempotency_keys: u64,
    file_bytes: u64,
    wal_bytes: u64,
    /// What keeps the store from serving now.
    trouble: Option<String>,
    /// Pages of the write-ahead log that were missing at a start.
    lost: Option<Map<String, Value>>,
    /// Data that this build does not serve.
    left_alone: Option<Vec<String>>,
}

pub(super) async fn health(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let health: ApiHealth = context.perform_as(CoreRequest::Doctor).await?;
    ok(&health)
}

pub(super) async fn replicas(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let ApiHealth { replicas, .. } = context.perform_as(CoreRequest::Doctor).await?;
    ok(&ApiReplicas { replicas })
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
pub(super) struct ApiAudit {
    /// Each line as it is in the log: `at`, `what`, `change` and, of a change by way of this API, `by` and `by_tenant`.
    lines: Vec<Value>,
    /// The `before` of the next page; null on the last one.
    next: Option<u64>,
}

/// A caller of one tenant gets the lines that name that tenant.
pub(super) async fn audit(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let before = context.http.query_param("before").and_then(|text| text.parse().ok());
    let limit = context.number("limit", USUAL_PAGE) as usize;
    let (folder, tenant) = (context.door.folder.clone(), context.tenant().map(str::to_owned));
    let read = tokio::task::spawn_blocking(move || {
        let is_own = |line: &Value| tenant.as_deref().is_none_or(|own| line["tenant"] == own);
        read_audit(&folder, before, limit, is_own)
    });
    let page = read.await.map_err(Fault::internal)?.map_err(Fault::internal)?;
    let AuditPage { lines, next } =
        page.ok_or_else(|| ApiProblem::field("before", "is no place in the log; start again without it"))?;
    ok(&ApiAudit { lines, next })
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReloadedAgents")]
pub(super) struct ApiReloadedAgents {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "Reload")]
pub(super) struct ApiReload {
    /// `applied`.
    outcome: String,
    agents: ApiReloadedAgents,
    /// The keys of the config that differ and take effect at the next start.
    needs_restart: Vec<String>,
}

pub(super) async fn reload(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let done = context.perform(CoreRequest::Reload).await?;
    if done["outcome"] == "refused" {
        let reason = done["reason"].as_str().unwrap_or_default();
        return Err(ApiProblem::unprocessable(format!("the config in force stays: {reason}")));
    }
    let done: ApiReload = serde_json::from_value(done).map_err(Fault::internal)?;
    ok(&done)
}
