//! Status pages: liveness, readiness, the list of agents, metrics.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode, request};
use serde_json::json;

use crate::{GatewayVersion, console};
use web::body::{Response, ResponseBody};
use web::response::{json, text};

/// Time limit of the store's answer to a readiness check.
const READY_WITHIN: Duration = Duration::from_secs(2);

impl GatewayVersion {
    /// 200 if the server would accept new work.
    pub(crate) async fn ready(&self) -> Response {
        match self.readiness().await {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }

    /// The reason why new work would be refused, if there is one.
    pub(crate) async fn readiness(&self) -> Result<(), String> {
        if self.engine.is_draining() {
            return Err("shutting down".into());
        }
        let not_ready = |why: &dyn std::fmt::Display| Err(format!("not ready: {why}"));
        if let Some(trouble) = self.engine.store_trouble() {
            return not_ready(&trouble);
        }
        match tokio::time::timeout(READY_WITHIN, self.engine.health()).await {
            Ok(Ok(health)) => match health.trouble {
                None => Ok(()),
                Some(trouble) => not_ready(&trouble),
            },
            Ok(Err(fault)) => not_ready(&fault),
            Err(_) => not_ready(&"the store does not answer"),
        }
    }

    pub(crate) async fn show_metrics(&self) -> Response {
        let health = self.engine.health().await.ok();
        self.metrics.bodies.set(self.intake.held() as u64);
        self.metrics.answers.set(self.answers.held() as u64);
        let mut response = text(StatusCode::OK, self.metrics.render(self.engine.figures(), health.as_ref()));
        let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    pub(crate) fn list_agents(&self, head: &request::Parts) -> Response {
        let base = self.cards.base_url(&self.settings, head);
        let agents = self.mounts.agents().iter().filter_map(|name| {
            let profile = self.engine.profile(name)?;
            Some(json!({
                "name": &**name,
                "title": profile.title,
                "description": profile.description,
                "default": name == self.mounts.default_agent(),
                "assistantId": self.mounts.id_of(name).map(|id| id.to_string()),
                "url": format!("{base}/a2a/{name}"),
                "card": format!("{base}/a2a/{name}{}", crate::mounts::CARD),
            }))
        });
        json(json!({ "agents": agents.collect::<Vec<_>>() }).to_string())
    }

    /// `None` if deliveries carry no tokens.
    pub(crate) fn jwks(&self) -> Option<Response> {
        let mut response = Response::new(ResponseBody::from(self.settings.jwks.clone()?));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        Some(response)
    }

    /// A page for a browser, text for every other client.
    pub(crate) fn index(&self, head: &request::Parts) -> Response {
        if console::wants_page(&head.headers) {
            let titles = self.mounts.agents().iter().filter_map(|name| Some((name, self.engine.profile(name)?)));
            let titles: Vec<_> = titles.map(|(name, profile)| (&**name, profile.title.clone())).collect();
            return console::front_page(
                titles.iter().map(|(name, title)| (*name, title.as_str())),
                self.settings.console,
            );
        }
        let base = self.cards.base_url(&self.settings, head);
        let card = crate::mounts::CARD;
        let mut response = text(
            StatusCode::OK,
            format!(
                "Rialto {}: an A2A server.\n\nagents  {base}/agents\ncard    {base}{card}\nPOST JSON-RPC to {base}/ or {base}/a2a/<agent>\n",
                env!("CARGO_PKG_VERSION")
            ),
        );
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        response
    }
}
