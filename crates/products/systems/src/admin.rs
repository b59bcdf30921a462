//! Admin commands of systems: `graph` shows a system's graph with the progress of one of its tasks; `apply` creates or
//! updates a system or an agent.

use std::sync::Arc;

use engine::Engine;
use futures_util::FutureExt as _;
use model::ports::agent::{Agent, Look};
use model::ports::store::{Cursor, ListQuery};
use model::{Fault, Kind, Task, TaskId, View};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SystemsService;
use crate::resources::{ResourceDocument, ResourceWrite};
use gateway::admin::{AdminCommand, AdminContext, AdminRequest, ApiRole, CommandAccess, RedactedText, wrong_arguments};

pub static COMMANDS: [AdminCommand; 2] = [
    AdminCommand {
        name: "graph",
        creates_data: |_| false,
        is_audited: false,
        has_secrets: false,
        access: |_| CommandAccess::within_tenant(ApiRole::Viewer),
        perform: |context, arguments| graph(context, arguments).boxed(),
    },
    AdminCommand {
        name: "apply",
        creates_data: |_| false,
        is_audited: false,
        has_secrets: false,
        access: |_| CommandAccess::about_server(ApiRole::Admin),
        perform: |context, arguments| apply(context, arguments).boxed(),
    },
];

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphArguments {
    system: String,
    #[serde(default)]
    task: Option<String>,
}

/// The command that shows a system's graph.
pub fn graph_request(system: String, task: Option<String>) -> Result<AdminRequest, serde_json::Error> {
    Ok(AdminRequest::Product(&COMMANDS[0], serde_json::to_value(GraphArguments { system, task })?))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyArguments {
    /// A document in JSON.
    document: RedactedText,
}

/// The command that creates or updates a system or an agent.
pub fn apply_request(document: RedactedText) -> Result<AdminRequest, serde_json::Error> {
    Ok(AdminRequest::Product(&COMMANDS[1], serde_json::to_value(ApplyArguments { document })?))
}

/// The most children of a task that are read.
const CHILDREN: usize = 10_000;
const PAGE: u32 = 100;

async fn graph(context: &AdminContext<'_>, arguments: Value) -> Result<Value, Fault> {
    let GraphArguments { system, task } = serde_json::from_value(arguments).map_err(wrong_arguments)?;
    let (engine, system, task) = (context.engine, system.as_str(), task.as_deref());
    let mut agents = engine.agents();
    // A caller of one tenant sees the systems of every tenant and its own.
    if let (Some(own), Some(running)) = (context.tenant(), context.running) {
        let server = running.serving.now();
        let is_seen = |tenant: Option<&str>| tenant.is_none_or(|tenant| tenant == own);
        agents.retain(|agent| {
            let mounted = server.mounts.agent(&agent.profile().name).filter(|mounted| !mounted.retired);
            mounted.is_some_and(|mounted| is_seen(mounted.tenant.as_deref()))
        });
    }
    let agent = find(&agents, system)?;
    let diagram = match task {
        None => agent.picture(None),
        Some(task) => {
            let unknown = || {
                let says = format!("there is no task {task:?}; those there are: rialto task list --agent {system}");
                Fault::new(Kind::TaskNotFound, says)
            };
            let named = context.task(task).await;
            let id = named.map_err(|fault| if fault.kind == Kind::TaskNotFound { unknown() } else { fault })?;
            let known = engine.task(id).await?.ok_or_else(unknown)?;
            if *known.agent != *system {
                let says =
                    format!("{task} is a task of {0:?}; see it with: rialto graph {0} --task {task}", known.agent);
                return Err(Fault::new(Kind::TaskNotFound, says));
            }
            let trouble = |trouble: model::ports::store::StoreError| Fault::new(Kind::Unavailable, trouble.to_string());
            let log = engine.store().logs(vec![id]).await.map_err(trouble)?.pop().unwrap_or_default();
            let children = children(engine, id).await?;
            agent.picture(Some(Look { log: &log, children: &children }))
        }
    };
    diagram.map(|diagram| diagram.to_value()).ok_or_else(|| Fault::internal("a system without a picture"))
}

async fn apply(context: &AdminContext<'_>, arguments: Value) -> Result<Value, Fault> {
    let ApplyArguments { document } = serde_json::from_value(arguments).map_err(wrong_arguments)?;
    let nobody =
        "no server runs on this data that could check it; start one with rialto serve, or name one with --server";
    let running = context.running.ok_or_else(|| Fault::new(Kind::Unavailable, nobody))?;
    let server = running.serving.now();
    let registry = SystemsService::of(&server).and_then(SystemsService::resources).ok_or_else(|| {
        let says = "this server has no Orloj's endpoints; write orloj: {} into its config";
        Fault::new(Kind::Unsupported, says)
    })?;
    let wrong = |all: Vec<String>| Fault::new(Kind::InvalidParams, all.join("\n"));
    let document = ResourceDocument::read(&document.0, None).map_err(wrong)?;
    let by = context.requester.map_or("(operator)", |requester| requester.name);
    let done = registry.ask(ResourceWrite::Apply(document), by).await;
    let (outcome, resource) = done.map_err(|error| Fault::new(Kind::InvalidParams, error.says()))?;
    Ok(json!({ "plural": resource.kind.plural(), "name": &*resource.name, "outcome": outcome.name() }))
}

/// The system of this name among these agents. A fault lists the names of all systems.
pub fn find<'a>(agents: &'a [Arc<dyn Agent>], system: &str) -> Result<&'a Arc<dyn Agent>, Fault> {
    let is_system = |agent: &&Arc<dyn Agent>| agent.picture(None).is_some();
    let named = agents.iter().find(|agent| *agent.profile().name == *system);
    if let Some(agent) = named.filter(is_system) {
        return Ok(agent);
    }
    let what = if named.is_some() { "is an agent, and no system" } else { "is not a system here" };
    let mut names: Vec<&str> = agents.iter().filter(is_system).map(|agent| &*agent.profile().name).collect();
    names.sort_unstable();
    let next = if names.is_empty() {
        "there is none; write one under systems: in the config".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Fault::new(Kind::InvalidParams, format!("{system:?} {what}; {next}")))
}

async fn children(engine: &Engine, parent: TaskId) -> Result<Vec<Arc<Task>>, Fault> {
    let (mut found, mut after): (Vec<Arc<Task>>, Option<Cursor>) = (Vec::new(), None);
    while found.len() < CHILDREN {
        let views = vec![View::child(parent)];
        let query = ListQuery { views, context: None, state: None, since: None, after, limit: PAGE, count: false };
        let page = engine.store().list(query).await.map_err(|t| Fault::new(Kind::Unavailable, t.to_string()))?;
        for (id, cursor) in &page.tasks {
            after = Some(*cursor);
            found.extend(engine.task(*id).await?);
        }
        if !page.more {
            break;
        }
    }
    Ok(found)
}
