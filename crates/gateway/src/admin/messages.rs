//! Messages of operators to agents: the answer to a task that waits, in the name of its owner, and a message of their own
//! that opens a task.

use std::sync::Arc;

use dialects::a2a_v1;
use engine::{SendAnswer, owners_scope};
use model::{Call, CallScope, Caller, Fault, Kind, Send, Task, TaskId, Wait};
use serde_json::json;

use super::AdminContext;
use crate::GatewayVersion;

/// Continues a task that waits with a message of its owner. A product that guards the agent decides by the operator's own
/// credential.
pub(crate) async fn answer(
    context: &AdminContext<'_>,
    server: &GatewayVersion,
    operator: &Caller,
    id: TaskId,
    mut send: Send,
) -> Result<Arc<Task>, Fault> {
    let engine = &server.engine;
    let task = engine.task(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
    let (tenant, owner) = (task.tenant.clone(), task.owner.clone());
    let place = owners_scope(&task, a2a_v1::NAME);
    // A held fold would be copied by the next event.
    drop(task);
    send.task = Some(id.to_string());
    send.extensions = required_extensions(server, &place.agent);
    check(server, &place, &send, operator).await?;
    let message = send.message.id.clone();
    let task = engine.answer_by_operator(place, id, send).await?;
    let line = json!({ "task": id.to_string(), "tenant": &*tenant, "owner": &*owner, "message": &*message });
    context.changed("tasks", "answered", line);
    Ok(task)
}

/// Opens a task with a message, which belongs to the operator. The policy decides as for its calls; the scopes of calls do not
/// count. Returns the task as soon as it exists.
pub(crate) async fn send(
    context: &AdminContext<'_>,
    server: &GatewayVersion,
    operator: &Caller,
    agent: &str,
    mut send: Send,
) -> Result<Arc<Task>, Fault> {
    let missing = || Fault::new(Kind::MethodNotFound, "there is no such agent");
    let mounted = server.mounts.agent(agent).filter(|mounted| !mounted.retired).ok_or_else(missing)?;
    let tenant = mounted.tenant_of(operator);
    if let Some(own) = context.tenant().filter(|own| **own != *tenant) {
        let says = format!("tasks of this agent are not in the tenant {own}, and your key is for that tenant alone");
        return Err(Fault::new(Kind::Forbidden, says));
    }
    send.wait = Wait::Exists;
    send.extensions = required_extensions(server, agent);
    let call = Call::Send(Box::new(send));
    server.allows(operator, &tenant, agent, &call, server.requires(mounted))?;
    let Call::Send(send) = call else { return Err(Fault::internal("a send is another call")) };
    // The role is enough also where callers need the scope of a system.
    let caller = Caller { tenant, scopes: Arc::default(), ..operator.clone() };
    let place = mounted.place_in(caller, a2a_v1::NAME);
    check(server, &place, &send, operator).await?;
    let id = match server.engine.send(&place, *send).await? {
        SendAnswer::Task(task) => task.id,
        SendAnswer::Reply(reply) => reply.exchange,
    };
    let line = json!({ "task": id.to_string(), "tenant": &*place.caller.tenant, "agent": agent });
    context.changed("tasks", "sent", line);
    server.engine.task(id).await?.ok_or_else(|| Fault::task_not_found(id))
}

/// Asks the product that guards the agent.
async fn check(server: &GatewayVersion, place: &CallScope, send: &Send, operator: &Caller) -> Result<(), Fault> {
    match server.mounts.agent(&place.agent).and_then(|mounted| mounted.send_guard.as_ref()) {
        Some(guard) => guard.admit(&server.engine, place, send, Some(operator)).await,
        None => Ok(()),
    }
}

/// The extensions that an agent requires of every message.
pub(crate) fn required_extensions(server: &GatewayVersion, agent: &str) -> Vec<String> {
    let Some(profile) = server.engine.profile(agent) else { return Vec::new() };
    profile.extensions.iter().filter(|extension| extension.required).map(|extension| extension.uri.clone()).collect()
}
