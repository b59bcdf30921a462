//! Statistics of the market: categories, prices, and the earnings of sellers.

use ledger::{RecordCollection, Row, Ut};
use market_rules::capability::PricingModel;
use market_rules::transaction::{Role, Status};
use market_rules::{Capability, CapabilityId, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::service::records::{self, ALL, PurchaseList};
use crate::service::{Error, Filter, Market, MarketCaller, Paging, offers};

/// Maximum number of rows that are read; older ones are not counted.
pub(crate) const LOOKED_AT: u32 = 10_000;
/// Minimum number of prices for a comparison.
const ENOUGH: u64 = 4;

/// Prices of similar capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceRange {
    pub median: Ut,
    /// The lower and the upper quartile.
    pub low: Ut,
    pub high: Ut,
    pub count: u64,
}

impl PriceRange {
    /// Whether a price is an outlier: further than 1.5 interquartile ranges below the lower or above the upper
    /// quartile. If all prices are equal, below half or above twice that price.
    pub fn anomaly(&self, price: Ut) -> Anomaly {
        if self.count < ENOUGH {
            return Anomaly::Unknown;
        }
        let [low, high, price] = [self.low, self.high, price].map(|amount| i128::from(amount.hundredths()) * 2);
        let (least, most) = match high - low {
            0 => (low / 2, high * 2),
            spread => (low - spread * 3 / 2, high + spread * 3 / 2),
        };
        match price {
            price if price < least => Anomaly::Low,
            price if price > most => Anomaly::High,
            _ => Anomaly::Normal,
        }
    }
}

/// The comparison of a price with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anomaly {
    Normal,
    Low,
    High,
    /// Too few prices for a comparison.
    Unknown,
}

impl Anomaly {
    pub const ALL: &'static [Anomaly] = &[Anomaly::Normal, Anomaly::Low, Anomaly::High, Anomaly::Unknown];
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::Normal => "normal",
            Anomaly::Low => "low",
            Anomaly::High => "high",
            Anomaly::Unknown => "unknown",
        }
    }
}

/// Sums of sales.
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

    /// The sum of both.
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

/// Public figures of the market.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Community {
    pub capabilities: u64,
    pub transactions: u64,
}

impl Market {
    /// Visits the newest rows of a list.
    pub(crate) async fn walk_rows<R: Row>(
        &self,
        collection: RecordCollection<R>,
        list: Arc<str>,
        visit: impl FnMut(R),
    ) -> Result<(), Error> {
        self.walk_first(collection, list, LOOKED_AT, visit).await
    }

    /// Visits the newest rows of a list, up to a limit.
    pub(crate) async fn walk_first<R: Row>(
        &self,
        collection: RecordCollection<R>,
        list: Arc<str>,
        most: u32,
        visit: impl FnMut(R),
    ) -> Result<(), Error> {
        Ok(collection.walk(self.store(), list, u64::from(most), visit).await?)
    }

    /// The categories on the market, with the number of capabilities in each.
    pub async fn categories(&self) -> Result<BTreeMap<Arc<str>, u64>, Error> {
        let mut found = BTreeMap::new();
        let list = offers::on_market(&self.config().tenant);
        self.walk_rows(records::CAPABILITIES, list, |one: Capability| {
            *found.entry(one.terms.category).or_default() += 1;
        })
        .await?;
        Ok(found)
    }

    /// Prices of capabilities of a category, a price model, or both.
    pub async fn prices(&self, category: Option<&str>, model: Option<PricingModel>) -> Result<PriceRange, Error> {
        let filter = Filter { category: category.map(Into::into), pricing_model: model, ..Filter::default() };
        let tenant = self.config().tenant.clone();
        let list = match category {
            Some(category) => offers::in_category(&tenant, category),
            None => offers::on_market(&tenant),
        };
        let mut prices = Vec::new();
        self.walk_rows(records::CAPABILITIES, list, |one: Capability| {
            if offers::fits(&one, &filter, &[]) {
                prices.push(one.terms.price);
            }
        })
        .await?;
        prices.sort_unstable();
        let at = |part: usize| prices.get(prices.len().saturating_sub(1) * part / 4).copied().unwrap_or(Ut::ZERO);
        Ok(PriceRange { median: at(2), low: at(1), high: at(3), count: prices.len() as u64 })
    }

    /// The caller's earnings by capability.
    pub async fn income(&self, caller: &MarketCaller) -> Result<BTreeMap<CapabilityId, Income>, Error> {
        let mut earned: BTreeMap<CapabilityId, Income> = BTreeMap::new();
        let list = records::purchases(Role::Seller, &caller.tenant, &caller.user, PurchaseList::Over(Status::Settled));
        self.walk_rows(records::TRANSACTIONS, list, |sale: Transaction| {
            earned.entry(sale.capability.clone()).or_default().add(&sale);
        })
        .await?;
        Ok(earned)
    }

    pub async fn community(&self) -> Result<Community, Error> {
        let one = Paging { page: 1, size: 1 };
        let capabilities = self.page(records::CAPABILITIES, offers::on_market(&self.config().tenant), one).await?;
        let transactions = self.page(records::TRANSACTIONS, ALL, one).await?;
        Ok(Community { capabilities: capabilities.total, transactions: transactions.total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_far_from_the_others_is_told() {
        let ut = |whole: i64| Ut::from_hundredths(whole * 100);
        let prices = PriceRange { median: ut(100), low: ut(80), high: ut(120), count: 4 };
        for (price, expected) in [
            (0, Anomaly::Low),
            (19, Anomaly::Low),
            (20, Anomaly::Normal),
            (100, Anomaly::Normal),
            (180, Anomaly::Normal),
            (181, Anomaly::High),
        ] {
            assert_eq!(prices.anomaly(ut(price)), expected, "{price}");
        }
        let alike = PriceRange { median: ut(100), low: ut(100), high: ut(100), count: 9 };
        for (price, expected) in
            [(49, Anomaly::Low), (50, Anomaly::Normal), (200, Anomaly::Normal), (201, Anomaly::High)]
        {
            assert_eq!(alike.anomaly(ut(price)), expected, "{price}");
        }
        assert_eq!(PriceRange { count: 3, ..prices }.anomaly(ut(1_000)), Anomaly::Unknown);
    }
}
