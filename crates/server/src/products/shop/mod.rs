//! Shops, with the keys and tokens of their workspaces.

pub mod admin;
mod routes;

pub(crate) use routes::{ShopEndpoint, ShopService};

use engine::Engine;
use futures_util::future::BoxFuture;
use model::{AccessKey, Fault};

use crate::admin::AdminCommand;
use crate::oauth::{KeyKind, Oauth, Revoked, Rules};
use crate::product::ProductKind;

pub struct ShopProduct;

impl ProductKind for ShopProduct {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn key_revoked<'a>(&self, engine: &'a Engine, key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        // Clients and grants made with the key end with it.
        let revoked = Revoked { kind: KeyKind::Operator, workspace: &key.tenant, id: &key.id };
        Box::pin(async move {
            Oauth::new(engine.clone(), Rules::default()).end_made_with(revoked).await?;
            Ok(())
        })
    }
}
