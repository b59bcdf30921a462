//! A shop in memory: rows, stock, the journal. It takes a step whole or not at all, as a store does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::{Account, AccountId, EntryId, LedgerEntry, Ut};
use model::{Entry, Posting, Time};
use shop_rules::checkout::{self, unit_of};
use shop_rules::{
    Buyer, Cart, CartAct, CartToken, CheckoutInputs, ConfirmationToken, Coupon, Currency, Discount, Error, Minor, Move,
    Moves, Order, OrderAct, OrderId, Paid, Product, Session, SessionId, ShopRules, Site, SiteTerms, StockPlace, Unit,
    Variant,
};

pub(crate) const RULES: ShopRules = ShopRules { cart_ms: 1_000, checkout_ms: 300 };

/// The accounts after the entries that were posted. A posted entry is new and keeps every floor.
#[derive(Default)]
pub(crate) struct Books {
    accounts: BTreeMap<AccountId, Account>,
    entries: BTreeSet<EntryId>,
}

impl Books {
    fn post(&mut self, entry: &LedgerEntry) {
        assert!(self.entries.insert(entry.id().clone()), "{:?} is posted twice", entry.id());
        for floor in entry.floors() {
            assert!(self.balance(&floor.account) >= floor.at_least, "{floor:?}");
        }
        let posted = entry.post(|id| self.accounts.get(id).cloned()).unwrap();
        self.accounts.extend(posted.accounts.into_iter().map(|account| (account.id.clone(), account)));
    }

    pub(crate) fn balance(&self, account: &AccountId) -> Ut {
        self.accounts.get(account).map_or(Ut::ZERO, |account| account.balance)
    }

    /// The sum of all accounts: zero, because every entry sums to zero.
    pub(crate) fn sum(&self) -> i64 {
        self.accounts.values().map(|account| account.balance.hundredths()).sum()
    }
}

pub(crate) struct Bench {
    pub(crate) site: Site,
    pub(crate) products: Vec<Product>,
    pub(crate) coupons: Vec<Coupon>,
    pub(crate) now: Time,
    pub(crate) carts: BTreeMap<Arc<str>, Cart>,
    pub(crate) tokens: Vec<(Arc<str>, ConfirmationToken)>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) orders: BTreeMap<OrderId, Order>,
    pub(crate) accounts: BTreeMap<Arc<str>, i64>,
    entries: BTreeSet<uuid::Uuid>,
    pub(crate) book: Books,
    drawn: u8,
}

impl Bench {
    pub(crate) fn new(stock: &[u64]) -> Bench {
        let now = Time(1_775_721_600_000);
        let mut site = Site::new("acme".into(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), now);
        let tax = ledger::Rate::parse("0.19").unwrap();
        site.terms = SiteTerms { shipping: Minor(490), free_shipping_from: Some(Minor(5_000)), tax };
        let product = |n: usize| Product {
            site: "acme".into(),
            id: format!("p{n}").as_str().into(),
            name: format!("Hat {n}").into(),
            slug: format!("hat-{n}").as_str().into(),
            subtitle: "".into(),
            description: "".into(),
            price: Minor(333 * (n as i64 + 1)),
            media: Vec::new(),
            variants: vec![Variant::only(true)],
            tags: Vec::new(),
            digital: n == 0,
            downloads: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        let coupon = |code: &str, off, limit| Coupon {
            site: "acme".into(),
            code: code.into(),
            off,
            least: Minor(0),
            limit,
            expires_at: None,
        };
        let coupons = vec![
            coupon("THIRD", Discount::Percent(ledger::Rate::parse("0.333333").unwrap()), Some(2)),
            coupon("MUCH", Discount::Amount(Minor(1_000)), None),
        ];
        let mut bench = Bench {
            site,
            products: (0..stock.len()).map(product).collect(),
            coupons,
            now,
            carts: BTreeMap::new(),
            tokens: Vec::new(),
            sessions: BTreeMap::new(),
            orders: BTreeMap::new(),
            accounts: BTreeMap::new(),
            entries: BTreeSet::new(),
            book: Books::default(),
            drawn: 0,
        };
        let into = |unit: Unit, quantity| Move { unit, from: StockPlace::Outside, to: StockPlace::Available, quantity };
        let mut moves: Vec<Move> = stock
            .iter()
            .enumerate()
            .map(|(n, left)| {
                let product = &bench.products[n];
                into(unit_of(&"acme".into(), &product.item(&product.variants[0], 1)), *left)
            })
            .collect();
        moves.push(into(Unit::Coupon { site: "acme".into(), code: "THIRD".into() }, 2));
        let entry = Moves::new("import", moves).entry(now).unwrap();
        bench.post(&entry).unwrap();
        bench
    }

    /// Posts as a store does: no entry twice, no account below its floor.
    fn post(&mut self, entry: &Entry) -> Result<(), Arc<str>> {
        assert_eq!(entry.mistake(), None);
        let on = |account: &Arc<str>| self.accounts.get(account).copied().unwrap_or_default();
        let short =
            |posting: &&Posting| posting.floor.is_some_and(|floor| on(&posting.account) + posting.amount < floor);
        if let Some(short) = entry.postings.iter().find(short) {
            return Err(short.account.clone());
        }
        assert!(self.entries.insert(entry.id), "the same entry came twice");
        for posting in &entry.postings {
            *self.accounts.entry(posting.account.clone()).or_default() += posting.amount;
        }
        Ok(())
    }

    fn random(&mut self) -> [u8; 20] {
        self.drawn = self.drawn.wrapping_add(1);
        [self.drawn; 20]
    }

    fn take(&mut self, key: &Arc<str>, step: shop_rules::CheckoutStep) -> Result<(), Error> {
        if let Some(stock) = step.stock.as_ref().and_then(|moves| moves.entry(self.now)) {
            self.post(&stock).map_err(|_| Error::OutOfStock { what: "it".into(), left: 0 })?;
        }
        if let Some(money) = &step.money {
            self.book.post(money);
        }
        self.carts.insert(key.clone(), step.cart);
        if let Some(session) = step.session {
            self.sessions.insert(session.id.clone(), session);
        }
        if let Some(order) = step.order {
            assert!(self.orders.insert(order.id.clone(), order).is_none(), "an order came twice");
        }
        Ok(())
    }

    pub(crate) fn open(&mut self) {
        let token = CartToken::draw(self.random());
        self.carts.insert(token.key(), Cart::open(&self.site, self.now, &RULES));
    }

    pub(crate) fn key(&self, n: usize) -> Option<Arc<str>> {
        (!self.carts.is_empty()).then(|| self.carts.keys().nth(n % self.carts.len()).unwrap().clone())
    }

    pub(crate) fn act(&mut self, key: &Arc<str>, act: CartAct) -> Result<(), Error> {
        let cart = self.carts[key].act(act, self.now, &RULES)?;
        self.carts.insert(key.clone(), cart);
        Ok(())
    }

    pub(crate) fn begin(&mut self, key: &Arc<str>) -> Result<(), Error> {
        let token = ConfirmationToken::draw(self.random());
        let cart = &self.carts[key];
        let coupon = cart.coupon.as_ref().and_then(|had| self.coupons.iter().find(|known| known.code == had.code));
        let ground = CheckoutInputs { site: &self.site, key: key.clone(), products: &self.products, coupon };
        let step = checkout::begin(cart, &ground, &token, self.now, &RULES)?;
        self.take(key, step)?;
        self.tokens.push((key.clone(), token));
        Ok(())
    }

    pub(crate) fn complete(&mut self, n: usize) -> Option<Result<OrderId, Error>> {
        let (key, token) = self.tokens.get(n % self.tokens.len().max(1))?.clone();
        let session = self.sessions[&token.session()].clone();
        let buyer = Buyer { email: "ada@example.com".into(), ..Buyer::default() };
        let paid = Paid { method: "test".into(), reference: None };
        Some(session.complete(&self.carts[&key], &buyer, paid, self.now).and_then(|step| {
            self.take(&key, step)?;
            Ok(session.order_id())
        }))
    }

    pub(crate) fn cancel(&mut self, n: usize) -> Option<Result<(), Error>> {
        let (key, token) = self.tokens.get(n % self.tokens.len().max(1))?.clone();
        let session = self.sessions[&token.session()].clone();
        let step = session.cancel(&self.carts[&key], self.now, &RULES);
        Some(step.and_then(|step| self.take(&key, step)))
    }

    /// Advances the time and expires what is due.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        let keys: Vec<Arc<str>> = self.carts.keys().cloned().collect();
        for key in keys {
            let cart = &self.carts[&key];
            let session = cart.session.as_ref().map(|id| &self.sessions[id]);
            if let Some(step) = checkout::expire(cart, session, self.now) {
                self.take(&key, step).unwrap();
            }
        }
    }

    pub(crate) fn order(&mut self, n: usize, act: &OrderAct) -> Option<Result<(), Error>> {
        let id = self.orders.keys().nth(n % self.orders.len().max(1))?.clone();
        Some(self.orders[&id].act(act, self.now).map(|step| {
            if let Some(stock) = step.stock.as_ref().and_then(|moves| moves.entry(self.now)) {
                self.post(&stock).unwrap();
            }
            if let Some(money) = &step.money {
                self.book.post(money);
            }
            self.orders.insert(id, step.order);
        }))
    }

    pub(crate) fn on(&self, unit: &Unit, place: StockPlace) -> i64 {
        self.accounts.get(&unit.account(place)).copied().unwrap_or_default()
    }
}
