//! The agents that are served: their addresses, access and limits.

use model::ports::agent::Restart;
use model::{Limits, Visibility};
use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::agent_load::ApiAgentLoad;
use super::problem::ApiProblem;
use super::{ApiContext, agent_load, ok};
use crate::mounts::CARD;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Agent")]
pub(super) struct ApiAgent {
    name: String,
    title: String,
    description: String,
    version: String,
    /// It is the agent at the root.
    default: bool,
    /// Its address for JSON-RPC and HTTP+JSON.
    url: String,
    /// Its card, for readers of every version.
    card: String,
    /// Its turns; null for a caller of one tenant, and for agents whose turns are not counted.
    load: Option<ApiAgentLoad>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Agents")]
pub(super) struct ApiAgents {
    agents: Vec<ApiAgent>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AgentSkill")]
pub(super) struct ApiSkill {
    id: String,
    name: String,
    description: String,
}

/// What holds for every task of the agent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentLimits")]
pub(super) struct ApiLimits {
    body_bytes: usize,
    turn_bytes: usize,
    turn_timeout_ms: u64,
    cancel_grace_ms: u64,
    waiting_messages: u32,
    attempts: u32,
    retention_ms: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentDetail")]
pub(super) struct ApiAgentDetail {
    #[serde(flatten)]
    agent: ApiAgent,
    skills: Vec<ApiSkill>,
    input_modes: Vec<String>,
    output_modes: Vec<String>,
    streaming: bool,
    push: bool,
    /// What becomes of a turn that a crash cuts off: `retry`, `resume` or `fail`.
    restart: String,
    /// `tenant`, `owner`, `parties` or `systems`.
    visibility: String,
    /// Callers need a credential.
    requires_credential: bool,
    /// The tenant of all its tasks, where its mount has one that the caller sees.
    tenant: Option<String>,
    /// Workers run its turns.
    has_workers: bool,
    /// The agents that it works with.
    members: Vec<String>,
    limits: ApiLimits,
}

fn agent(context: &ApiContext<'_>, name: &str) -> Option<ApiAgent> {
    let server = context.server;
    let profile = server.engine.profile(name)?;
    let base = server.cards.base_url(&server.settings, context.http.head);
    Some(ApiAgent {
        name: name.to_owned(),
        title: profile.title.clone(),
        description: profile.description.clone(),
        version: profile.version.clone(),
        default: *name == **server.mounts.default_agent(),
        url: format!("{base}/a2a/{name}"),
        card: format!("{base}/a2a/{name}{CARD}"),
        load: agent_load::of(context, name),
    })
}

pub(super) async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let agents = context.server.mounts.agents().iter().filter_map(|name| agent(context, name)).collect();
    ok(&ApiAgents { agents })
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, name) = (context.server, context.http.id());
    let missing = || ApiProblem::missing("there is no such agent");
    let mounted = server.mounts.agent(name).filter(|mounted| !mounted.retired).ok_or_else(missing)?;
    let profile = server.engine.profile(name).ok_or_else(missing)?;
    let agent = agent(context, name).ok_or_else(missing)?;
    let skill = |skill: &model::ports::agent::Skill| ApiSkill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
    };
    let tenant = mounted.tenant.as_deref().filter(|tenant| context.tenant().is_none_or(|own| own == *tenant));
    ok(&ApiAgentDetail {
        agent,
        skills: profile.skills.iter().map(skill).collect(),
        input_modes: profile.input_modes.clone(),
        output_modes: profile.output_modes.clone(),
        streaming: profile.streaming,
        push: profile.push && server.engine.has_push(),
        restart: restart(profile.restart).to_owned(),
        visibility: match mounted.visibility() {
            Visibility::Tenant => "tenant",
            Visibility::Owner => "owner",
            Visibility::Parties => "parties",
            Visibility::Systems => "systems",
        }
        .to_owned(),
        requires_credential: server.requires(mounted),
        tenant: tenant.map(str::to_owned),
        has_workers: server.engine.desk(name).is_some(),
        members: server.engine.members(name).iter().map(|member| member.to_string()).collect(),
        limits: limits(server.engine.limits()),
    })
}

pub(super) fn limits(limits: &Limits) -> ApiLimits {
    ApiLimits {
        body_bytes: limits.body_bytes,
        turn_bytes: limits.turn_bytes,
        turn_timeout_ms: limits.turn_timeout_ms,
        cancel_grace_ms: limits.cancel_grace_ms,
        waiting_messages: limits.waiting_messages,
        attempts: limits.attempts,
        retention_ms: limits.retention_ms,
    }
}

/// The word for what becomes of a turn that a crash cuts off.
pub(super) fn restart(rule: Restart) -> &'static str {
    match rule {
        Restart::Retry => "retry",
        Restart::Resume => "resume",
        Restart::Fail => "fail",
    }
}
