//! The routes.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::LazyLock;

use http::Method;
use web::routes::{NoRoute, RouteRow, RouteTable};

use super::ask::ShopRequest;
use super::error::{Code, Error};
use super::{Reply, carts, catalogue, orders, sessions, x402};

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Everybody, unless the operator wants everybody to be known.
    Anyone,
    /// Whoever has the token that the request names.
    Holder,
    /// Those of the workspace whose credential is good for this.
    Scope(&'static str),
}

/// What is known of a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyed {
    Never,
    /// By the caller's key, if it says one.
    May,
    Must,
}

pub(super) type Going<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

pub(super) struct Route {
    verb: &'static str,
    path: &'static str,
    pub(super) who: Who,
    pub(super) keyed: Keyed,
    pub(super) go: for<'a> fn(&'a ShopRequest<'a>) -> Going<'a>,
}

const READS: Who = Who::Scope("read:orders");
const WRITES: Who = Who::Scope(shop_rules::WRITE_ORDERS);

macro_rules! routes {
    ($($verb:ident $path:literal $who:expr, $keyed:ident => $go:path;)+) => {
        &[$(Route { verb: stringify!($verb), path: $path, who: $who, keyed: Keyed::$keyed, go: $go }),+]
    };
}

static ROUTES: &[Route] = routes! {
    GET "/api/storefront/v1/stores/{slug}" Who::Anyone, Never => catalogue::store;
    GET "/api/storefront/v1/stores/{slug}/products" Who::Anyone, Never => catalogue::list_of_store;
    GET "/api/storefront/v1/stores/{slug}/products/{id}" Who::Anyone, Never => catalogue::one_of_store;
    GET "/api/storefront/v1/products" Who::Anyone, Never => catalogue::list;
    POST "/api/storefront/v1/products/batch" Who::Anyone, Never => catalogue::batch;
    GET "/api/storefront/v1/products/{id}" Who::Anyone, Never => catalogue::one;
    GET "/api/storefront/v1/collections" Who::Anyone, Never => catalogue::collections;
    GET "/api/storefront/v1/search" Who::Anyone, Never => catalogue::search;
    POST "/api/storefront/v1/carts" Who::Anyone, May => carts::create;
    GET "/api/storefront/v1/carts/{token}" Who::Holder, Never => carts::one;
    PUT "/api/storefront/v1/carts/{token}" Who::Holder, May => carts::change;
    DELETE "/api/storefront/v1/carts/{token}" Who::Holder, May => carts::cancel;
    POST "/api/storefront/v1/carts/{token}/items" Who::Holder, May => carts::add;
    PUT "/api/storefront/v1/carts/{token}/items/{item}" Who::Holder, May => carts::update;
    DELETE "/api/storefront/v1/carts/{token}/items/{item}" Who::Holder, May => carts::remove;
    POST "/api/storefront/v1/carts/{token}/coupon" Who::Holder, May => carts::coupon;
    DELETE "/api/storefront/v1/carts/{token}/coupon" Who::Holder, May => carts::no_coupon;
    POST "/api/storefront/v1/carts/{token}/checkout" Who::Holder, May => carts::checkout;
    GET "/api/storefront/v1/orders" READS, Never => orders::list;
    GET "/api/storefront/v1/orders/{token}" Who::Holder, Never => orders::one;
    POST "/api/storefront/v1/orders/{id}/fulfill" WRITES, May => orders::fulfil;
    POST "/api/storefront/v1/orders/{id}/cancel" WRITES, May => orders::cancel;
    POST "/api/storefront/v1/orders/{id}/refund" WRITES, May => orders::refund;
    POST "/api/storefront/v1/orders/{id}/return" WRITES, May => orders::give_back;
    POST "/api/ucp/v1/checkout-sessions" Who::Anyone, Must => sessions::create;
    GET "/api/ucp/v1/checkout-sessions/{id}" Who::Holder, Never => sessions::one;
    POST "/api/ucp/v1/checkout-sessions/{id}/complete" Who::Holder, Must => sessions::complete;
    POST "/api/ucp/v1/checkout-sessions/{id}/cancel" Who::Holder, Must => sessions::cancel;
    GET "/api/x402/product/{slug}/{id}" Who::Anyone, Never => x402::pay;
};

impl RouteRow for Route {
    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

static TABLE: LazyLock<RouteTable<Route>> = LazyLock::new(|| RouteTable::new(ROUTES));

/// The route of a request, and the parameters of its path.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static Route, Vec<Cow<'a, str>>), Error> {
    TABLE.find(verb, path).map_err(|error| match error {
        NoRoute::Path => {
            Error::new(Code::NOT_FOUND, "there is nothing at this address; docs/storefront.md tells which there are")
        }
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
            assert_eq!((refusal.code, refusal.allow.as_deref()), (Code::VERB, Some(allow)));
        }
        for nothing in
            ["/api/storefront/v1", "/api/storefront/v1/carts/", "/api/storefront/v1/orders//cancel", "/api/x402/%zz"]
        {
            assert_eq!(find(&Method::GET, nothing).err().unwrap().code, Code::NOT_FOUND, "{nothing}");
        }
    }
}
