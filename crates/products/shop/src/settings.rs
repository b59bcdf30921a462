//! The settings of the store agent's endpoints.

use std::sync::Arc;

use crate::admission::StoreAdmission;

use crate::oauth::OauthRules;

/// Aly's endpoints: `/api/a2a`, `/oauth`, and both below `/aly`.
#[derive(Clone)]
pub struct StoreAgentSettings {
    /// The store agent, which must be one of the agents served.
    pub agent: Arc<str>,
    /// Who knows what a message to it asks for.
    pub admission: Arc<dyn StoreAdmission>,
    /// The shops behind it, where they are Rialto's own: their storefront and checkout page.
    pub shop: Option<crate::service::Shop>,
    pub oauth: OauthRules,
    /// What the card of no shop in particular is called.
    pub platform: String,
    /// Where cards say that one can read more.
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
