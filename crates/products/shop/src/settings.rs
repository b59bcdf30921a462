//! Settings of the store agent's endpoint, OAuth and the storefront.

use std::sync::Arc;

use crate::admission::StoreAdmission;

use crate::oauth::OauthRules;

/// Settings of `/api/a2a` and `/oauth`, and of both below `/aly`.
#[derive(Clone)]
pub struct StoreAgentSettings {
    /// Name of the store agent, which must be one of the agents served.
    pub agent: Arc<str>,
    /// Determines the permissions that a message to the store agent needs.
    pub admission: Arc<dyn StoreAdmission>,
    /// The shops, if Rialto runs them itself: then the storefront and the checkout page are served, too.
    pub shop: Option<crate::service::Shop>,
    pub oauth: OauthRules,
    /// Name of the platform, on the card that belongs to no shop.
    pub platform: String,
    /// Address of the documentation, on cards.
    pub documentation_url: Option<String>,
}

impl StoreAgentSettings {
    pub fn new(agent: impl Into<Arc<str>>, admission: Arc<dyn StoreAdmission>) -> StoreAgentSettings {
        let (agent, platform) = (agent.into(), "Rialto shops".into());
        StoreAgentSettings {
            agent,
            admission,
            shop: None,
            oauth: OauthRules::default(),
            platform,
            documentation_url: None,
        }
    }
}

impl std::fmt::Debug for StoreAgentSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreAgentSettings")
            .field("agent", &self.agent)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}
