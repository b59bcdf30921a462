//! The addresses of assistants: JSON-RPC, and the card that a query names.

use std::sync::Arc;

use crate::langgraph::LangGraphProfile;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request;
use model::Fault;
use uuid::Uuid;
use web::body::Response;

use crate::endpoint::{self, AssistantAddress};
use gateway::fronts::at_mount;
use gateway::mounts::{CARD, OLD_CARD};
use gateway::product::{
    Accepts, CardRequest, Demo, EndpointRequest, ProductEndpoint, ProductRoute, ProductService, RefusalForm,
};
use gateway::{GatewayVersion, auth};

pub struct AssistantsService {
    profile: LangGraphProfile,
}

impl AssistantsService {
    pub fn new(profile: LangGraphProfile) -> AssistantsService {
        AssistantsService { profile }
    }

    /// The profile of the endpoint; `None` if the product is not served.
    pub(crate) fn profile(server: &GatewayVersion) -> Option<LangGraphProfile> {
        server.product::<AssistantsService>().map(|service| service.profile)
    }
}

impl ProductService for AssistantsService {
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a> {
        let Some(below) = path.strip_prefix("/langgraph") else { return ProductRoute::NotMine };
        match below.strip_prefix("/a2a/").map(|rest| rest.trim_end_matches('/')) {
            Some(id) if !id.is_empty() && !id.contains('/') => {
                ProductRoute::Found(Box::new(AssistantsEndpoint::Assistant(id)))
            }
            None if below == CARD || below == OLD_CARD => ProductRoute::Found(Box::new(AssistantsEndpoint::Card)),
            Some(_) | None => ProductRoute::Nothing,
        }
    }

    fn demo(&self) -> Option<&dyn Demo> {
        Some(self)
    }

    /// An id that no assistant has is refused in the product's form.
    fn unknown_agent<'a>(&'a self, name: &'a str) -> Option<Box<dyn ProductEndpoint + 'a>> {
        name.parse::<Uuid>().ok()?;
        Some(Box::new(AssistantsEndpoint::Assistant(name)))
    }

    fn claim<'a>(
        &'a self,
        server: &'a Arc<GatewayVersion>,
        head: &'a request::Parts,
        body: Option<&Bytes>,
    ) -> Option<Box<dyn ProductEndpoint + 'a>> {
        let id = server.mounts.id_at(head.uri.path())?;
        let is_owner = body.is_none_or(|body| endpoint::is_owner(server, head, body));
        is_owner.then(|| Box::new(AssistantsEndpoint::Shared(id)) as Box<dyn ProductEndpoint + 'a>)
    }

    /// A request for a card can name an assistant in its query.
    fn card<'a>(&'a self, request: CardRequest<'a>) -> Option<BoxFuture<'a, Option<Response>>> {
        let CardRequest { server, head, .. } = request;
        let is_named = head.uri.query().is_some_and(|query| query.contains("assistant_id="));
        is_named.then(|| {
            let card = async move { Some(endpoint::card_by_query(server, head)) };
            Box::pin(card) as BoxFuture<'a, Option<Response>>
        })
    }
}

enum AssistantsEndpoint<'a> {
    Assistant(&'a str),
    /// At an agent's own address.
    Shared(&'a str),
    Card,
}

impl ProductEndpoint for AssistantsEndpoint<'_> {
    fn accepts(&self, _server: &GatewayVersion) -> Accepts {
        match self {
            AssistantsEndpoint::Assistant(_) | AssistantsEndpoint::Shared(_) => Accepts::Any(None),
            AssistantsEndpoint::Card => Accepts::Get,
        }
    }

    fn admit<'a>(
        &'a self,
        server: &'a Arc<GatewayVersion>,
        head: &'a request::Parts,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let (AssistantsEndpoint::Assistant(id) | AssistantsEndpoint::Shared(id)) = self else { return Ok(()) };
            match id.parse().ok().and_then(|id| server.mounts.agent_by_id(id)) {
                Some(mounted) => at_mount(server, mounted, head).await,
                // Without access a caller does not learn whether the assistant exists.
                None => {
                    let caller = server.callers.identify(&head.headers).await?;
                    let closed = server.callers.required() && !caller.authenticated;
                    if closed { Err(auth::credential_required()) } else { Ok(()) }
                }
            }
        })
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move {
            match self {
                AssistantsEndpoint::Assistant(id) => {
                    endpoint::answer(server, id, AssistantAddress::Own, head, body.into_bytes(), log).await
                }
                AssistantsEndpoint::Shared(id) => {
                    endpoint::answer(server, id, AssistantAddress::Shared, head, body.into_bytes(), log).await
                }
                AssistantsEndpoint::Card => endpoint::card_by_query(server, head),
            }
        })
    }

    fn refusals(&self) -> RefusalForm {
        match self {
            AssistantsEndpoint::Assistant(_) | AssistantsEndpoint::Shared(_) => RefusalForm::Answer,
            AssistantsEndpoint::Card => RefusalForm::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_assistants() {
        for (path, expected) in [
            ("/langgraph/a2a/x", "found"),
            ("/langgraph/a2a/x/", "found"),
            ("/langgraph/.well-known/agent-card.json", "found"),
            ("/langgraph/a2a/", "nothing"),
            ("/langgraph/a2a/x/y", "nothing"),
            ("/langgraph", "nothing"),
            ("/a2a/x", "not mine"),
        ] {
            let found = match AssistantsService::new(LangGraphProfile::Documented).route(path) {
                ProductRoute::Found(_) => "found",
                ProductRoute::Nothing => "nothing",
                ProductRoute::NotMine => "not mine",
            };
            assert_eq!(found, expected, "{path}");
        }
        assert!(
            AssistantsService::new(LangGraphProfile::Documented)
                .unknown_agent("22222222-2222-4222-8222-222222222222")
                .is_some()
        );
        assert!(AssistantsService::new(LangGraphProfile::Documented).unknown_agent("echo").is_none());
    }
}
