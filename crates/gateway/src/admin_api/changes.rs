//! Which tasks change: as server-sent events, or what has changed after a cursor.
//!
//! An event names the tasks that have changed since the one before, each once; its reader reads what it shows. Changes are
//! gathered for a short while, so that their number does not matter to the server. A reader that goes on after an event
//! misses none: where the server cannot know (another process, another life of it, too many changes), the next event says so.

use std::collections::HashSet;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dialects::framing::sse;
use engine::{ChangeCursor, ChangeWatcher, ChangedTask, ChangedTasks};
use model::ports::store::TaskQuery;
use model::{Fault, Kind, TaskId};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;
use web::body::Response;
use web::headers::last_event_id;
use web::sse::{EventSource, EventStream, Flow};

use super::problem::ApiProblem;
use super::{ApiContext, ok, wants_events};
use crate::GatewayVersion;

/// The time in which changes are gathered.
const GATHER: Duration = Duration::from_millis(100);
/// How often new tasks of other processes are looked for, which no process tells of.
const LOOK: Duration = Duration::from_millis(500);
/// The most tasks of an event.
const TASKS: usize = 200;
/// The most tasks that are read for an event to find their tenant and agent.
const LOOKUPS: usize = 20;

/// A task that has changed.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ChangedTask")]
pub(super) struct ApiChangedTask {
    id: String,
    /// Null where another process has changed it.
    tenant: Option<String>,
    agent: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Changes")]
pub(super) struct ApiChanges {
    /// Each once.
    tasks: Vec<ApiChangedTask>,
    /// Other tasks may have changed, too: read all again.
    missed: bool,
    /// The cursor after these; also the id of the event.
    next: String,
}

/// The text of a cursor.
fn written(cursor: ChangeCursor) -> String {
    format!("{}.{}", cursor.life.as_simple(), cursor.number)
}

fn read(text: &str) -> Option<ChangeCursor> {
    let (life, number) = text.split_once('.')?;
    Some(ChangeCursor { life: Uuid::from_str(life).ok()?, number: number.parse().ok()? })
}

/// The changes that a caller is told of.
struct ChangeFilter {
    server: Arc<GatewayVersion>,
    tenant: Option<Arc<str>>,
    agent: Option<Arc<str>>,
}

impl ChangeFilter {
    async fn told(&self, found: ChangedTasks, cursor: ChangeCursor) -> Result<Option<ApiChanges>, Fault> {
        let ChangedTasks { changes, mut missed } = found;
        let (mut seen, mut tasks, mut lookups) = (HashSet::new(), Vec::new(), 0);
        let is_filtered = self.tenant.is_some() || self.agent.is_some();
        for ChangedTask { task, mut about } in changes {
            let is_other = about.as_ref().is_some_and(|(tenant, agent)| !self.admits(tenant, agent));
            if is_other || !seen.insert(task) {
                continue;
            }
            if tasks.len() == TASKS || lookups == LOOKUPS {
                missed = true;
                break;
            }
            if is_filtered && about.is_none() {
                lookups += 1;
                about = self.about(task).await?;
                if !about.as_ref().is_some_and(|(tenant, agent)| self.admits(tenant, agent)) {
                    continue;
                }
            }
            let (tenant, agent) = about.unzip();
            let text = |name: Option<Arc<str>>| name.map(|name| name.to_string());
            tasks.push(ApiChangedTask { id: task.to_string(), tenant: text(tenant), agent: text(agent) });
        }
        Ok((missed || !tasks.is_empty()).then(|| ApiChanges { tasks, missed, next: written(cursor) }))
    }

    fn admits(&self, tenant: &str, agent: &str) -> bool {
        self.tenant.as_deref().is_none_or(|wanted| wanted == tenant)
            && self.agent.as_deref().is_none_or(|wanted| wanted == agent)
    }

    async fn about(&self, task: TaskId) -> Result<Option<(Arc<str>, Arc<str>)>, Fault> {
        let task = self.server.engine.outline(task).await?;
        Ok(task.map(|task| (task.tenant.clone(), task.agent.clone())))
    }

    /// The newest task in a shared store.
    async fn newest(&self) -> Result<Option<TaskId>, Fault> {
        let query = TaskQuery {
            before: None,
            tenant: self.tenant.clone(),
            agent: self.agent.clone(),
            state: None,
            aliased: false,
            rows: 1,
        };
        let page = self.server.engine.store().tasks(query).await;
        let page = page.map_err(|trouble| Fault::new(Kind::Unavailable, trouble.to_string()))?;
        Ok(page.tasks.first().copied())
    }
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let own = context.tenant();
    let named = context.text("tenant");
    let tenant = own.map(str::to_owned).or_else(|| named.clone()).map(Arc::from);
    let agent = context.text("agent").map(Arc::from);
    let filter = ChangeFilter { server: context.server.clone(), tenant, agent };
    let is_foreign = own.is_some_and(|own| named.is_some_and(|named| named != own));
    if is_foreign {
        return Err(ApiProblem::field("tenant", "is another tenant than yours"));
    }
    let engine = &context.server.engine;
    let head = context.http.head;
    let after = match last_event_id(&head.headers) {
        Some(named) => {
            let cursor = named.ok().and_then(read);
            Some(cursor.ok_or_else(|| ApiProblem::field("Last-Event-ID", "is no cursor of this stream"))?)
        }
        None => match context.http.query_param("after") {
            Some(text) => Some(read(text).ok_or_else(|| ApiProblem::field("after", "is no cursor of this list"))?),
            None => None,
        },
    };
    let mut watcher = engine.watch(after);
    if !wants_events(head) {
        let found = watcher.take().unwrap_or_default();
        let told = filter.told(found, watcher.cursor()).await?;
        let nothing = ApiChanges { tasks: Vec::new(), missed: false, next: written(watcher.cursor()) };
        return ok(&told.unwrap_or(nothing));
    }
    let server = context.server;
    let throttle = server.throttle.as_ref();
    let permit = throttle.map(|throttle| throttle.stream(&context.caller.known, context.http.address)).transpose()?;
    let looks = engine.store().is_shared();
    let newest = if looks { filter.newest().await? } else { None };
    let due = Instant::now();
    let feed = ChangeEvents { filter, watcher, pending: None, due, looks, look_at: due + LOOK, newest };
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let stream = EventStream::new(feed, server.metrics.streams.clone()).heartbeat(heartbeat, sse::HEARTBEAT);
    Ok(stream.permits([permit.flatten(), None]).respond())
}

struct ChangeEvents {
    filter: ChangeFilter,
    watcher: ChangeWatcher,
    /// Taken and not written yet: a future that is dropped loses nothing.
    pending: Option<ChangedTasks>,
    /// The next event comes no earlier.
    due: Instant,
    /// Looks for new tasks of other processes; the newest known one.
    looks: bool,
    look_at: Instant,
    newest: Option<TaskId>,
}

impl ChangeEvents {
    /// Waits for a change of another process or of this one.
    async fn wait(&mut self) -> bool {
        if !self.looks {
            return self.watcher.changed().await;
        }
        loop {
            // Due looks come first, so that changes here, however many, do not put them off.
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.look_at) => {
                    let newest = self.filter.newest().await;
                    self.look_at = Instant::now() + LOOK;
                    match newest {
                        Ok(newest) if newest != self.newest => {
                            self.newest = newest;
                            self.pending = Some(ChangedTasks { changes: Vec::new(), missed: true });
                            return true;
                        }
                        Ok(_) => {}
                        Err(fault) => tracing::debug!("new tasks could not be looked for: {fault}"),
                    }
                }
                goes_on = self.watcher.changed() => return goes_on,
            }
        }
    }

    async fn next_changes(&mut self) -> Option<Result<ApiChanges, Fault>> {
        loop {
            if self.pending.is_none() && !self.wait().await {
                return None;
            }
            tokio::time::sleep_until(self.due).await;
            if let Some(found) = self.watcher.take() {
                let pending = self.pending.get_or_insert_default();
                pending.changes.extend(found.changes);
                pending.missed |= found.missed;
            }
            let Some(found) = &self.pending else { continue };
            let told = self.filter.told(found.clone(), self.watcher.cursor()).await;
            self.pending = None;
            self.due = Instant::now() + GATHER;
            if let Some(told) = told.transpose() {
                return Some(told);
            }
        }
    }
}

impl EventSource for ChangeEvents {
    type Item = Result<ApiChanges, Fault>;

    fn next(&mut self) -> impl Future<Output = Option<Self::Item>> + Send {
        self.next_changes()
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        let Some(item) = item else { return Ok(Flow::Ends) };
        // A client resumes after its last event.
        let changes = item.map_err(|fault| {
            tracing::warn!(cause = %fault.cause_text(), "a stream of changes failed: {fault}");
            io::Error::other(fault.message)
        })?;
        let bytes = serde_json::to_vec(&changes)?;
        sse::write_frame(piece, Some(&changes.next), None, &[&bytes]);
        Ok(Flow::Continues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let cursor = ChangeCursor { life: Uuid::now_v7(), number: 7 };
        assert_eq!(read(&written(cursor)), Some(cursor));
        for text in ["", "7", "x.7", "0199f3c4111172228333444455556666.", "0199f3c4111172228333444455556666.-1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
