//! Shops, with the keys and tokens of their workspaces.
//!
//! The store agent's endpoint has one wire, `crate::aly`, on the fronts of 1.0. A workspace is a tenant. Before there
//! is a task, the `Storekeeper` port says which scope and workspace a message needs; a request that lacks them leaves
//! nothing behind.
//!
//! OAuth stores clients, codes, grants and keys as records, and the hash of each secret. A grant is one record with all
//! its tokens: looking a token up is one read, ending a grant is one commit. Codes and refresh tokens are used up by a
//! change against the record's version. Each names the key it was made with, so revoking a key is one write.
//!
//! The token of a cart, checkout or order is its holder's only credential. It is part of paths, so the request log gets
//! the path without it. The checkout page and OAuth's pages allow one style sheet by its hash and no script.

pub mod admin;
pub mod admission;
pub mod aly;
pub mod oauth;
mod routes;
pub mod service;
mod settings;
mod storefront;

pub use oauth::OauthRules;
pub(crate) use routes::ShopEndpoint;
pub use routes::ShopService;
pub use settings::StoreAgentSettings;

pub use crate::aly::endpoint::check;

use engine::Engine;
use futures_util::future::BoxFuture;
use model::{AccessKey, Fault, TaskId};

use crate::oauth::{KeyKind, Oauth, RevokedKey};
use dialects::JsonWire;
use gateway::admin::AdminCommand;
use gateway::product::ProductKind;

static WIRES: [&dyn JsonWire; 1] = [&aly::WIRE];

pub struct ShopProduct;

impl ProductKind for ShopProduct {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn wires(&self) -> &'static [&'static dyn JsonWire] {
        &WIRES
    }

    fn task_id(&self, shown: &str) -> Option<TaskId> {
        aly::own_id(shown).parse().ok()
    }

    fn scopes(&self) -> Vec<&'static str> {
        crate::aly::SCOPES.iter().map(|(name, _)| *name).collect()
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn key_revoked<'a>(&self, engine: &'a Engine, key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        // Clients and grants made with the key end with it.
        let revoked = RevokedKey { kind: KeyKind::Operator, workspace: &key.tenant, id: &key.id };
        Box::pin(async move {
            Oauth::new(engine.clone(), OauthRules::default()).end_made_with(revoked).await?;
            Ok(())
        })
    }
}
