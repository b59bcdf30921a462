//! The check of stock and money: both are computed from checkouts and orders and compared with the accounts. The market's
//! check covers the balance of the journal itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::records::read_fault;
use ledger::{AccountId, UserId};
use shop_rules::checkout::unit_of;
use shop_rules::order::book;
use shop_rules::stock::ACCOUNTS;
use shop_rules::{Order, Session, SessionStatus, StockPlace, Unit};

use crate::service::records::{self, ALL};
use crate::service::{Error, Shop};

const AT_ONCE: usize = 1_000;
/// Passes of the check: only a difference that every pass finds is reported.
const PASSES: u32 = 5;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShopReport {
    pub sessions: u64,
    pub orders: u64,
    /// Number of counted variants and coupons.
    pub units: u64,
    pub differences: Vec<ShopDifference>,
}

/// A difference, with a message for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShopDifference {
    #[error("{unit:?}: {stored} are {place:?}, but the rows say {expected}")]
    Stock { unit: Unit, place: StockPlace, stored: i64, expected: i64 },
    #[error("{unit:?}: its places sum to {sum}, not to zero")]
    NotZero { unit: Unit, sum: i64 },
    #[error("{account}: {stored} is on it, but the orders say {expected}")]
    Money { account: String, stored: i64, expected: i64 },
}

impl Shop {
    /// Compares stock and money with checkouts and orders. Sales in between look like differences, so the check is repeated,
    /// and only differences that every pass found are reported.
    pub async fn verify(&self) -> Result<ShopReport, Error> {
        let mut last: Option<ShopReport> = None;
        for _ in 0..PASSES {
            let mut report = self.check_once().await?;
            if let Some(last) = &last {
                report.differences.retain(|difference| last.differences.contains(difference));
            }
            if report.differences.is_empty() {
                return Ok(report);
            }
            last = Some(report);
        }
        Ok(last.unwrap_or_default())
    }

    async fn check_once(&self) -> Result<ShopReport, Error> {
        let mut report = ShopReport::default();
        let mut expected: BTreeMap<(Unit, StockPlace), i64> = BTreeMap::new();
        self.walk(records::SESSIONS, ALL, |session: Session| {
            report.sessions += 1;
            if session.status != SessionStatus::Open {
                return;
            }
            for item in session.items.iter().filter(|item| item.counted) {
                *expected.entry((unit_of(&session.site, item), StockPlace::Reserved)).or_default() +=
                    i64::from(item.quantity);
            }
            if let Some(coupon) = session.coupon.filter(|coupon| coupon.limit.is_some()) {
                let unit = Unit::Coupon { site: session.site, code: coupon.code };
                *expected.entry((unit, StockPlace::Reserved)).or_default() += 1;
            }
        })
        .await?;
        let mut money: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        self.walk(records::ORDERS, ALL, |order: Order| {
            report.orders += 1;
            let account = AccountId::available(&book(&order.currency), &UserId(order.workspace.0.clone()));
            let earned = if order.is_earned() { order.totals.total.0 } else { 0 };
            *money.entry(account.key().into()).or_default() += earned;
            if order.is_sold() {
                for item in order.lines.iter().map(|line| &line.item).filter(|item| item.counted) {
                    *expected.entry((unit_of(&order.site, item), StockPlace::Sold)).or_default() +=
                        i64::from(item.quantity);
                }
            }
        })
        .await?;
        self.compare(&mut report, &expected, &money).await?;
        Ok(report)
    }

    async fn compare(
        &self,
        report: &mut ShopReport,
        expected: &BTreeMap<(Unit, StockPlace), i64>,
        money: &BTreeMap<Arc<str>, i64>,
    ) -> Result<(), Error> {
        let mut stored: BTreeMap<Unit, BTreeMap<StockPlace, i64>> = BTreeMap::new();
        let mut after: Option<Arc<str>> = Some(ACCOUNTS.into());
        loop {
            let page = self.engine().store().accounts(after.take(), AT_ONCE).await.map_err(read_fault)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let mut is_past = false;
            for (account, balance) in &page {
                match Unit::of_account(account) {
                    Some((unit, place)) => drop(stored.entry(unit).or_default().insert(place, *balance)),
                    None => is_past |= !account.starts_with(ACCOUNTS),
                }
            }
            if is_past {
                break;
            }
        }
        report.units = stored.len() as u64;
        let units: std::collections::BTreeSet<&Unit> =
            stored.keys().chain(expected.keys().map(|(unit, _)| unit)).collect();
        for unit in units {
            let on =
                |place: StockPlace| stored.get(unit).and_then(|places| places.get(&place)).copied().unwrap_or_default();
            let sum: i64 = StockPlace::ALL.into_iter().map(on).sum();
            if sum != 0 {
                report.differences.push(ShopDifference::NotZero { unit: unit.clone(), sum });
            }
            let mut places = vec![StockPlace::Reserved];
            // The used coupons are not compared: an order does not store whether its coupon was counted.
            if matches!(unit, Unit::Variant { .. }) {
                places.push(StockPlace::Sold);
            }
            for place in places {
                let (stored, expected) = (on(place), expected.get(&(unit.clone(), place)).copied().unwrap_or_default());
                if stored != expected {
                    report.differences.push(ShopDifference::Stock { unit: unit.clone(), place, stored, expected });
                }
            }
        }
        let accounts: Vec<Arc<str>> = money.keys().cloned().collect();
        if accounts.is_empty() {
            return Ok(());
        }
        let balances = self.engine().store().balances(accounts).await.map_err(read_fault)?;
        for ((account, expected), stored) in money.iter().zip(balances) {
            if stored != *expected {
                let account = account.replace('\u{1f}', " ");
                report.differences.push(ShopDifference::Money { account, stored, expected: *expected });
            }
        }
        Ok(())
    }
}
