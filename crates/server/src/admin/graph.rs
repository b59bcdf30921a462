//! A system's graph for operators, with how a task on it stands. The agent draws it; here its task and children are found.

use std::sync::Arc;

use engine::Engine;
use model::ports::agent::{Agent, Look};
use model::ports::store::{Cursor, ListQuery};
use model::{Fault, Kind, Task, TaskId, View};
use serde_json::Value;

/// So many children of a task are looked at.
const CHILDREN: usize = 10_000;
const PAGE: u32 = 100;

pub(super) async fn show(engine: &Engine, system: &str, task: Option<&str>) -> Result<Value, Fault> {
    let agents = engine.agents();
    let agent = find(&agents, system)?;
    let picture = match task {
        None => agent.picture(None),
        Some(task) => {
            let unknown = || {
                let says = format!("there is no task {task:?}; those there are: rialto task list --agent {system}");
                Fault::new(Kind::TaskNotFound, says)
            };
            let named = super::tasks::own_id(engine, task).await;
            let id = named.map_err(|fault| if fault.kind == Kind::TaskNotFound { unknown() } else { fault })?;
            let known = engine.task(id).await?.ok_or_else(unknown)?;
            if *known.agent != *system {
                let says =
                    format!("{task} is a task of {0:?}; see it with: rialto graph {0} --task {task}", known.agent);
                return Err(Fault::new(Kind::TaskNotFound, says));
            }
            let trouble = |trouble: model::ports::store::Trouble| Fault::new(Kind::Unavailable, trouble.to_string());
            let log = engine.store().logs(vec![id]).await.map_err(trouble)?.pop().unwrap_or_default();
            let children = children(engine, id).await?;
            agent.picture(Some(Look { log: &log, children: &children }))
        }
    };
    picture.map(|picture| picture.to_value()).ok_or_else(|| Fault::internal("a system without a picture"))
}

/// The system of this name among these agents. A fault says which there are.
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
