//! The remote agent's card for operators: as the agent was built, and as it is now.

use std::sync::Arc;

use client::{BindingSeen, CardSeen, InterfaceSeen, SchemeKind};
use model::ports::agent::{Extension, RemoteCards, Skill};
use model::{Fault, Json};
use serde_json::{Value, json};

use super::Shared;

/// Reads the card again. Calls go to the interface that it names from now on, as after any other reading of the card.
pub(super) async fn compared(shared: Arc<Shared>) -> Result<RemoteCards, Fault> {
    let now = shared.client.refresh().await.map_err(client::Error::into_fault)?;
    Ok(RemoteCards {
        before: shared.first_card.clone(),
        now: now.card.as_ref().map(shown),
        url: now.shown_url().to_owned(),
        form: now.peer().facts().name.to_owned(),
    })
}

/// The content of a card in one form for every generation. Addresses have no user, password and query.
pub(super) fn shown(card: &CardSeen) -> Json {
    let interface = |one: &InterfaceSeen| {
        json!({
            "url": client::shown(&one.url),
            "binding": match &one.binding {
                BindingSeen::Known(binding) => binding.name(),
                BindingSeen::Grpc => "GRPC",
                BindingSeen::Other(name) => name,
            },
            "version": one.version.map(|(major, minor)| format!("{major}.{minor}")),
            "tenant": one.tenant,
        })
    };
    let skill = |one: &Skill| {
        json!({
            "name": one.name,
            "description": one.description,
            "tags": one.tags,
            "examples": one.examples,
        })
    };
    let extension = |one: &Extension| {
        json!({
            "description": one.description,
            "required": one.required,
            "params": one.params.as_ref().map(Json::to_value),
        })
    };
    let scheme = |kind: &SchemeKind| match kind {
        SchemeKind::ApiKey { location, name } => format!("api key in the {location} {name}"),
        SchemeKind::Http { scheme } => format!("http {scheme}"),
        SchemeKind::OAuth2 => "oauth2".to_owned(),
        SchemeKind::OpenIdConnect { url } => format!("openid connect {}", client::shown(url)),
        SchemeKind::MutualTls => "mutual TLS".to_owned(),
        SchemeKind::Other => "other".to_owned(),
    };
    // By id, so that another order is no difference.
    let skills = card.skills.iter().map(|one| (one.id.clone(), skill(one)));
    let extensions = card.extensions.iter().map(|one| (one.uri.clone(), extension(one)));
    let schemes = card.schemes.iter().map(|one| (one.name.clone(), Value::String(scheme(&one.kind))));
    let provider = card.provider.as_ref().map(|one| json!({ "organization": one.organization, "url": one.url }));
    Json::from_value(&json!({
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "provider": provider,
        "documentationUrl": card.documentation_url.as_deref().map(client::shown),
        "skills": skills.collect::<serde_json::Map<_, _>>(),
        "inputModes": card.input_modes,
        "outputModes": card.output_modes,
        "streaming": card.streaming,
        "push": card.push,
        "extendedCard": card.extended,
        "extensions": extensions.collect::<serde_json::Map<_, _>>(),
        "interfaces": card.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "schemes": schemes.collect::<serde_json::Map<_, _>>(),
        "security": card.security,
    }))
}
