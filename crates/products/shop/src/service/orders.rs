//! Orders: reading, and the shop's actions on them.

use engine::{CommitError, SideWrites};
use ledger::FreshKey;
use ledger::records::decode;
use shop_rules::{ConfirmationToken, Order, OrderAct, OrderId, Product, Session, Slug};

use crate::service::carts::{ATTEMPTS, KeyScope, ShopKeyResult, is_stale};
use crate::service::records;
use crate::service::{Error, Once, Shop, ShopEntity, WorkspaceCaller};

/// The purchase behind a confirmation token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bought {
    /// An order, and those of its products that still exist.
    Order { order: Box<Order>, products: Vec<Product> },
    /// A checkout without an order, or without one yet.
    NotYet(Box<Session>),
}

impl Shop {
    /// The purchase behind a confirmation token.
    pub async fn order(&self, token: &ConfirmationToken) -> Result<Bought, Error> {
        let id = token.session();
        if let Some((order, _)) = self.read_order(&id.order()).await? {
            let rows = self.product_rows(&order.site, order.lines.iter().map(|line| &line.item.product)).await?;
            let products =
                order.lines.iter().filter_map(|line| rows.get(&line.item.product)).map(|(row, _)| row.clone());
            let mut shown: Vec<Product> = Vec::new();
            for product in products {
                if !shown.iter().any(|known| known.id == product.id) {
                    shown.push(product);
                }
            }
            return Ok(Bought::Order { order: Box::new(order), products: shown });
        }
        let session = self.session(&id, token).await.map_err(|refused| match refused {
            Error::Unknown(ShopEntity::Session) => Error::Unknown(ShopEntity::Order),
            refused => refused,
        })?;
        Ok(Bought::NotYet(Box::new(session)))
    }

    /// Orders of a site, the newest first, for a caller of its workspace.
    pub async fn orders(
        &self,
        caller: &WorkspaceCaller,
        slug: &Slug,
        after: Option<(i64, OrderId)>,
        limit: u32,
    ) -> Result<Vec<Order>, Error> {
        if self.site(slug).await?.workspace != caller.workspace {
            return Err(Error::Workspace);
        }
        let after = after.map(|(rank, id)| (rank, id.0));
        let (list, limit) = (records::of_site(slug), limit.clamp(1, 100));
        let page = records::ORDERS.records(self.store(), list, after, limit).await?;
        page.records.iter().map(|(record, _)| Ok(decode(&record.body)?)).collect()
    }

    /// Performs a shop's action on one of its orders.
    pub async fn act_on_order(&self, caller: &WorkspaceCaller, id: &OrderId, act: &OrderAct) -> Result<Order, Error> {
        self.act_on_order_once(caller, id, act, None).await
    }

    /// The same; with `once`, a repeat changes nothing.
    pub async fn act_on_order_once(
        &self,
        caller: &WorkspaceCaller,
        id: &OrderId,
        act: &OrderAct,
        once: Option<Once>,
    ) -> Result<Order, Error> {
        let repeat = async |made| match made {
            ShopKeyResult::Order => {
                let found = self.read_order(id).await?.filter(|(order, _)| order.workspace == caller.workspace);
                found.map(|(order, _)| order).ok_or(Error::Unknown(ShopEntity::Order))
            }
            ShopKeyResult::Cart { .. } | ShopKeyResult::Changed | ShopKeyResult::Session { .. } => {
                Err(Error::KeyReused)
            }
        };
        let perform = |fresh| self.changed_order(caller, id, act, fresh);
        self.perform_once(KeyScope::Workspace(caller), once.as_ref(), perform, repeat).await
    }

    async fn changed_order(
        &self,
        caller: &WorkspaceCaller,
        id: &OrderId,
        act: &OrderAct,
        fresh: Option<FreshKey>,
    ) -> Result<Order, Error> {
        for _ in 0..ATTEMPTS {
            let found = self.read_order(id).await?.filter(|(order, _)| order.workspace == caller.workspace);
            let (order, version) = found.ok_or(Error::Unknown(ShopEntity::Order))?;
            let now = self.now();
            let step = order.act(act, now)?;
            let stock = step.stock.as_ref().and_then(|moves| moves.entry(now));
            let money = step.money.as_ref().map(ledger::entry::entry);
            let mut records = vec![records::put_order(&step.order, version)];
            records.extend(fresh.as_ref().map(|fresh| fresh.used_for(ShopKeyResult::Order, now)));
            let along =
                SideWrites { records, entries: stock.into_iter().chain(money).collect(), ..SideWrites::default() };
            match self.engine().keep(along).await {
                Ok(()) => return Ok(step.order),
                Err(CommitError::Met(met)) if is_stale(&met) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }
}
