//! Scopes: the calls that a credential covers, with a policy and without one.
//!
//! A credential without scopes covers every call. One with scopes covers the calls of each of them, at every front and
//! in every dialect. The check runs together with the policy's, before any task is looked up; both must allow the call.
//!
//! The names for tasks have the same meaning everywhere. Other names have an owner: `system:NAME` is for that system,
//! names of products are for the agent of the product, and names in rules of the policy are decided by the policy
//! alone. Unknown names cover nothing. A token of an issuer may be meant for other servers as well: if all its names
//! are unknown here, it is treated like one without scopes.

use std::sync::Arc;

use model::{Call, Caller, Fault, Kind};

use crate::auth;
use crate::policy::{Methods, Pattern, named};
use crate::settings::{self, Rule, Settings};

/// The names with the same meaning everywhere, and the methods they cover.
const TASKS: [(&str, Methods); 5] = [
    ("tasks", Methods::EVERY),
    ("tasks:read", Methods::READ),
    ("tasks:write", Methods::SAY),
    ("push", Methods::PUSH),
    (ADMIN, Methods::EVERY),
];
/// Roles, as scopes of keys.
const ROLES: [(&str, Methods); 2] = [("reader", Methods::READ), ("writer", Methods::EVERY)];
/// Roles and reach at the admin API, as scopes of keys. They cover no call to an agent.
const ADMIN_API: [&str; 3] = [OPERATOR, VIEWER, ALL_TENANTS];
/// May do everything at the admin API.
pub(crate) const ADMIN: &str = "admin";
/// May do everything there but change keys and the config, and read keys and the audit log.
pub(crate) const OPERATOR: &str = "operator";
/// May read there what an operator may.
pub(crate) const VIEWER: &str = "viewer";
/// The role of the credential holds for every tenant.
pub(crate) const ALL_TENANTS: &str = "all-tenants";
/// Prefix of the scope for one system.
const SYSTEM: &str = "system:";

/// The scopes that are known here.
pub struct Scopes {
    /// Named by rules of the policy.
    policy: Vec<Pattern>,
    /// Names that products define.
    of_products: Vec<&'static str>,
    /// The agent that those names are for, if it is served.
    scoped_agent: Option<Arc<str>>,
}

fn is_system(scope: &str) -> bool {
    scope.strip_prefix(SYSTEM).is_some_and(|name| !name.is_empty())
}

fn own(scope: &str) -> Option<Methods> {
    TASKS.iter().chain(&ROLES).find(|(name, _)| *name == scope).map(|(_, methods)| *methods)
}

/// The names that Rialto itself defines, but for those of systems.
fn own_names() -> impl Iterator<Item = &'static str> {
    TASKS.iter().chain(&ROLES).map(|(name, _)| *name).chain(ADMIN_API)
}

/// The names in the rules.
pub fn named_by(rules: &[Rule]) -> impl Iterator<Item = &str> {
    rules.iter().filter_map(|rule| rule.scopes.as_deref()).flatten().map(String::as_str)
}

/// Checks that every one of these is known: Rialto's own, a system's, a product's, or one in `policy`. The error lists
/// the known names.
pub(crate) fn check_known<'a>(
    scopes: &[String],
    of_products: &[&str],
    policy: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let policy: Vec<&str> = policy.collect();
    let by_policy = |scope: &str| policy.iter().any(|text| Pattern::new(text).fits(scope));
    let is_product = |scope: &str| of_products.contains(&scope);
    let is_own = |scope: &str| own_names().any(|name| name == scope);
    let known = |scope: &&String| is_own(scope) || is_system(scope) || is_product(scope) || by_policy(scope);
    let Some(unknown) = scopes.iter().find(|scope| !known(scope)) else { return Ok(()) };
    let unknown: String = unknown.chars().take(64).collect();
    let mut all: Vec<&str> = own_names().collect();
    all.push("system:NAME");
    all.extend(of_products);
    all.extend(policy);
    let all = all.join(", ");
    Err(format!(
        "there is no scope {unknown:?}; the known ones are {all}. A rule of the policy that names it makes it known"
    ))
}

impl Scopes {
    pub(crate) fn new(settings: &Settings) -> Result<Scopes, settings::Error> {
        let rules = settings.policy.as_deref().unwrap_or_default();
        for key in &settings.keys {
            check_known(&key.scopes, &settings.product_scopes, named_by(rules))
                .map_err(|text| settings::Error(format!("auth.keys: {:?}: {text}", key.name)))?;
        }
        let scoped_agent = settings.products.iter().find_map(|product| product.scoped_agent().cloned());
        let of_products = settings.product_scopes.clone();
        Ok(Scopes { policy: named_by(rules).map(Pattern::new).collect(), of_products, scoped_agent })
    }

    /// Whether a name is known here as one for calls to agents.
    fn knows(&self, scope: &str) -> bool {
        own(scope).is_some() || is_system(scope) || self.of_products.contains(&scope) || self.is_of_policy(scope)
    }

    /// Whether the policy decides about a name. Names for tasks are never left to the policy alone.
    fn is_of_policy(&self, scope: &str) -> bool {
        !TASKS.iter().any(|(name, _)| *name == scope) && self.policy.iter().any(|pattern| pattern.fits(scope))
    }

    fn covers(&self, scope: &str, agent: &str, method: Methods) -> bool {
        if own(scope).is_some_and(|methods| methods.meets(method)) || self.is_of_policy(scope) {
            return true;
        }
        match scope.strip_prefix(SYSTEM) {
            Some(name) => name == "*" || name == agent,
            None => self.of_products.contains(&scope) && self.scoped_agent.as_deref() == Some(agent),
        }
    }

    /// Whether the caller's scopes cover a call at an agent.
    pub fn check(&self, caller: &Caller, agent: &str, call: &Call) -> Result<(), Fault> {
        // Most callers have no scopes.
        if caller.scopes.is_empty() {
            return Ok(());
        }
        for method in Methods::all_of(call) {
            self.deciding(caller, agent, method)?;
        }
        Ok(())
    }

    /// The scope that covers a method at an agent; none for a caller who needs none.
    pub(crate) fn deciding<'c>(
        &self,
        caller: &'c Caller,
        agent: &str,
        method: Methods,
    ) -> Result<Option<&'c str>, Fault> {
        let is_foreign =
            |scope: &String| !scope.is_empty() && !self.knows(scope) && !ADMIN_API.contains(&scope.as_str());
        if caller.scopes.is_empty() || (auth::is_token(&caller.name) && caller.scopes.iter().all(is_foreign)) {
            return Ok(None);
        }
        // The extended card needs any known scope.
        let covered = |scope: &&String| match method {
            Methods::EXTENDED_CARD => self.knows(scope),
            method => self.covers(scope, agent, method),
        };
        let found = caller.scopes.iter().find(covered);
        found.map(|scope| Some(scope.as_str())).ok_or_else(|| refusal(caller, agent, method))
    }
}

fn refusal(caller: &Caller, agent: &str, method: Methods) -> Fault {
    let least = TASKS.iter().filter(|(name, _)| *name != "admin" && *name != "tasks");
    let least = least.filter(|(_, methods)| methods.meets(method)).map(|(name, _)| *name).next().unwrap_or("tasks");
    let held = caller.scopes.join(" ");
    let message = format!(
        "you may not {} at the agent {agent}: that needs the scope {least}, and your credential has {held:?}; ask for another",
        named(method)
    );
    Fault::new(Kind::Forbidden, message)
}

#[cfg(test)]
#[path = "scopes_tests.rs"]
mod tests;
