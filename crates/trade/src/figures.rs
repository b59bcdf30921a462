//! What the market can tell of itself: its categories, its prices, and what sellers have earned.

use std::collections::BTreeMap;
use std::sync::Arc;

use market::capability::PricingModel;
use market::transaction::{Role, Status};
use market::{Capability, CapabilityId, Row, Transaction, Ut};
use model::RecordQuery;

use crate::kept::{self, ALL, Standing, kind, row};
use crate::refused::unread;
use crate::{Caller, Filter, Market, Paging, Refused, offers};

/// Rows that are looked at, at most: what is older is not counted.
pub(crate) const LOOKED_AT: u32 = 10_000;
const AT_A_TIME: u32 = 200;

/// What others ask for the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    pub median: Ut,
    /// A quarter is cheaper, and a quarter dearer.
    pub low: Ut,
    pub high: Ut,
    pub count: u64,
}

/// What sales have come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Income {
    pub sales: u64,
    pub gross: Ut,
    pub commission: Ut,
    pub net: Ut,
}

impl Income {
    fn add(&mut self, sale: &Transaction) {
        self.sales += 1;
        self.gross = self.gross.plus(sale.price).unwrap_or(self.gross);
        self.commission = self.commission.plus(sale.commission).unwrap_or(self.commission);
        self.net = self.gross.minus(self.commission).unwrap_or(self.net);
    }

    /// Both together.
    pub fn with(&self, other: &Income) -> Income {
        let sum = |a: Ut, b: Ut| a.plus(b).unwrap_or(a);
        Income {
            sales: self.sales + other.sales,
            gross: sum(self.gross, other.gross),
            commission: sum(self.commission, other.commission),
            net: sum(self.net, other.net),
        }
    }
}

/// For anybody to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Community {
    pub capabilities: u64,
    pub transactions: u64,
}

impl Market {
    /// Shows every row of a list, the newest first, up to a bound.
    pub(crate) async fn walk_rows<R: Row>(
        &self,
        kind: &'static str,
        list: Arc<str>,
        mut see: impl FnMut(R),
    ) -> Result<(), Refused> {
        let (mut looked_at, mut after) = (0_u32, None);
        while looked_at < LOOKED_AT {
            let (kind, list) = (kind.into(), list.clone());
            let query = RecordQuery { kind, list, after, skip: 0, limit: AT_A_TIME, count: false };
            let page = self.engine().store().records(query).await.map_err(unread)?;
            looked_at += page.records.len() as u32;
            for (record, _) in &page.records {
                see(row::<R>(&record.body)?);
            }
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            if !page.more || after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The categories on the market, with how much is in each.
    pub async fn categories(&self) -> Result<BTreeMap<Arc<str>, u64>, Refused> {
        let mut found = BTreeMap::new();
        let list = offers::on_market(&self.config().tenant);
        self.walk_rows(kind::CAPABILITY, list, |one: Capability| *found.entry(one.terms.category).or_default() += 1)
            .await?;
        Ok(found)
    }

    /// What is asked for capabilities of a category, a price model, or both.
    pub async fn prices(&self, category: Option<&str>, model: Option<PricingModel>) -> Result<Prices, Refused> {
        let filter = Filter { category: category.map(Into::into), pricing_model: model, ..Filter::default() };
        let tenant = self.config().tenant.clone();
        let list = match category {
            Some(category) => offers::in_category(&tenant, category),
            None => offers::on_market(&tenant),
        };
        let mut prices = Vec::new();
        self.walk_rows(kind::CAPABILITY, list, |one: Capability| {
            if offers::fits(&one, &filter, &[]) {
                prices.push(one.terms.price);
            }
        })
        .await?;
        prices.sort_unstable();
        let at = |part: usize| prices.get(prices.len().saturating_sub(1) * part / 4).copied().unwrap_or(Ut::ZERO);
        Ok(Prices { median: at(2), low: at(1), high: at(3), count: prices.len() as u64 })
    }

    /// What the caller has earned: with each of its capabilities.
    pub async fn income(&self, caller: &Caller) -> Result<BTreeMap<CapabilityId, Income>, Refused> {
        let mut earned: BTreeMap<CapabilityId, Income> = BTreeMap::new();
        let list = kept::purchases(Role::Seller, &caller.tenant, &caller.user, Standing::Over(Status::Settled));
        self.walk_rows(kind::TRANSACTION, list, |sale: Transaction| {
            earned.entry(sale.capability.clone()).or_default().add(&sale);
        })
        .await?;
        Ok(earned)
    }

    pub async fn community(&self) -> Result<Community, Refused> {
        let one = Paging { page: 1, size: 1 };
        let capabilities =
            self.page::<Capability>(kind::CAPABILITY, offers::on_market(&self.config().tenant), one).await?;
        let transactions = self.page::<Transaction>(kind::TRANSACTION, ALL, one).await?;
        Ok(Community { capabilities: capabilities.total, transactions: transactions.total })
    }
}
