//! Lists for operators: orders, open carts and stock, a page at a time.

use std::sync::Arc;

use ledger::records::{decode, read_fault};
use shop_rules::stock::StockPlace;
use shop_rules::{Cart, Order, OrderId, OrderState, Product, Slug};

use crate::service::catalogue::unit;
use crate::service::records::{self, ALL};
use crate::service::{Error, Shop};

/// Rows of one look at orders, and the most looks for one page.
const ROWS: u32 = 200;
const LOOKS: usize = 20;

/// The place in a list after which the next page begins: a rank and a key.
pub(crate) type ListPlace = (i64, Arc<str>);

/// A page of a list, and where the next begins.
#[derive(Clone, Debug)]
pub(crate) struct ShopRows<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<ListPlace>,
}

/// The orders that an operator asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderFilter<'a> {
    pub(crate) workspace: Option<&'a str>,
    pub(crate) site: Option<&'a Slug>,
    pub(crate) state: Option<OrderState>,
}

/// The units of a variant; none where its stock is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stock {
    pub(crate) available: i64,
    pub(crate) reserved: i64,
    pub(crate) sold: i64,
}

impl Shop {
    /// Orders, the newest first.
    pub(crate) async fn orders_page(
        &self,
        filter: OrderFilter<'_>,
        after: Option<ListPlace>,
        limit: usize,
    ) -> Result<ShopRows<Order>, Error> {
        let list: Arc<str> = filter.site.map_or_else(|| ALL.into(), records::of_site);
        let (mut rows, mut after) = (Vec::new(), after);
        for _ in 0..LOOKS {
            let page = records::ORDERS.records(self.store(), list.clone(), after.clone(), ROWS).await?;
            for (record, rank) in &page.records {
                if rows.len() == limit {
                    return Ok(ShopRows { rows, next: after });
                }
                after = Some((*rank, record.key.clone()));
                let order: Order = decode(&record.body)?;
                let is_wanted = filter.workspace.is_none_or(|own| order.workspace.as_str() == own)
                    && filter.state.is_none_or(|state| order.state == state);
                if is_wanted {
                    rows.push(order);
                }
            }
            if !page.more {
                return Ok(ShopRows { rows, next: None });
            }
        }
        Ok(ShopRows { rows, next: after })
    }

    pub(crate) async fn order_by_id(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        Ok(self.read_order(id).await?.map(|(order, _)| order))
    }

    /// Open carts of a site, the newest first.
    pub(crate) async fn carts_page(
        &self,
        site: &Slug,
        after: Option<ListPlace>,
        limit: u32,
    ) -> Result<ShopRows<Cart>, Error> {
        let page = records::CARTS.records(self.store(), records::of_site(site), after, limit).await?;
        let next = page.records.last().filter(|_| page.more).map(|(record, rank)| (*rank, record.key.clone()));
        let rows = page.records.iter().map(|(record, _)| decode(&record.body)).collect::<Result<_, _>>()?;
        Ok(ShopRows { rows, next })
    }

    /// Number of open carts of a site.
    pub(crate) async fn open_carts(&self, site: &Slug) -> Result<u64, Error> {
        self.count(records::CARTS, records::of_site(site)).await
    }

    /// Products of a site with the stock of each variant.
    pub(crate) async fn stock_page(
        &self,
        site: &Slug,
        after: Option<ListPlace>,
        limit: u32,
    ) -> Result<ShopRows<(Product, Vec<Option<Stock>>)>, Error> {
        let page = records::PRODUCTS.records(self.store(), records::of_site(site), after, limit).await?;
        let next = page.records.last().filter(|_| page.more).map(|(record, rank)| (*rank, record.key.clone()));
        let mut rows = Vec::new();
        for (record, _) in &page.records {
            let product: Product = decode(&record.body)?;
            let accounts = product.variants.iter().flat_map(|variant| {
                let unit = unit(&product, variant);
                [StockPlace::Available, StockPlace::Reserved, StockPlace::Sold].map(|place| unit.account(place))
            });
            let balances = self.store().balances(accounts.collect()).await.map_err(read_fault)?;
            let stock = product.variants.iter().zip(balances.chunks(3)).map(|(variant, of)| match of {
                [available, reserved, sold] if variant.counted => {
                    Some(Stock { available: *available, reserved: *reserved, sold: *sold })
                }
                _ => None,
            });
            let stock = stock.collect();
            rows.push((product, stock));
        }
        Ok(ShopRows { rows, next })
    }
}
