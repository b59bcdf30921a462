//! The shop's records: their kinds, keys and lists.

use std::sync::Arc;

use ledger::records::{RecordCollection, listed, unchanged};
use ledger::{Row, UsedKeys};
use model::RecordChange;
use model::record::joined;
use shop_rules::{
    Cart, Coupon, Order, OrderId, Product, ProductId, Session, SessionId, SessionStatus, Site, Slug, Workspace,
};

use crate::service::{Error, Shop};

pub(crate) const WORKSPACES: RecordCollection<Workspace> = RecordCollection::new("shop/workspace");
pub(crate) const SITES: RecordCollection<Site> = RecordCollection::new("shop/site");
/// Sites by host.
pub(crate) const HOSTS: RecordCollection<SiteHost> = RecordCollection::new("shop/host");
pub(crate) const PRODUCTS: RecordCollection<Product> = RecordCollection::new("shop/product");
pub(crate) const COUPONS: RecordCollection<Coupon> = RecordCollection::new("shop/coupon");
pub(crate) const CARTS: RecordCollection<Cart> = RecordCollection::new("shop/cart");
pub(crate) const SESSIONS: RecordCollection<Session> = RecordCollection::new("shop/checkout");
pub(crate) const ORDERS: RecordCollection<Order> = RecordCollection::new("shop/order");
pub(crate) const SECRET: &str = "shop/secret";
pub(crate) const USED_KEYS: UsedKeys = UsedKeys::new("shop/once");

/// The list of all records of a kind.
pub(crate) const ALL: &str = "all";
/// Open carts by expiry, the earliest first.
pub(crate) const DUE: &str = "due";
/// Ended carts and checkouts by their end.
pub(crate) const OVER: &str = "over";

pub(crate) fn product_key(site: &Slug, id: &ProductId) -> Arc<str> {
    joined(&[site.as_str(), id.as_str()])
}

pub(crate) fn coupon_key(site: &Slug, code: &str) -> Arc<str> {
    joined(&[site.as_str(), code])
}

/// The list of a site's products, open carts or orders.
pub(crate) fn of_site(site: &Slug) -> Arc<str> {
    joined(&["site", site.as_str()])
}

pub(crate) fn put_workspace(row: &Workspace, version: u64) -> RecordChange {
    WORKSPACES.put(row.id.0.clone(), unchanged(version), row, vec![listed(ALL, row.created_at.0)])
}

pub(crate) fn put_site(row: &Site, version: u64) -> RecordChange {
    let lists =
        vec![listed(ALL, row.created_at.0), listed(joined(&["workspace", row.workspace.as_str()]), row.created_at.0)];
    SITES.put(row.slug.0.clone(), unchanged(version), row, lists)
}

/// The site of a host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct SiteHost {
    pub(crate) site: Slug,
}
impl Row for SiteHost {
    const NAME: &'static str = "host";
}

pub(crate) fn put_host(host: &Arc<str>, row: &SiteHost, version: u64) -> RecordChange {
    HOSTS.put(host.clone(), unchanged(version), row, vec![listed(ALL, 0)])
}

pub(crate) fn put_product(row: &Product, version: u64) -> RecordChange {
    let lists = vec![listed(of_site(&row.site), row.created_at.0)];
    PRODUCTS.put(product_key(&row.site, &row.id), unchanged(version), row, lists)
}

pub(crate) fn put_coupon(row: &Coupon, version: u64) -> RecordChange {
    COUPONS.put(coupon_key(&row.site, &row.code), unchanged(version), row, vec![listed(of_site(&row.site), 0)])
}

pub(crate) fn put_cart(key: &Arc<str>, row: &Cart, version: u64) -> RecordChange {
    let lists = if row.status.is_terminal() {
        vec![listed(OVER, row.updated_at.0.saturating_neg())]
    } else {
        vec![listed(DUE, row.expires_at.0.saturating_neg()), listed(of_site(&row.site), row.created_at.0)]
    };
    CARTS.put(key.clone(), unchanged(version), row, lists)
}

pub(crate) fn put_session(row: &Session, version: u64) -> RecordChange {
    let mut lists = vec![listed(ALL, row.created_at.0)];
    if row.status != SessionStatus::Open {
        lists.push(listed(OVER, row.updated_at.0.saturating_neg()));
    }
    SESSIONS.put(row.id.0.clone(), unchanged(version), row, lists)
}

pub(crate) fn put_order(row: &Order, version: u64) -> RecordChange {
    let at = row.created_at.0;
    ORDERS.put(row.id.0.clone(), unchanged(version), row, vec![listed(ALL, at), listed(of_site(&row.site), at)])
}

impl Shop {
    /// A row and its version.
    pub(crate) async fn read<R: Row>(
        &self,
        collection: RecordCollection<R>,
        key: impl Into<Arc<str>>,
    ) -> Result<Option<(R, u64)>, Error> {
        Ok(collection.read(self.store(), key).await?)
    }

    pub(crate) async fn read_session(&self, id: &SessionId) -> Result<Option<(Session, u64)>, Error> {
        self.read(SESSIONS, id.0.clone()).await
    }

    pub(crate) async fn read_order(&self, id: &OrderId) -> Result<Option<(Order, u64)>, Error> {
        self.read(ORDERS, id.0.clone()).await
    }

    /// Visits every row of a list.
    pub(crate) async fn walk<R: Row>(
        &self,
        collection: RecordCollection<R>,
        list: &str,
        visit: impl FnMut(R),
    ) -> Result<(), Error> {
        Ok(collection.walk(self.store(), list, u64::MAX, visit).await?)
    }

    /// Number of records in a list.
    pub(crate) async fn count<R>(&self, collection: RecordCollection<R>, list: Arc<str>) -> Result<u64, Error> {
        Ok(collection.count(self.store(), list).await?)
    }
}
