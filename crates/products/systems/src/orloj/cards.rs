//! Serves the cards of systems, and the registry of all cards.

use std::sync::Arc;

use crate::orloj::{self, card};
use bytes::Bytes;
use dialects::framing::jsonrpc::OwnedId;
use dialects::wire::Operation;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode, request};
use serde_json::Value;

use super::endpoint::{SystemsContext, address, refused, signed};
use crate::{ExposedSystem, SystemsSettings};
use gateway::GatewayVersion;
use gateway::fronts::RequestLog;
use web::body::Response;
use web::response::{json, text};

/// The card of the system in the path, or of the only system.
pub(crate) fn card(
    server: &Arc<GatewayVersion>,
    named: Option<&str>,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Response {
    (log.operation, log.dialect) = ("card", orloj::NAME);
    let Ok(context) = SystemsContext::open(server, named, head, log) else { return no_card() };
    let system = match named {
        Some(_) => context.system(None, Operation::Unknown).ok(),
        None => context.only_system(),
    };
    match system {
        Some(system) => {
            log.agent = Some(system.name.clone());
            document(&card_of(server, context.settings, system, head))
        }
        None => no_card(),
    }
}

/// The cards of all systems that the caller may call, and the agents on other servers.
pub(crate) async fn registry(server: &Arc<GatewayVersion>, head: &request::Parts, log: &mut RequestLog) -> Response {
    (log.operation, log.dialect) = ("card", orloj::NAME);
    let context = match SystemsContext::open(server, None, head, log) {
        Ok(context) => context,
        Err(error) => return refused(&error, &OwnedId::NULL, log),
    };
    let caller = match context.caller(log).await {
        Ok(caller) => caller,
        Err(error) => return refused(&error, &OwnedId::NULL, log),
    };
    let wanted = |system: &&ExposedSystem| {
        context.admits(&caller, system) && context.namespace.as_deref().is_none_or(|n| *system.namespace == *n)
    };
    let systems = context.settings.systems.iter().filter(wanted);
    let systems = systems.map(|system| card_of(server, context.settings, system, head)).collect();
    let profiles: Vec<_> = context.settings.remotes.iter().map(|(name, _)| server.engine.profile(name)).collect();
    let remotes: Vec<card::RemoteAgent<'_>> = context
        .settings
        .remotes
        .iter()
        .zip(&profiles)
        .map(|((name, url), profile)| card::RemoteAgent {
            name,
            url,
            protocol_version: &context.settings.protocol_version,
            description: profile.as_deref().map(|profile| &*profile.description),
        })
        .collect();
    let mut response = document(&card::registry(systems, &remotes));
    // It depends on the caller.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn card_of(
    server: &Arc<GatewayVersion>,
    settings: &SystemsSettings,
    system: &ExposedSystem,
    head: &request::Parts,
) -> Value {
    let mount = if head.uri.path().starts_with("/orloj") { "/orloj" } else { "" };
    let base = format!("{}{mount}", server.cards.base_url(&server.settings, head));
    let profile = server.engine.profile(&system.name);
    let members: Vec<_> = system.agents.iter().filter_map(|agent| server.engine.profile(agent)).collect();
    let mut skills: Vec<card::SystemSkill<'_>> = Vec::new();
    for skill in members.iter().flat_map(|member| &member.skills) {
        let shown = card::SystemSkill { name: &skill.id, description: &skill.description };
        if !skills.iter().any(|known| known.name == shown.name) {
            skills.push(shown);
        }
    }
    card::card(&card::SystemCard {
        system: address(system),
        description: profile.as_deref().map_or("", |profile| &profile.description),
        base: &base,
        protocol_version: &settings.protocol_version,
        streaming: profile.as_deref().is_none_or(|profile| profile.streaming),
        push: profile.as_deref().is_none_or(|profile| server.offers_push(profile)),
        history: true,
        public: system.public,
        skills,
    })
}

fn document(value: &Value) -> Response {
    let mut response = signed(json(Bytes::from(value.to_string())));
    gateway::cards::cacheable(response.headers_mut());
    response
}

fn no_card() -> Response {
    text(StatusCode::NOT_FOUND, "agent card not found\n")
}
