//! The shop's rows as records of the store.

use std::sync::Arc;

use ledger::Row;
use model::record::joined;
use model::{Expect, Listed, RecordChange, RecordQuery};
use shop::{
    Cart, Coupon, Order, OrderId, Product, ProductId, Session, SessionId, SessionStatus, Site, Slug, Workspace,
};

use crate::refused::unread;
use crate::{Refused, Shop};

/// The kinds of records the shop keeps.
pub(crate) mod kind {
    pub(crate) const WORKSPACE: &str = "shop/workspace";
    pub(crate) const SITE: &str = "shop/site";
    /// Which site a host of its own belongs to.
    pub(crate) const HOST: &str = "shop/host";
    pub(crate) const PRODUCT: &str = "shop/product";
    pub(crate) const COUPON: &str = "shop/coupon";
    pub(crate) const CART: &str = "shop/cart";
    pub(crate) const SESSION: &str = "shop/checkout";
    pub(crate) const ORDER: &str = "shop/order";
    pub(crate) const SECRET: &str = "shop/secret";
    pub(crate) const ONCE: &str = "shop/once";
}

/// The list of everything of a kind.
pub(crate) const ALL: &str = "all";
/// Carts by when they expire, the first first; and carts and checkouts that are over, by when they were.
pub(crate) const DUE: &str = "due";
pub(crate) const OVER: &str = "over";

pub(crate) fn product_key(site: &Slug, id: &ProductId) -> Arc<str> {
    joined(&[site.as_str(), id.as_str()])
}

pub(crate) fn coupon_key(site: &Slug, code: &str) -> Arc<str> {
    joined(&[site.as_str(), code])
}

/// Of products, carts that are open, and orders.
pub(crate) fn of_site(site: &Slug) -> Arc<str> {
    joined(&["site", site.as_str()])
}

pub(crate) fn listed(list: impl Into<Arc<str>>, rank: i64) -> Listed {
    Listed { list: list.into(), rank }
}

/// What a row expects of the one before it: its version, or that there is none.
pub(crate) fn after(version: u64) -> Expect {
    if version == 0 { Expect::Absent } else { Expect::Version(version) }
}

fn put<R: Row>(kind: &'static str, key: Arc<str>, version: u64, row: &R, lists: Vec<Listed>) -> RecordChange {
    RecordChange::Put { kind: kind.into(), key, expect: after(version), body: row.to_row().into(), lists }
}

pub(crate) fn put_workspace(row: &Workspace, version: u64) -> RecordChange {
    put(kind::WORKSPACE, row.id.0.clone(), version, row, vec![listed(ALL, row.created_at.0)])
}

pub(crate) fn put_site(row: &Site, version: u64) -> RecordChange {
    let lists =
        vec![listed(ALL, row.created_at.0), listed(joined(&["workspace", row.workspace.as_str()]), row.created_at.0)];
    put(kind::SITE, row.slug.0.clone(), version, row, lists)
}

/// Which site a host belongs to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Host {
    pub(crate) site: Slug,
}
impl Row for Host {
    const NAME: &'static str = "host";
}

pub(crate) fn put_host(host: &Arc<str>, row: &Host, version: u64) -> RecordChange {
    put(kind::HOST, host.clone(), version, row, vec![listed(ALL, 0)])
}

pub(crate) fn put_product(row: &Product, version: u64) -> RecordChange {
    let lists = vec![listed(of_site(&row.site), row.created_at.0)];
    put(kind::PRODUCT, product_key(&row.site, &row.id), version, row, lists)
}

pub(crate) fn put_coupon(row: &Coupon, version: u64) -> RecordChange {
    put(kind::COUPON, coupon_key(&row.site, &row.code), version, row, vec![listed(of_site(&row.site), 0)])
}

pub(crate) fn put_cart(key: &Arc<str>, row: &Cart, version: u64) -> RecordChange {
    let lists = if row.status.is_terminal() {
        vec![listed(OVER, row.updated_at.0.saturating_neg())]
    } else {
        vec![listed(DUE, row.expires_at.0.saturating_neg()), listed(of_site(&row.site), row.created_at.0)]
    };
    put(kind::CART, key.clone(), version, row, lists)
}

pub(crate) fn put_session(row: &Session, version: u64) -> RecordChange {
    let mut lists = vec![listed(ALL, row.created_at.0)];
    if row.status != SessionStatus::Open {
        lists.push(listed(OVER, row.updated_at.0.saturating_neg()));
    }
    put(kind::SESSION, row.id.0.clone(), version, row, lists)
}

pub(crate) fn put_order(row: &Order, version: u64) -> RecordChange {
    let at = row.created_at.0;
    put(kind::ORDER, row.id.0.clone(), version, row, vec![listed(ALL, at), listed(of_site(&row.site), at)])
}

pub(crate) fn leave(kind: &'static str, key: Arc<str>, version: u64) -> RecordChange {
    RecordChange::Leave { kind: kind.into(), key, expect: after(version) }
}

impl Shop {
    /// A row and its version.
    pub(crate) async fn read<R: Row>(
        &self,
        kind: &'static str,
        key: impl Into<Arc<str>>,
    ) -> Result<Option<(R, u64)>, Refused> {
        let found = self.engine().store().record(kind.into(), key.into()).await.map_err(unread)?;
        found.map(|record| Ok((row::<R>(&record.body)?, record.version))).transpose()
    }

    pub(crate) async fn read_session(&self, id: &SessionId) -> Result<Option<(Session, u64)>, Refused> {
        self.read(kind::SESSION, id.0.clone()).await
    }

    pub(crate) async fn read_order(&self, id: &OrderId) -> Result<Option<(Order, u64)>, Refused> {
        self.read(kind::ORDER, id.0.clone()).await
    }

    /// Every row of a list, a page at a time.
    pub(crate) async fn walk<R: Row>(
        &self,
        kind: &'static str,
        list: &str,
        mut each: impl FnMut(R),
    ) -> Result<(), Refused> {
        let mut after = None;
        loop {
            let query = RecordQuery { kind: kind.into(), list: list.into(), after, skip: 0, limit: 500, count: false };
            let page = self.engine().store().records(query).await.map_err(unread)?;
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            for (record, _) in &page.records {
                each(row(&record.body)?);
            }
            if !page.more || after.is_none() {
                return Ok(());
            }
        }
    }

    pub(crate) async fn count(&self, kind: &'static str, list: Arc<str>) -> Result<u64, Refused> {
        let query = RecordQuery { kind: kind.into(), list, after: None, skip: 0, limit: 1, count: true };
        let page = self.engine().store().records(query).await.map_err(unread)?;
        Ok(page.total.unwrap_or_default())
    }
}

pub(crate) fn row<R: Row>(body: &[u8]) -> Result<R, Refused> {
    R::from_row(body).map_err(|error| Refused::Fault(model::Fault::internal(error)))
}
