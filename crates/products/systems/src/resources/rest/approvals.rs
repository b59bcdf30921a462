//! Orloj's `ToolApproval`: the question whether a node of a run may begin. It is read from the log of the run's task. A
//! decision is a message to that task, as it could also be sent over A2A.

use http::StatusCode;
use model::call::Idempotency;
use model::{Call, Json, Message, Part, Role, Send, State, Task, Visibility, Wait};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ResourcesContext;
use super::error::Error;
use super::tasks::{self, FoundRun, RunScopes, RunView, step};
use crate::ExposedSystem;
use crate::resources::{API_VERSION, document};
use web::body::Response;

/// The newest runs that are read for decided approvals, and the most waiting runs that are read.
const RECENT: usize = 200;
const WAITING: usize = 1_000;
const REASON_BYTES: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Approved,
    Denied,
    /// The run has ended without a decision.
    Expired,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Approved => "Approved",
            Phase::Denied => "Denied",
            Phase::Expired => "Expired",
        }
    }
}

/// One question of a run.
#[derive(Debug)]
struct Approval {
    name: String,
    run: Value,
    node: Value,
    visit: Value,
    asks: String,
    phase: Phase,
    reason: Option<String>,
    decided_by: Option<String>,
}

/// The approvals of a run, oldest first. A repeated question is one approval.
fn all(task: &Task) -> Vec<Approval> {
    let mut all: Vec<Approval> = Vec::new();
    let mut answer = None;
    for message in task.history.iter().chain(&task.status.message) {
        if message.role == Role::User {
            answer = decision(message);
            // A decision counts as soon as it is in the log, before the run has read it.
            if let (Some(known), Some((approves, reason, by))) =
                (all.last_mut().filter(|known| known.phase == Phase::Pending), &answer)
            {
                known.phase = if *approves { Phase::Approved } else { Phase::Denied };
                (known.reason, known.decided_by) = (reason.clone(), by.clone());
            }
            continue;
        }
        let Some(step) = step(message) else { continue };
        let is =
            |known: &Approval| (&known.run, &known.node, &known.visit) == (&step["run"], &step["node"], &step["visit"]);
        match step["state"].as_str() {
            Some("approval") if !all.iter().any(is) => all.push(Approval {
                name: format!("{}-{}", task.id, all.len() + 1),
                run: step["run"].clone(),
                node: step["node"].clone(),
                visit: step["visit"].clone(),
                asks: message.text(),
                phase: Phase::Pending,
                reason: None,
                decided_by: None,
            }),
            Some(state @ ("approved" | "denied")) => {
                if let Some(known) = all.iter_mut().find(|known| is(known)) {
                    known.phase = if state == "approved" { Phase::Approved } else { Phase::Denied };
                    known.reason = step["reason"].as_str().map(str::to_owned).or(known.reason.take());
                    if let Some((_, _, by)) = answer.take() {
                        known.decided_by = by;
                    }
                }
            }
            Some(_) | None => {}
        }
    }
    if task.core.is_settled() {
        for approval in all.iter_mut().filter(|approval| approval.phase == Phase::Pending) {
            approval.phase = Phase::Expired;
        }
    }
    all
}

/// The decision in a message: approved or not, the reason, and who decided.
fn decision(message: &Message) -> Option<(bool, Option<String>, Option<String>)> {
    let data = message.parts.iter().find_map(|part| match &part.content {
        model::Content::Data(json) => Some(json.to_value()),
        model::Content::Text(_) | model::Content::Raw(_) | model::Content::Url(_) | model::Content::Blob(_) => None,
    })?;
    let approves = match data["decision"].as_str()? {
        "approve" => true,
        "deny" => false,
        _ => return None,
    };
    let text = |name: &str| data[name].as_str().map(str::to_owned);
    Some((approves, text("reason"), text("decided_by")))
}

/// The name of the approval that a run waits for.
pub(super) fn pending(task: &Task) -> Option<String> {
    all(task).pop().filter(|last| last.phase == Phase::Pending).map(|last| last.name)
}

impl Approval {
    fn shown(&self, system: &ExposedSystem, task: &Task) -> Value {
        let mut status = json!({ "phase": self.phase.name() });
        for (name, value) in [("reason", &self.reason), ("decidedBy", &self.decided_by)] {
            if let Some(value) = value {
                status[name] = json!(value);
            }
        }
        let run = RunView::of(system, task);
        json!({
            "apiVersion": API_VERSION,
            "kind": "ToolApproval",
            "metadata": {
                "name": self.name,
                "namespace": &*system.namespace,
                "resourceVersion": task.seq().0.to_string(),
                "generation": 1,
                "createdAt": task.created_at.to_string(),
            },
            "spec": {
                "task_ref": run.name(),
                "system": &*system.name,
                "agent": self.node,
                "tool": self.node,
                "reason": self.asks,
            },
            "status": status,
        })
    }
}

pub(super) async fn get(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let (found, approval) = find(context, context.http.id()).await?;
    Ok(super::json(approval.shown(&found.system, &found.task).to_string()))
}

pub(super) async fn list(context: &ResourcesContext<'_>) -> Result<Response, Error> {
    let runs = RunScopes::of(context, &tasks::reads())?;
    let server = context.server;
    let mut found = runs.in_state(server, Some(State::InputRequired), WAITING).await.map_err(Error::of)?;
    let recent = runs.in_state(server, None, RECENT).await.map_err(Error::of)?;
    found.extend(recent.into_iter().filter(|(_, task)| task.state() != State::InputRequired));
    let after = context.query.after.as_deref();
    let mut items: Vec<(String, Value)> = Vec::new();
    for (system, task) in &found {
        items.extend(all(task).iter().map(|one| (one.name.clone(), one.shown(system, task))));
    }
    // Sorted by name, so that pages stay consistent while runs go on.
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    items.retain(|(name, _)| after.is_none_or(|after| name.as_str() > after));
    let limit = context.query.limit();
    let next = items.get(limit).and_then(|_| items.get(limit - 1)).map(|(name, _)| name.clone());
    let page = items.into_iter().take(limit).map(|(_, item)| item.to_string()).collect();
    Ok(super::listed("ToolApproval", None, page, next.as_deref()))
}

async fn find(context: &ResourcesContext<'_>, name: &str) -> Result<(FoundRun, Approval), Error> {
    let missing = || Error::missing(format!("there is no ToolApproval {name:?}; see GET /orloj/v1/tool-approvals"));
    let (task, _) = name.rsplit_once('-').ok_or_else(missing)?;
    let found = tasks::find(context, task).await.map_err(|_| missing())?;
    let approval = all(&found.task).into_iter().find(|one| one.name == *name).ok_or_else(missing)?;
    Ok((found, approval))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Decision {
    reason: Option<String>,
    /// The person who decided. Default: the caller.
    #[serde(alias = "decidedBy")]
    decided_by: Option<String>,
}

pub(super) async fn decide(context: &ResourcesContext<'_>, approves: bool) -> Result<Response, Error> {
    let (name, text) = (context.http.id(), context.text()?);
    let text = if text.trim().is_empty() { "{}" } else { text };
    let said: Decision = document::read(text).map_err(|wrong| Error::wrong(vec![wrong]))?;
    for (field, value) in [("reason", &said.reason), ("decided_by", &said.decided_by)] {
        if value.as_ref().is_some_and(|value| value.len() > REASON_BYTES) {
            return Err(Error::wrong(vec![format!("{field}: is longer than {REASON_BYTES} bytes")]));
        }
    }
    let (found, approval) = find(context, name).await?;
    let over =
        |phase: Phase| Error::conflict(format!("ToolApproval {name:?} is {} already; nothing changed", phase.name()));
    if approval.phase != Phase::Pending {
        return Err(over(approval.phase));
    }
    let by = said.decided_by.unwrap_or_else(|| context.caller.name.to_string());
    let decision = if approves { "approve" } else { "deny" };
    let mut data = json!({ "decision": decision, "decided_by": by });
    if let Some(reason) = &said.reason {
        data["reason"] = json!(reason);
    }
    let message = Message {
        id: uuid::Uuid::now_v7().to_string().into(),
        role: Role::User,
        parts: vec![Part::data(Json::from_value(&data))],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    };
    let FoundRun { system, mut scope, task } = found;
    let send = Send {
        task: Some(task.id.to_string()),
        wait: Wait::Exists,
        history: Some(0),
        // Of two concurrent decisions only one is accepted.
        idempotency: Some(Idempotency { key: format!("approval/{name}"), body: [0; 32] }),
        ..Send::new(message)
    };
    let call = Call::Send(Box::new(send.clone()));
    let checked = context.systems.scope(&context.caller, &system, &call, model::Ids::default()).map_err(Error::of)?;
    scope.ids = checked.ids;
    match context.systems.visibility(&system) {
        // An idempotency key is one caller's: with one name for all callers, their decisions share the key.
        Visibility::Tenant | Visibility::Systems => scope.caller.name = "orloj-approvals".into(),
        Visibility::Owner | Visibility::Parties => {}
    }
    context.server.engine.send(&scope, send).await.map_err(Error::of)?;
    let (found, now) = find(context, name).await?;
    let wanted = if approves { Phase::Approved } else { Phase::Denied };
    if now.phase != wanted {
        return Err(over(now.phase));
    }
    let mut response = super::json(now.shown(&found.system, &found.task).to_string());
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}
