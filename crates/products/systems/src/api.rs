//! Systems in the admin API: the graph of each, its runs, and the progress of one run at its nodes.
//!
//! A system is served to every tenant, unless its mount has one; a caller of one tenant sees the systems and the runs of
//! that tenant.

use std::sync::Arc;

use engine::Engine;
use gateway::GatewayVersion;
use gateway::admin_api::{ApiContext, ApiProblem, ApiRoute, json, limit, ok, param};
use model::ports::agent::{Agent, Look};
use model::ports::store::{Cursor, ListQuery, StoreError};
use model::{Body, Event, Fault, Seq, State, Task, TaskId, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use web::body::Response;
use web::openapi::{ParamKind, QueryParam};

use crate::SystemsService;
use crate::agent::{RunEntry, RunStep};
use crate::resources::ResourceKind;
use crate::resources::store_fault;

/// The bytes of a log that are read at a time.
const PIECE: usize = 256 << 10;
/// The most children of a run that are read. A run with more shows no details of the others' tasks.
const CHILDREN: usize = 1_000;
const PAGE: u32 = 100;
/// Characters of a message in a list.
const EXCERPT: usize = 200;

/// The pages of the console.
pub(crate) static PAGES: [&str; 1] = ["systems"];

const RUNS: &[QueryParam] = &[limit(), param("cursor", "The `next` of the page before.", ParamKind::Text { most: 64 })];

pub(crate) static ROUTES: [ApiRoute; 4] = [
    ApiRoute::get("/systems", "Systems of agents", json::<ListedSystems>(), |context| Box::pin(list(context))),
    ApiRoute::get("/systems/{name}", "A system with its graph", json::<SystemDetail>(), |context| {
        Box::pin(show(context))
    }),
    ApiRoute::get("/systems/{name}/runs", "The runs of a system, newest first", json::<SystemRuns>(), |context| {
        Box::pin(list_runs(context))
    })
    .query(RUNS),
    ApiRoute::get(
        "/systems/{name}/runs/{id}",
        "A run of a system: the state of every node, its visits, and the approval that it waits for",
        json::<SystemRunDetail>(),
        |context| Box::pin(show_run(context)),
    ),
];

/// Whether this server has systems.
pub(crate) fn has_systems(server: &GatewayVersion) -> bool {
    server.engine.agents().iter().any(|agent| is_served(server, &agent.profile().name) && agent.picture(None).is_some())
}

fn is_served(server: &GatewayVersion, name: &str) -> bool {
    server.mounts.agent(name).is_some_and(|mounted| !mounted.retired)
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "System")]
struct ListedSystem {
    name: String,
    title: String,
    description: String,
    /// The number of its nodes.
    nodes: usize,
    /// The number of nodes that need an approval.
    approvals: usize,
    /// The agents of its nodes, each once.
    agents: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Systems")]
struct ListedSystems {
    systems: Vec<ListedSystem>,
}

/// A graph in the form of [`crate::agent`]'s diagram, which the members are read from.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "SystemGraph")]
struct ShownGraph {
    /// How often a run may visit a node, where there are loops.
    #[serde(default)]
    max_turns: Option<u32>,
    /// In the order of the config.
    nodes: Vec<ShownNode>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "SystemNode")]
struct ShownNode {
    node: String,
    agent: String,
    /// The kind of its agent: `system`, the kind of the config where that is known, or `agent`.
    #[serde(default)]
    kind: String,
    #[serde(default)]
    agent_title: String,
    /// The skills of its agent: its tools.
    #[serde(default)]
    tools: Vec<String>,
    /// Runs begin here.
    #[serde(default)]
    entry: bool,
    /// How it waits for the nodes of `joins`.
    #[serde(default)]
    join: Option<Map<String, Value>>,
    #[serde(default)]
    joins: Vec<String>,
    #[serde(default)]
    retries: u32,
    /// The question that is asked before it begins.
    #[serde(default)]
    approval: Option<String>,
    /// In a run: `waiting`, `waiting for approval`, `waiting for an answer`, `running`, `done`, `failed`, `denied`,
    /// `cancelled` or `skipped`.
    #[serde(default)]
    state: Option<String>,
    /// In a run: its visits, oldest first.
    #[serde(default)]
    visits: Vec<ShownVisit>,
    edges: Vec<ShownEdge>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemEdge")]
struct ShownEdge {
    to: String,
    /// The end of the node that it is taken at: `completed` or `failed`.
    on: String,
    /// The condition of the config, or `otherwise`.
    #[serde(default)]
    condition: Option<Value>,
    /// It may lead back to a node that was visited.
    #[serde(default)]
    back: bool,
    /// In a run: how often it was taken.
    #[serde(default)]
    taken: Option<u32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemVisit")]
struct ShownVisit {
    visit: u32,
    state: String,
    /// The id of the node's task.
    #[serde(default)]
    child: Option<String>,
    /// The starts of its turn.
    #[serde(default)]
    attempts: Option<u32>,
    #[serde(default)]
    began: Option<String>,
    #[serde(default)]
    ended: Option<String>,
    /// Its duration.
    #[serde(default)]
    ms: Option<u64>,
    #[serde(default)]
    reason: Option<String>,
    /// The use of a model that its agent reported, such as tokens.
    #[serde(default)]
    usage: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SystemDetail")]
struct SystemDetail {
    name: String,
    title: String,
    description: String,
    graph: ShownGraph,
}

/// The question that a run waits for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SystemWait")]
struct RunWait {
    /// `approval` of a node that is about to begin, or `question` of a node's agent.
    kind: String,
    node: String,
    asks: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SystemRun")]
struct ShownRun {
    /// The id of its task.
    id: String,
    /// The id that its caller chose, if it chose one.
    alias: Option<String>,
    tenant: String,
    /// The caller that began it.
    owner: String,
    state: String,
    created_at: String,
    /// The time of its newest status.
    updated_at: String,
    /// From its beginning to its end, where it has ended.
    ms: Option<u64>,
    /// The starts of its newest turn.
    attempts: u32,
    /// The beginning of its first message.
    input: Option<String>,
    /// The beginning of its status message.
    message: Option<String>,
    waits_for: Option<RunWait>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SystemRuns")]
struct SystemRuns {
    runs: Vec<ShownRun>,
    /// The `cursor` of the next page; null on the last one. A page may be short, or empty, although more follow.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SystemRunDetail")]
struct SystemRunDetail {
    system: String,
    run: ShownRun,
    /// The graph with the states of this run.
    graph: ShownGraph,
}

impl ShownRun {
    fn of(task: &Task) -> ShownRun {
        let excerpt = |text: String| text.chars().take(EXCERPT).collect::<String>();
        let status = task.status.message.as_ref();
        let is_settled = task.core.is_settled();
        ShownRun {
            id: task.id.to_string(),
            alias: task.alias.as_deref().map(str::to_owned),
            tenant: task.tenant.to_string(),
            owner: task.owner.to_string(),
            state: task.state().word().to_owned(),
            created_at: task.created_at.to_string(),
            updated_at: task.status.at.to_string(),
            ms: is_settled.then(|| task.status.at.0.saturating_sub(task.created_at.0).try_into().unwrap_or_default()),
            attempts: task.core.starts,
            input: task.history.first().map(|message| excerpt(message.text())),
            message: status.map(|message| excerpt(message.text())),
            waits_for: wait_of(task),
        }
    }
}

/// The question that a run waits for, as its status says.
fn wait_of(task: &Task) -> Option<RunWait> {
    let message = task.status.message.as_ref().filter(|_| task.state() == State::InputRequired)?;
    let entry = RunEntry::of(message)?;
    let kind = match entry.state {
        RunStep::Approval => "approval",
        RunStep::Question => "question",
        RunStep::Began
        | RunStep::Started
        | RunStep::Completed
        | RunStep::Failed
        | RunStep::Approved
        | RunStep::Denied
        | RunStep::Answered
        | RunStep::Finished => return None,
    };
    Some(RunWait { kind: kind.to_owned(), node: entry.node?, asks: message.text() })
}

/// The system that the path names, if the caller sees it.
fn system(context: &ApiContext<'_>) -> Result<Arc<dyn Agent>, ApiProblem> {
    let name = context.http.id();
    let found = context.server().engine.agents().into_iter().find(|agent| *agent.profile().name == *name);
    let found = found.filter(|agent| is_seen(context, agent) && agent.picture(None).is_some());
    found.ok_or_else(|| ApiProblem::missing("there is no such system"))
}

fn is_seen(context: &ApiContext<'_>, agent: &Arc<dyn Agent>) -> bool {
    let mounted = context.server().mounts.agent(&agent.profile().name).filter(|mounted| !mounted.retired);
    mounted.is_some_and(|mounted| mounted.tenant.as_deref().is_none_or(|tenant| context.sees(tenant)))
}

/// The graph of a system, with the agents of its nodes.
fn graph(context: &ApiContext<'_>, agent: &dyn Agent, look: Option<Look<'_>>) -> Result<ShownGraph, ApiProblem> {
    let picture = agent.picture(look).ok_or_else(|| Fault::internal("a system without a picture"))?;
    let mut graph: ShownGraph = serde_json::from_str(picture.text()).map_err(Fault::internal)?;
    let server = context.server();
    let agents = server.engine.agents();
    for node in &mut graph.nodes {
        let known = agents.iter().find(|agent| *agent.profile().name == *node.agent);
        node.kind = kind(server, &node.agent, known.map(|agent| &**agent));
        if let Some(known) = known {
            node.agent_title.clone_from(&known.profile().title);
            node.tools = known.profile().skills.iter().map(|skill| skill.name.clone()).collect();
        }
    }
    Ok(graph)
}

fn kind(server: &GatewayVersion, name: &str, agent: Option<&dyn Agent>) -> String {
    if agent.is_some_and(|agent| agent.picture(None).is_some()) {
        return "system".to_owned();
    }
    let registry = SystemsService::of(server).and_then(SystemsService::resources);
    let written = registry.and_then(|registry| registry.get(ResourceKind::Agent, name));
    let written = written.and_then(|agent| agent.spec.to_value()["kind"].as_str().map(str::to_owned));
    written.unwrap_or_else(|| "agent".to_owned())
}

async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let mut systems = Vec::new();
    for agent in context.server().engine.agents().iter().filter(|agent| is_seen(context, agent)) {
        let Some(picture) = agent.picture(None) else { continue };
        let graph: ShownGraph = serde_json::from_str(picture.text()).map_err(Fault::internal)?;
        let profile = agent.profile();
        systems.push(ListedSystem {
            name: profile.name.to_string(),
            title: profile.title.clone(),
            description: profile.description.clone(),
            nodes: graph.nodes.len(),
            approvals: graph.nodes.iter().filter(|node| node.approval.is_some()).count(),
            agents: agent.members().iter().map(|member| member.to_string()).collect(),
        });
    }
    systems.sort_by(|a, b| a.name.cmp(&b.name));
    ok(&ListedSystems { systems })
}

async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let system = system(context)?;
    let profile = system.profile();
    ok(&SystemDetail {
        name: profile.name.to_string(),
        title: profile.title.clone(),
        description: profile.description.clone(),
        graph: graph(context, &*system, None)?,
    })
}

async fn list_runs(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let system = system(context)?;
    let unknown = |_| ApiProblem::field("cursor", "is not one of this list; start again without it");
    let before = context.http.query_param("cursor").map(|text| text.parse::<TaskId>().map_err(unknown)).transpose()?;
    let (runs, next) = context.tasks_of(&system.profile().name, before, ShownRun::of).await?;
    ok(&SystemRuns { runs, next: next.map(|id| id.to_string()) })
}

async fn show_run(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let system = system(context)?;
    let engine = &context.server().engine;
    let name = system.profile().name.clone();
    let id = context.task_named(context.http.path_param(1)).await?;
    let missing = || ApiProblem::missing("there is no such run of this system");
    let task = engine.outline(id).await?.filter(|task| *task.agent == *name).ok_or_else(missing)?;
    let log = log_of(engine, id).await?;
    let children = children(engine, id).await?;
    let mut graph = graph(context, &*system, Some(Look { log: &log, children: &children }))?;
    for visit in graph.nodes.iter_mut().flat_map(|node| &mut node.visits) {
        let child = visit.child.as_ref().and_then(|id| children.iter().find(|child| child.id.to_string() == *id));
        visit.usage = child.and_then(|child| usage_of(child));
    }
    ok(&SystemRunDetail { system: name.to_string(), run: ShownRun::of(&task), graph })
}

/// The use of a model that the agent of a task reported.
fn usage_of(task: &Task) -> Option<Map<String, Value>> {
    let metadata = task.metadata.as_ref().filter(|json| json.text().contains("usage"))?.to_value();
    metadata["usage"].as_object().filter(|usage| !usage.is_empty()).cloned()
}

fn trouble(error: StoreError) -> ApiProblem {
    store_fault(error).into()
}

/// The log of a run without the content of its artifacts.
async fn log_of(engine: &Engine, id: TaskId) -> Result<Vec<Event>, ApiProblem> {
    let (mut log, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let page = engine.store().events(id, after, PIECE).await.map_err(trouble)?;
        let Some(last) = page.last() else { return Ok(log) };
        after = last.seq;
        log.extend(page.into_iter().map(|mut event| {
            if let Body::Artifact(chunk) = &mut event.body {
                Arc::make_mut(&mut chunk.artifact).parts.clear();
            }
            event
        }));
    }
}

/// The tasks of a run's nodes, without the content of their artifacts.
async fn children(engine: &Engine, parent: TaskId) -> Result<Vec<Arc<Task>>, ApiProblem> {
    let (mut found, mut after): (Vec<Arc<Task>>, Option<Cursor>) = (Vec::new(), None);
    while found.len() < CHILDREN {
        let views = vec![View::child(parent)];
        let query = ListQuery { views, context: None, state: None, since: None, after, limit: PAGE, count: false };
        let page = engine.store().list(query).await.map_err(trouble)?;
        for (id, cursor) in &page.tasks {
            after = Some(*cursor);
            found.extend(engine.outline(*id).await?);
        }
        if !page.more {
            break;
        }
    }
    Ok(found)
}
