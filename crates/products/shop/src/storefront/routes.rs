//! The routes of the storefront: path, permission, idempotency key and handler of each.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::LazyLock;

use http::Method;
use web::fault_codes::FaultCode;
use web::routes::{NoRoute, RouteRow, RouteTable};

use super::context::ShopRequest;
use super::error::Error;
use super::{Reply, carts, catalogue, orders, sessions, x402};

/// The permission that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShopAudience {
    /// None, unless the operator requires authentication.
    Anyone,
    /// The token in the request.
    Holder,
    /// A credential of the workspace with this scope.
    Scope(&'static str),
}

/// Whether a route uses an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShopKeyPolicy {
    Never,
    /// If the caller sends one.
    May,
    Must,
}

pub(super) type ShopHandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

pub(super) struct ShopRoute {
    verb: &'static str,
    path: &'static str,
    pub(super) audience: ShopAudience,
    pub(super) key_policy: ShopKeyPolicy,
    pub(super) handler: for<'a> fn(&'a ShopRequest<'a>) -> ShopHandlerFuture<'a>,
}

const READS: ShopAudience = ShopAudience::Scope("read:orders");
const WRITES: ShopAudience = ShopAudience::Scope(shop_rules::WRITE_ORDERS);

macro_rules! routes {
    ($($verb:ident $path:literal $audience:expr, $key_policy:ident => $handler:path;)+) => {
        &[$(ShopRoute { verb: stringify!($verb), path: $path, audience: $audience, key_policy: ShopKeyPolicy::$key_policy, handler: $handler }),+]
    };
}

static ROUTES: &[ShopRoute] = routes! {
    GET "/api/storefront/v1/stores/{slug}" ShopAudience::Anyone, Never => catalogue::store;
    GET "/api/storefront/v1/stores/{slug}/products" ShopAudience::Anyone, Never => catalogue::list_of_store;
    GET "/api/storefront/v1/stores/{slug}/products/{id}" ShopAudience::Anyone, Never => catalogue::one_of_store;
    GET "/api/storefront/v1/products" ShopAudience::Anyone, Never => catalogue::list;
    POST "/api/storefront/v1/products/batch" ShopAudience::Anyone, Never => catalogue::batch;
    GET "/api/storefront/v1/products/{id}" ShopAudience::Anyone, Never => catalogue::one;
    GET "/api/storefront/v1/collections" ShopAudience::Anyone, Never => catalogue::collections;
    GET "/api/storefront/v1/search" ShopAudience::Anyone, Never => catalogue::search;
    POST "/api/storefront/v1/carts" ShopAudience::Anyone, May => carts::create;
    GET "/api/storefront/v1/carts/{token}" ShopAudience::Holder, Never => carts::one;
    PUT "/api/storefront/v1/carts/{token}" ShopAudience::Holder, May => carts::change;
    DELETE "/api/storefront/v1/carts/{token}" ShopAudience::Holder, May => carts::cancel;
    POST "/api/storefront/v1/carts/{token}/items" ShopAudience::Holder, May => carts::add;
    PUT "/api/storefront/v1/carts/{token}/items/{item}" ShopAudience::Holder, May => carts::update;
    DELETE "/api/storefront/v1/carts/{token}/items/{item}" ShopAudience::Holder, May => carts::remove;
    POST "/api/storefront/v1/carts/{token}/coupon" ShopAudience::Holder, May => carts::coupon;
    DELETE "/api/storefront/v1/carts/{token}/coupon" ShopAudience::Holder, May => carts::no_coupon;
    POST "/api/storefront/v1/carts/{token}/checkout" ShopAudience::Holder, May => carts::checkout;
    GET "/api/storefront/v1/orders" READS, Never => orders::list;
    GET "/api/storefront/v1/orders/{token}" ShopAudience::Holder, Never => orders::one;
    POST "/api/storefront/v1/orders/{id}/fulfill" WRITES, May => orders::fulfil;
    POST "/api/storefront/v1/orders/{id}/cancel" WRITES, May => orders::cancel;
    POST "/api/storefront/v1/orders/{id}/refund" WRITES, May => orders::refund;
    POST "/api/storefront/v1/orders/{id}/return" WRITES, May => orders::give_back;
    POST "/api/ucp/v1/checkout-sessions" ShopAudience::Anyone, Must => sessions::create;
    GET "/api/ucp/v1/checkout-sessions/{id}" ShopAudience::Holder, Never => sessions::one;
    POST "/api/ucp/v1/checkout-sessions/{id}/complete" ShopAudience::Holder, Must => sessions::complete;
    POST "/api/ucp/v1/checkout-sessions/{id}/cancel" ShopAudience::Holder, Must => sessions::cancel;
    GET "/api/x402/product/{slug}/{id}" ShopAudience::Anyone, Never => x402::pay;
};

impl RouteRow for ShopRoute {
    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

static TABLE: LazyLock<RouteTable<ShopRoute>> = LazyLock::new(|| RouteTable::new(ROUTES));

/// Finds the route of a request, and the parameters of its path.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static ShopRoute, Vec<Cow<'a, str>>), Error> {
    TABLE.find(verb, path).map_err(|error| match error {
        NoRoute::Path => Error::new(
            FaultCode::NOT_FOUND,
            "there is nothing at this address; docs/storefront.md tells which there are",
        ),
        NoRoute::Method { allow } => Error::method(allow),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_fits_one_route() {
        let path = |verb: Method, path| find(&verb, path).map(|(route, named)| (route.path, named.len()));
        assert_eq!(
            path(Method::POST, "/api/storefront/v1/products/batch").unwrap(),
            ("/api/storefront/v1/products/batch", 0)
        );
        assert_eq!(path(Method::HEAD, "/api/storefront/v1/products/sun").unwrap().1, 1);
        assert_eq!(path(Method::PUT, "/api/storefront/v1/carts/t/items/a%3Ab").unwrap().1, 2);
        for (verb, at, allow) in [
            (Method::GET, "/api/storefront/v1/products/batch", "POST"),
            (Method::POST, "/api/storefront/v1/carts/t", "GET, PUT, DELETE, HEAD"),
        ] {
            let refusal = find(&verb, at).err().unwrap();
            assert_eq!((refusal.code, refusal.allow.as_deref()), (FaultCode::METHOD, Some(allow)));
        }
        for nothing in
            ["/api/storefront/v1", "/api/storefront/v1/carts/", "/api/storefront/v1/orders//cancel", "/api/x402/%zz"]
        {
            assert_eq!(find(&Method::GET, nothing).err().unwrap().code, FaultCode::NOT_FOUND, "{nothing}");
        }
    }
}
