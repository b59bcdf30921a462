//! The port for products: what a product adds to the server. The binary lists the products it has.

use std::sync::Arc;

use engine::Engine;
use futures_util::future::BoxFuture;
use model::ports::till::Books;
use model::{AccessKey, Fault};

use crate::admin::AdminCommand;

/// A product, before it is configured.
pub trait ProductKind: Sync {
    /// For logs and build features. Config keys and stored names are constants of their own.
    fn name(&self) -> &'static str;

    /// The commands it has at the admin socket.
    fn admin(&self) -> &'static [AdminCommand] {
        &[]
    }

    /// Settles what turns cost. It is needed wherever tasks end, also without a config for the product. One product has it.
    fn settlement(&self) -> Option<Arc<dyn Books>> {
        None
    }

    /// An operator's key was revoked: the product ends what was made with it.
    fn key_revoked<'a>(&self, _engine: &'a Engine, _key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The settlement of these products, if one of them has one.
pub fn settlement(products: &[&'static dyn ProductKind]) -> Option<Arc<dyn Books>> {
    let mut found = products.iter().filter_map(|product| product.settlement());
    let first = found.next();
    debug_assert!(found.next().is_none(), "two products settle turns");
    first
}
