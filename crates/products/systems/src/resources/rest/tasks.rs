//! Orloj's `Task`: one run of a system, which is the view of a task in the product's form. Its name is the one it was created
//! with, the one derived from the caller's id, or the task's own id.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::orloj::{self, SystemAddress};
use engine::SendAnswer;
use http::StatusCode;
use model::{
    Again, Call, CallScope, Cancel, Content, Fault, Get, Ids, Json, Kind, List, Message, Part, Role, Send, State, Task,
    Time, Wait,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ResourcesContext;
use super::error::Error;
use crate::ExposedSystem;
use crate::orloj::endpoint::{MOUNT, NAMES};
use crate::resources::{ANNOTATION_BYTES, API_VERSION, LABEL_BYTES, Resource, ResourceKind, document};
use gateway::GatewayVersion;
use web::body::{Response, ResponseBody};

/// The metadata members of a message with the data of a run, and with a step of a run. Stored.
const OWN: &str = "https://rialto.dev/ext/orloj/v1";
pub(super) const STEP: &str = "https://rialto.dev/ext/system/v1";
/// The length of a page of tasks from the engine.
const PAGE: u32 = 100;
/// The most messages or log lines shown of one run.
const MESSAGES: usize = 1_000;

pub(super) async fn watch(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    super::watch::runs(context, RunScopes::of(context, &reads())?).await
}

pub(super) async fn get(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let found = find(context, context.http.id()).await?;
    Ok(super::json(RunView::of(&found.system, &found.task).shown(&found.task, true).to_string()))
}

pub(super) async fn list_messages(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let found = find(context, context.http.id()).await?;
    Ok(super::json(json!({ "items": messages(&found.task) }).to_string()))
}

pub(super) async fn list_logs(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let found = find(context, context.http.id()).await?;
    Ok(super::json(json!({ "items": logs(&found.task) }).to_string()))
}

/// A call that only reads, to check access with.
pub(super) fn reads() -> Call {
    Call::List(List::default())
}

/// The systems whose runs a caller may access, with the scope of the call at each.
pub(super) struct RunScopes(Vec<(ExposedSystem, CallScope)>);

impl RunScopes {
    /// Every system of the namespace for which the caller may make this call.
    pub(super) fn of(context: &ResourcesContext<'_>, call: &Call) -> Result<RunScopes, Error> {
        let (systems, _) = context.registry.list(ResourceKind::AgentSystem);
        let systems = systems
            .iter()
            .filter(|system| system.trouble.is_none() && context.query.admits_namespace(&system.namespace));
        let mut all = Vec::new();
        for system in systems {
            let system = exposed(system);
            if let Ok(scope) = context.systems.scope(&context.caller, &system, call, Ids::default()) {
                all.push((system, scope));
            }
        }
        Ok(RunScopes(all))
    }

    /// The runs whose status has changed since `since`, newest first, at most `most`.
    pub(super) async fn changed(
        &self,
        server: &GatewayVersion,
        since: Option<Time>,
        most: usize,
    ) -> Result<Vec<(ExposedSystem, Arc<Task>)>, Fault> {
        self.gather(server, List { since, ..List::default() }, most).await
    }

    /// The runs in a state, newest first, at most `most`.
    pub(super) async fn in_state(
        &self,
        server: &GatewayVersion,
        state: Option<State>,
        most: usize,
    ) -> Result<Vec<(ExposedSystem, Arc<Task>)>, Fault> {
        self.gather(server, List { state, ..List::default() }, most).await
    }

    async fn gather(
        &self,
        server: &GatewayVersion,
        list: List,
        most: usize,
    ) -> Result<Vec<(ExposedSystem, Arc<Task>)>, Fault> {
        let mut all: Vec<(ExposedSystem, Arc<Task>)> = Vec::new();
        for (system, scope) in &self.0 {
            let mut list = List { page_size: Some(PAGE), ..list.clone() };
            let mut of_system = 0;
            while of_system < most {
                let page = server.engine.list(scope, &list).await?;
                of_system += page.tasks.len();
                all.extend(page.tasks.into_iter().map(|task| (system.clone(), task)));
                if page.next_page_token.is_empty() {
                    break;
                }
                list.page_token = Some(page.next_page_token);
            }
        }
        all.sort_by_key(|(_, task)| std::cmp::Reverse(task.status.at));
        all.truncate(most);
        Ok(all)
    }
}

/// The system of a resource, in the form of the endpoints.
fn exposed(system: &Resource) -> ExposedSystem {
    let spec = system.spec.to_value();
    let a2a = &spec["a2a"];
    let public = a2a["enabled"] == true && a2a["auth"] == "public";
    ExposedSystem { name: system.name.clone(), namespace: system.namespace.clone(), public, agents: Vec::new() }
}

/// A run, with its system and the scope in which it was found.
pub(super) struct FoundRun {
    pub(super) system: ExposedSystem,
    pub(super) scope: CallScope,
    pub(super) task: Arc<Task>,
}

/// Finds a run by its name, by the id that its caller chose, or by its own id.
pub(super) async fn find(context: &ResourcesContext<'_>, name: &str) -> Result<FoundRun, Error> {
    let call = Call::Get(Get { task: name.to_owned(), history: None });
    for (system, mut scope) in RunScopes::of(context, &call)?.0 {
        for mount in [NAMES, MOUNT] {
            scope.mount = mount.into();
            match context.server.engine.get(&scope, name).await {
                Ok(task) => return Ok(FoundRun { system, scope, task }),
                Err(fault) if fault.kind == Kind::TaskNotFound => {}
                Err(fault) => return Err(Error::of(fault)),
            }
        }
    }
    Err(Error::missing(format!("there is no Task {name:?}; see GET /orloj/v1/tasks")))
}

/// A run in the product's form.
pub(super) struct RunView {
    name: String,
    system: Arc<str>,
    namespace: Arc<str>,
    pub(super) labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    input: Value,
}

impl RunView {
    pub(super) fn of(system: &ExposedSystem, task: &Task) -> RunView {
        let first = task.history.iter().find(|message| message.role == Role::User);
        let own = first.and_then(|message| message.metadata.as_ref()).map(Json::to_value).unwrap_or_default();
        let own = &own[OWN];
        let texts = |name: &str| BTreeMap::<String, String>::deserialize(&own[name]).unwrap_or_default();
        let (mut labels, mut annotations) = (texts("labels"), texts("annotations"));
        let address = SystemAddress { namespace: &system.namespace, name: &system.name };
        let name = match task.alias.as_deref() {
            Some(alias) if own["name"] == alias => alias.to_owned(),
            Some(alias) if *task.dialect == *orloj::NAME => {
                labels.insert("orloj.dev/a2a-task-id".into(), alias.to_owned());
                annotations.insert("orloj.dev/created-by".into(), "a2a-protocol".into());
                address.task_name(alias)
            }
            Some(_) | None => task.id.to_string(),
        };
        if task.state() == State::Canceled {
            labels.insert("orloj.dev/a2a-cancelled".into(), "true".into());
        }
        let prompt = || first.map(|message| json!({ "prompt": message.text() })).unwrap_or_else(|| json!({}));
        let input = if own["input"].is_object() { own["input"].clone() } else { prompt() };
        RunView { name, system: system.name.clone(), namespace: system.namespace.clone(), labels, annotations, input }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The document of the run; with `whole`, including its output.
    pub(super) fn shown(&self, task: &Task, whole: bool) -> Value {
        let mut metadata = json!({
            "name": self.name,
            "namespace": &*self.namespace,
            "resourceVersion": task.seq().0.to_string(),
            "generation": 1,
            "createdAt": task.created_at.to_string(),
        });
        for (name, texts) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !texts.is_empty() {
                metadata[name] = json!(texts);
            }
        }
        let mut status = json!({
            "phase": phase(task),
            "taskId": task.id.to_string(),
            "updatedAt": task.status.at.to_string(),
        });
        let words = task.status.message.as_ref().map(|message| message.text()).filter(|words| !words.is_empty());
        match task.state() {
            State::Failed | State::Rejected => status["lastError"] = json!(words.unwrap_or_default()),
            State::Canceled => {
                let reason = task.canceled_with.as_ref().map(|with| with.to_value()["reason"].clone());
                let reason = reason.as_ref().and_then(Value::as_str).map(str::to_owned).or(words).unwrap_or_default();
                status["lastError"] = json!(format!("a2a:cancelled:{reason}"));
            }
            State::InputRequired | State::AuthRequired => {
                let kind = if super::approvals::pending(task).is_some() { "ToolApproval" } else { "A2AInputRequest" };
                status["blockedOn"] = json!({ "kind": kind, "message": words });
                if let Some(approval) = super::approvals::pending(task) {
                    status["blockedOn"]["name"] = json!(approval);
                }
            }
            State::Submitted | State::Working | State::Completed => {}
        }
        if task.core.is_settled() {
            status["completedAt"] = json!(task.status.at.to_string());
        }
        if whole {
            let mut output = Map::new();
            for artifact in &task.artifacts {
                let name = artifact.name.clone().unwrap_or_else(|| artifact.id.to_string());
                output.insert(name, text_of(&artifact.parts).into());
            }
            if !output.is_empty() {
                status["output"] = Value::Object(output);
            }
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "Task",
            "metadata": metadata,
            "spec": { "system": &*self.system, "input": self.input },
            "status": status,
        })
    }
}

/// Text and data parts as one text. Files are left out.
fn text_of(parts: &[Part]) -> String {
    let text = |part: &Part| match &part.content {
        Content::Text(text) => Some(text.to_string()),
        Content::Data(json) => Some(json.text().to_owned()),
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// The phase of a run. A run that failed after retries of a node is a dead letter.
fn phase(task: &Task) -> &'static str {
    match task.state() {
        State::Submitted => "Pending",
        State::Working => "Running",
        State::InputRequired | State::AuthRequired => "WaitingApproval",
        State::Completed => "Succeeded",
        State::Failed if is_dead_letter(task) => "DeadLetter",
        State::Failed | State::Canceled | State::Rejected => "Failed",
    }
}

fn is_dead_letter(task: &Task) -> bool {
    let steps: Vec<Value> = steps(task).collect();
    let Some(last) = steps.iter().rev().find(|step| step["state"] == "failed") else { return false };
    let tries = steps
        .iter()
        .filter(|step| step["state"] == "failed" && (&step["run"], &step["node"]) == (&last["run"], &last["node"]));
    tries.count() > 1
}

/// The steps of a system's run, oldest first.
fn steps(task: &Task) -> impl Iterator<Item = Value> {
    let said = task.history.iter().chain(&task.status.message).filter(|message| message.role == Role::Agent);
    said.filter_map(|message| step(message))
}

/// The step in a message.
pub(super) fn step(message: &Message) -> Option<Value> {
    let metadata = message.metadata.as_ref().filter(|json| json.text().contains(STEP))?;
    metadata.to_value().get(STEP).cloned()
}

fn messages(task: &Task) -> Vec<Value> {
    let said = task.history.iter().chain(&task.status.message);
    let shown = said.map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Agent => "agent",
        };
        json!({ "id": &*message.id, "role": role, "content": text_of(&message.parts) })
    });
    let all: Vec<Value> = shown.collect();
    all[all.len().saturating_sub(MESSAGES)..].to_vec()
}

fn logs(task: &Task) -> Vec<Value> {
    let all: Vec<Value> = steps(task)
        .map(|mut step| {
            let state = step["state"].take();
            let mut line = json!({ "step": state });
            for name in ["node", "visit", "child", "reason"] {
                if !step[name].is_null() {
                    line[name] = step[name].take();
                }
            }
            line
        })
        .collect();
    all[all.len().saturating_sub(MESSAGES)..].to_vec()
}

/// Lists the runs system by system, newest first. `continue` has the next system and the page token in it.
pub(super) async fn list(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let limit = context.query.limit();
    let (mut begin, mut token) = match context.query.after.as_deref() {
        None => (None, None),
        Some(after) => match after.split_once('~') {
            Some((system, token)) => (Some(system.to_owned()), Some(token.to_owned()).filter(|t| !t.is_empty())),
            None => {
                return Err(Error::wrong(vec!["after: is not the continue of this list; begin without it".to_owned()]));
            }
        },
    };
    let (mut items, mut next) = (Vec::new(), None);
    let runs = RunScopes::of(context, &reads())?;
    for (system, scope) in &runs.0 {
        if begin.as_deref().is_some_and(|begin| &*system.name < begin) {
            continue;
        }
        if begin.take().is_some_and(|begin| *system.name != *begin) {
            token = None;
        }
        loop {
            if items.len() >= limit {
                next = Some(format!("{}~{}", system.name, token.take().unwrap_or_default()));
                break;
            }
            let page_size = u32::try_from(limit - items.len()).unwrap_or(PAGE).min(PAGE);
            let query = List { page_size: Some(page_size), page_token: token.take(), ..List::default() };
            let page = context.server.engine.list(scope, &query).await.map_err(Error::of)?;
            for task in &page.tasks {
                let run = RunView::of(system, task);
                if context.query.selector.admits(&run.labels) {
                    items.push(run.shown(task, false).to_string());
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            token = Some(page.next_page_token);
        }
        if next.is_some() {
            break;
        }
    }
    Ok(super::listed("Task", None, items, next.as_deref()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SentTask {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: document::ResourceMetadata,
    spec: TaskSpec,
    #[serde(default, rename = "status")]
    _status: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct Spec")]
struct TaskSpec {
    system: String,
    #[serde(default)]
    input: Map<String, Value>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    max_turns: Option<u32>,
    /// Accepted without effect: every run begins at once.
    #[serde(default, rename = "priority")]
    _priority: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    retry: Option<Value>,
    #[serde(default)]
    message_retry: Option<Value>,
    #[serde(default)]
    requirements: Option<Value>,
}

pub(super) async fn create(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let sent: SentTask = document::read(context.text()?).map_err(|wrong| Error::wrong(vec![wrong]))?;
    let mut wrong = Vec::new();
    if sent.api_version.as_deref().is_some_and(|version| version != API_VERSION) {
        wrong.push(format!("apiVersion: write {API_VERSION}"));
    }
    if sent.kind.as_deref().is_some_and(|kind| kind != "Task") {
        wrong.push("kind: this address is for kind Task".to_owned());
    }
    let name = sent.metadata.name.clone().unwrap_or_else(|| format!("task-{}", uuid::Uuid::now_v7().simple()));
    document::check_name("metadata.name", &name, &mut wrong);
    if name == "watch" {
        wrong.push("metadata.name: \"watch\" is an address; choose another".to_owned());
    }
    let labels = sent.metadata.labels.unwrap_or_default();
    let annotations = sent.metadata.annotations.unwrap_or_default();
    document::check_texts("metadata.labels", &labels, LABEL_BYTES, &mut wrong);
    document::check_texts("metadata.annotations", &annotations, ANNOTATION_BYTES, &mut wrong);
    let spec = sent.spec;
    match spec.mode.as_deref() {
        None | Some("run") => {}
        Some(mode) => wrong.push(format!("spec.mode: {mode:?} is not there; leave it out, every Task is a run")),
    }
    for (field, value, instead) in [
        ("retry", &spec.retry, "retries of a node in the system's graph"),
        ("message_retry", &spec.message_retry, "retries of a node in the system's graph"),
        ("requirements", &spec.requirements, "the agents of the system"),
    ] {
        if value.as_ref().is_some_and(|value| !value.is_null()) {
            wrong.push(format!("spec.{field}: is not a run's here; leave it out, it is said by {instead}"));
        }
    }
    if spec.max_turns == Some(0) {
        wrong.push("spec.max_turns: write a number from 1".to_owned());
    }
    if spec.input.is_empty() {
        wrong.push("spec.input: is empty; write { \"prompt\": \"…\" }".to_owned());
    }
    if !wrong.is_empty() {
        return Err(Error::wrong(wrong));
    }
    let asked = sent.metadata.namespace.as_deref().or(context.query.namespace.as_deref());
    let (in_namespace, target) = match spec.system.split_once('/') {
        Some((namespace, target)) => (Some(namespace), target),
        None => (asked, spec.system.as_str()),
    };
    let found = context.registry.get(ResourceKind::AgentSystem, target);
    let found = found.filter(|system| in_namespace.is_none_or(|namespace| *system.namespace == *namespace));
    let found = found.ok_or_else(|| {
        Error::wrong(vec![format!(
            "spec.system: there is no AgentSystem {:?} here; see GET /v1/agent-systems",
            spec.system
        )])
    })?;
    if let Some(trouble) = &found.trouble {
        return Err(Error::conflict(format!("AgentSystem {target:?} is not served now: {trouble}")));
    }
    let system = exposed(&found);
    if find(context, &name).await.is_ok() {
        return Err(taken(&name));
    }
    let message = self::message(&name, &spec, &labels, &annotations);
    let send = Send { alias: Some(name.clone()), wait: Wait::Exists, history: Some(0), ..Send::new(message) };
    let address = SystemAddress { namespace: &system.namespace, name: &system.name };
    let ids =
        Ids { again: Again::Refuse, also: Some((NAMES.into(), address.task_name(&name).into())), ..Ids::default() };
    let call = Call::Send(Box::new(send.clone()));
    let scope = context.systems.scope(&context.caller, &system, &call, ids).map_err(Error::of)?;
    match context.server.engine.send(&scope, send).await {
        Ok(SendAnswer::Task(task)) => {
            let mut response = super::json(RunView::of(&system, &task).shown(&task, true).to_string());
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
        }
        Ok(SendAnswer::Reply(_)) => Err(Error::of(Fault::internal("a system answered without a task"))),
        // Another request has used the name meanwhile.
        Err(fault) if fault.kind == Kind::InvalidParams && fault.field.as_deref() == Some("id") => Err(taken(&name)),
        Err(fault) => Err(Error::of(fault)),
    }
}

fn taken(name: &str) -> Error {
    let says = format!("there is a Task {name:?} already; choose another name, or delete it first");
    Error::new(StatusCode::CONFLICT, "AlreadyExists", says)
}

/// The message to the system: the prompt as text, other input as data.
fn message(
    name: &str,
    spec: &TaskSpec,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Message {
    let mut rest = spec.input.clone();
    let prompt = match rest.remove("prompt") {
        Some(Value::String(prompt)) => Some(prompt),
        Some(other) => {
            rest.insert("prompt".into(), other);
            None
        }
        None => None,
    };
    let mut parts: Vec<Part> = prompt.into_iter().map(Part::text).collect();
    if !rest.is_empty() {
        parts.push(Part::data(Json::from_value(&Value::Object(rest))));
    }
    let mut metadata =
        json!({ OWN: { "name": name, "input": spec.input, "labels": labels, "annotations": annotations } });
    if let Some(most) = spec.max_turns {
        metadata[STEP] = json!({ "max_turns": most });
    }
    let id = uuid::Uuid::now_v7().to_string().into();
    let metadata = Some(Json::from_value(&metadata));
    Message { id, role: Role::User, parts, metadata, extensions: Vec::new(), references: Vec::new() }
}

/// Cancels a run if it has not ended, and deletes it.
pub(super) async fn delete(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let name = context.http.id();
    let FoundRun { system, scope, task } = find(context, name).await?;
    let id = task.id;
    let cancel = Cancel { task: id.to_string(), metadata: Some(Json::from_value(&json!({ "reason": "deleted" }))) };
    // The caller must be allowed to cancel, too.
    context
        .systems
        .scope(&context.caller, &system, &Call::Cancel(cancel.clone()), Ids::default())
        .map_err(Error::of)?;
    if !task.core.is_settled() {
        match context.server.engine.cancel(&scope, cancel).await {
            Ok(_) => {}
            // It has ended meanwhile.
            Err(fault) if matches!(fault.kind, Kind::TaskNotCancelable | Kind::TaskNotFound) => {}
            Err(fault) => return Err(Error::of(fault)),
        }
    }
    context.server.engine.purge(id).await.map_err(Error::of)?;
    context.server.cache.forget(id);
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_where_systems_write_them() {
        assert_eq!(STEP, crate::agent::KEY);
    }
}
