//! The settings of the store agent's endpoints.

use std::sync::Arc;

use crate::admission::Storekeeper;

pub use crate::oauth::Rules as OauthRules;

/// Aly's endpoints: `/api/a2a`, `/oauth`, and both below `/aly`.
#[derive(Clone)]
pub struct Aly {
    /// The store agent, which must be one of the agents served.
    pub agent: Arc<str>,
    /// Who knows what a message to it asks for.
    pub storekeeper: Arc<dyn Storekeeper>,
    /// The shops behind it, where they are Rialto's own: their storefront and checkout page.
    pub shop: Option<crate::service::Shop>,
    pub oauth: OauthRules,
    /// What the card of no shop in particular is called.
    pub platform: String,
    /// Where cards say that one can read more.
    pub documentation_url: Option<String>,
}

impl Aly {
    pub fn new(agent: impl Into<Arc<str>>, storekeeper: Arc<dyn Storekeeper>) -> Aly {
        let (agent, platform) = (agent.into(), "Rialto shops".into());
        Aly { agent, storekeeper, shop: None, oauth: OauthRules::default(), platform, documentation_url: None }
    }
}

impl std::fmt::Debug for Aly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aly").field("agent", &self.agent).field("oauth", &self.oauth).finish_non_exhaustive()
    }
}
