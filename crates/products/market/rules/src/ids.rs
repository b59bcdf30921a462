//! Ids of capabilities and demands, and the actor of a change.

use std::sync::Arc;

use ledger::{UserId, text_id};
use serde::{Deserialize, Serialize};

text_id!(
    /// A capability: `cap_ocr_invoice_v1`.
    CapabilityId
);
text_id!(
    /// A demand: `dem_` and letters.
    DemandId
);

/// The party that requests a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    User {
        tenant: Arc<str>,
        id: UserId,
        via: Via,
    },
    /// This server itself: a timer, a turn of an agent, an operator.
    Platform,
}

impl Actor {
    pub fn agent(tenant: &str, id: &UserId) -> Actor {
        Actor::User { tenant: tenant.into(), id: id.clone(), via: Via::Agent }
    }
    pub fn person(tenant: &str, id: &UserId) -> Actor {
        Actor::User { tenant: tenant.into(), id: id.clone(), via: Via::Person }
    }
    /// Whether the actor is that user of that tenant. The same id in another tenant is another user.
    pub fn is(&self, tenant: &str, user: &UserId) -> bool {
        match self {
            Actor::User { tenant: of, id, .. } => **of == *tenant && id == user,
            Actor::Platform => false,
        }
    }
}

/// How a user acts: as an agent with a key, or as a person who has logged in. Spending limits apply to agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Agent,
    Person,
}
