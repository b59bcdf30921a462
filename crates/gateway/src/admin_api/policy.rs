//! A dry run of permissions: whether a caller may make a call, and the scope or rule that decides.

use model::Caller;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};
use crate::policy::{Effect, Methods, NAMES};

/// The longest name, and the most scopes of a caller.
const NAME: usize = 512;
const SCOPES: usize = 100;
/// The name of callers without a credential.
const ANONYMOUS: &str = "anonymous";

/// The caller that is asked about; it need not exist.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AskedCaller")]
pub(super) struct ApiAskedCaller {
    /// `anonymous` is a caller without a credential.
    name: String,
    /// Without it, the tenant of the request's own caller.
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Question")]
pub(super) struct ApiQuestion {
    caller: ApiAskedCaller,
    agent: String,
    /// The name of a method, as rules of the policy have it: `send`, `stream`, `get`, `list`, `cancel`, `subscribe`,
    /// `push_create`, `push_get`, `push_list`, `push_delete` or `extended_card`.
    operation: String,
}

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "DecidedBy")]
pub(super) enum ApiDecidedBy {
    /// The agent requires a credential, and the caller has none.
    Credential,
    /// No scope of the caller covers the operation.
    Scopes,
    /// The policy: a rule, or the lack of one.
    Policy,
    /// Nothing refuses it: there is no policy, and the scopes cover it.
    Nothing,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Decision")]
pub(super) struct ApiDecision {
    allowed: bool,
    decided_by: ApiDecidedBy,
    /// The scope that covers the operation, if the caller has scopes.
    scope: Option<String>,
    /// The number of the rule in the config's `policy`, from 1.
    rule: Option<usize>,
    /// `allow` or `deny`.
    effect: Option<String>,
    /// The agent that the rule is about: the one asked about, or one that it works with.
    agent: String,
    /// Why it is refused.
    reason: Option<String>,
}

pub(super) async fn check(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let ApiQuestion { caller, agent, operation } = context.body()?;
    let method = Methods::single(&operation)
        .ok_or_else(|| ApiProblem::field("operation", format!("must be one of {}", NAMES.join(", "))))?;
    let is_name = |text: &str| (1..=NAME).contains(&text.len());
    if !is_name(&caller.name) {
        return Err(ApiProblem::field("caller.name", format!("must have 1 to {NAME} bytes")));
    }
    if caller.scopes.len() > SCOPES {
        return Err(ApiProblem::field("caller.scopes", format!("must have at most {SCOPES} scopes")));
    }
    let own = &context.caller.known.tenant;
    let tenant = caller.tenant.unwrap_or_else(|| own.to_string());
    if context.tenant().is_some_and(|own| own != tenant) {
        return Err(ApiProblem::forbidden(format!("your key is for the tenant {own} alone")));
    }
    let server = context.server;
    let mounted = server.mounts.agent(&agent).filter(|mounted| !mounted.retired);
    let mounted = mounted.ok_or_else(|| ApiProblem::field("agent", "is no agent that is served"))?;
    let is_anonymous = caller.name == ANONYMOUS;
    let asked = Caller {
        tenant: tenant.into(),
        name: caller.name.into(),
        authenticated: !is_anonymous,
        scopes: if is_anonymous { Vec::new().into() } else { caller.scopes.into() },
    };
    let required = server.requires(mounted);
    let mut decision = ApiDecision {
        allowed: false,
        decided_by: ApiDecidedBy::Nothing,
        scope: None,
        rule: None,
        effect: None,
        agent: agent.clone(),
        reason: None,
    };
    if is_anonymous && required && !server.opens(&agent) {
        decision.decided_by = ApiDecidedBy::Credential;
        decision.reason = Some("the agent requires a credential".to_owned());
        return ok(&decision);
    }
    match server.scopes.deciding(&asked, &agent, method) {
        Ok(scope) => decision.scope = scope.map(str::to_owned),
        Err(fault) => {
            decision.decided_by = ApiDecidedBy::Scopes;
            decision.reason = Some(fault.message);
            return ok(&decision);
        }
    }
    let Some(policy) = server.policy() else {
        decision.allowed = true;
        return ok(&decision);
    };
    decision.decided_by = ApiDecidedBy::Policy;
    let mut found = policy.decision(&asked, &agent, method, required, false);
    if method.is_message() && matches!(found, Some((_, Effect::Allow))) {
        // A rule that denies an agent that a system works with denies messages to the system.
        for member in server.engine.members(&agent) {
            if let Some(denied) = policy.decision(&asked, &member, method, required, true) {
                (found, decision.agent) = (Some(denied), member.to_string());
                break;
            }
        }
    }
    decision.rule = found.map(|(number, _)| number);
    decision.allowed = matches!(found, Some((_, Effect::Allow)));
    decision.effect = found.map(|(_, effect)| match effect {
        Effect::Allow => "allow".to_owned(),
        Effect::Deny => "deny".to_owned(),
    });
    decision.reason = match found {
        Some((_, Effect::Allow)) => None,
        Some((number, Effect::Deny)) => Some(format!("rule {number} denies it")),
        None => Some("no rule allows it".to_owned()),
    };
    ok(&decision)
}
