//! Creation, reading, change and expiry of carts.

use std::sync::Arc;

use engine::{CommitError, SideWrites};
use ledger::records::read_fault;
use ledger::{FreshKey, KeyState, PriorUse, perform_once};
use model::RecordChange;
use model::ports::store::Conflict;
use serde::{Deserialize, Serialize};
use shop_rules::{
    Cart, CartAct, CartToken, ProductId, Site, Slug, StockPlace, Totals, VariantChoice, VariantId, checkout, coupon,
};

use crate::service::records;
use crate::service::{Error, Once, Shop, ShopEntity, WorkspaceCaller, secret};

pub(crate) const ATTEMPTS: u32 = 32;
/// Most open carts of a site, so that carts cannot fill the store.
const MOST_OPEN: u64 = 100_000;
/// Time that a count of them is used for.
const COUNTED_MS: i64 = 5_000;

/// A cart with its token and totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCart {
    pub token: CartToken,
    pub cart: Cart,
    pub totals: Totals,
}

/// A caller's change of a cart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CartChange {
    Add { product: ProductId, which: VariantChoice, quantity: u32 },
    Update { product: ProductId, variant: Option<VariantId>, quantity: u32 },
    Remove { product: ProductId, variant: Option<VariantId> },
    Clear,
    Coupon { code: String },
    NoCoupon,
    Email { address: String },
    Cancel,
}

/// The stored result of a request with an idempotency key. A token is not stored: it is derived from the random text
/// `drawn` with the server's secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShopKeyResult {
    Cart { drawn: String },
    Changed,
    Session { drawn: String },
    Order,
}

/// The scope of idempotency keys: the keys of a workspace, or of a token's holder, mean nothing elsewhere.
pub(crate) enum KeyScope<'a> {
    Workspace(&'a WorkspaceCaller),
    Token(&'a str),
}

/// Whether a step that met this conflict reads again and tries again. The record of the request's own key is not such a
/// conflict: a repeat of the request was faster.
pub(crate) fn is_stale(met: &Conflict) -> bool {
    match met {
        Conflict::Record(kind, ..) => !records::USED_KEYS.is(kind),
        met => matches!(met, Conflict::Entry(_)),
    }
}

impl Shop {
    async fn key_state(&self, scope: &KeyScope<'_>, once: Option<&Once>) -> Result<KeyState<ShopKeyResult>, Error> {
        let Some(once) = once else { return Ok(KeyState::Fresh(None)) };
        let scope: &[&str] = match scope {
            KeyScope::Workspace(caller) => &["workspace", caller.workspace.as_str()],
            KeyScope::Token(key) => &["token", key],
        };
        match records::USED_KEYS.lookup(self.store(), scope, once, self.engine().keys_since()).await? {
            PriorUse::Unused(fresh) => Ok(KeyState::Fresh(Some(fresh))),
            PriorUse::Same(made) => Ok(KeyState::Used(made)),
            PriorUse::Different => Err(Error::KeyReused),
        }
    }

    /// Performs a request once for its key; [`perform_once`] says how. `repeat` makes the answer from the first result.
    pub(crate) async fn perform_once<T, P, R>(
        &self,
        scope: KeyScope<'_>,
        once: Option<&Once>,
        perform: impl FnOnce(Option<FreshKey>) -> P,
        repeat: impl FnOnce(ShopKeyResult) -> R,
    ) -> Result<T, Error>
    where
        P: Future<Output = Result<T, Error>>,
        R: Future<Output = Result<T, Error>>,
    {
        perform_once(|| self.key_state(&scope, once), perform, repeat).await
    }

    /// Creates a cart. The idempotency key counts only with a credential: callers without one share no scope for keys.
    pub async fn create_cart(
        &self,
        caller: Option<&WorkspaceCaller>,
        slug: &Slug,
        once: Option<Once>,
    ) -> Result<OpenCart, Error> {
        let site = self.site(slug).await?;
        if caller.is_some_and(|caller| caller.workspace != site.workspace) {
            return Err(Error::Workspace);
        }
        let Some(caller) = caller else { return self.new_cart(&site, None).await };
        let repeat = async |made| match made {
            ShopKeyResult::Cart { drawn } => self.cart(slug, &self.cart_token(&drawn)?).await,
            ShopKeyResult::Changed | ShopKeyResult::Session { .. } | ShopKeyResult::Order => Err(Error::KeyReused),
        };
        let scope = KeyScope::Workspace(caller);
        self.perform_once(scope, once.as_ref(), |fresh| self.new_cart(&site, fresh), repeat).await
    }

    /// The token that a cart's random text stands for. The token is not stored.
    fn cart_token(&self, drawn: &str) -> Result<CartToken, Error> {
        Ok(CartToken::draw(self.shared.secret.derive(&["cart", drawn])?))
    }

    async fn new_cart(&self, site: &Site, fresh: Option<FreshKey>) -> Result<OpenCart, Error> {
        let drawn = secret::draw_text()?;
        let token = self.cart_token(&drawn)?;
        self.check_cart_limit(&site.slug).await?;
        let now = self.now();
        let cart = Cart::open(site, now, &self.config().rules);
        let mut records = vec![records::put_cart(&token.key(), &cart, 0)];
        records.extend(fresh.map(|fresh| fresh.used_for(ShopKeyResult::Cart { drawn }, now)));
        self.engine().keep(SideWrites { records, ..SideWrites::default() }).await?;
        self.shared.alarm.notify_one();
        let totals = cart.totals(&site.terms, now)?;
        Ok(OpenCart { token, cart, totals })
    }

    async fn check_cart_limit(&self, site: &Slug) -> Result<(), Error> {
        let now = self.now();
        let known = self.shared.open.lock().get(site).copied();
        let open = match known {
            Some((open, at)) if now.0.saturating_sub(at.0) < COUNTED_MS => (open + 1, at),
            Some(_) | None => (self.count(records::CARTS, records::of_site(site)).await? + 1, now),
        };
        self.shared.open.lock().insert(site.clone(), open);
        if open.0 > MOST_OPEN { Err(Error::TooManyCarts) } else { Ok(()) }
    }

    /// A stored cart and its version. A cart whose time is over is expired first.
    pub(crate) async fn read_cart(&self, site: &Slug, key: &Arc<str>) -> Result<(Cart, u64), Error> {
        for _ in 0..ATTEMPTS {
            let found = self.read(records::CARTS, key.clone()).await?;
            // A cart of another site is not found.
            let Some((cart, version)) = found.filter(|(cart, _)| cart.site == *site) else {
                return Err(Error::Unknown(ShopEntity::Cart));
            };
            if !cart.is_over(self.now()) {
                return Ok((cart, version));
            }
            self.expire(key).await?;
        }
        Err(shop_rules::Error::Changed.into())
    }

    pub async fn cart(&self, slug: &Slug, token: &CartToken) -> Result<OpenCart, Error> {
        let site = self.site(slug).await?;
        let (cart, _) = self.read_cart(slug, &token.key()).await?;
        let totals = cart.totals(&site.terms, self.now())?;
        Ok(OpenCart { token: token.clone(), cart, totals })
    }

    /// The site of a cart, for a holder of its token.
    pub async fn site_of_cart(&self, token: &CartToken) -> Result<Slug, Error> {
        let found = self.read(records::CARTS, token.key()).await?;
        found.map(|(cart, _)| cart.site).ok_or(Error::Unknown(ShopEntity::Cart))
    }

    pub async fn change_cart(
        &self,
        slug: &Slug,
        token: &CartToken,
        change: &CartChange,
        once: Option<Once>,
    ) -> Result<OpenCart, Error> {
        let site = self.site(slug).await?;
        let key = token.key();
        let repeat = async |made| match made {
            ShopKeyResult::Changed => self.cart(slug, token).await,
            ShopKeyResult::Cart { .. } | ShopKeyResult::Session { .. } | ShopKeyResult::Order => Err(Error::KeyReused),
        };
        let perform = |fresh| self.changed_cart(&site, token, change, fresh);
        self.perform_once(KeyScope::Token(&key), once.as_ref(), perform, repeat).await
    }

    async fn changed_cart(
        &self,
        site: &Site,
        token: &CartToken,
        change: &CartChange,
        fresh: Option<FreshKey>,
    ) -> Result<OpenCart, Error> {
        let key = token.key();
        for _ in 0..ATTEMPTS {
            let (cart, version) = self.read_cart(&site.slug, &key).await?;
            let act = self.act_of(site, &cart, change).await?;
            let now = self.now();
            let cart = cart.act(act, now, &self.config().rules)?;
            let mut records = vec![records::put_cart(&key, &cart, version)];
            records.extend(fresh.as_ref().map(|fresh| fresh.used_for(ShopKeyResult::Changed, now)));
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => {
                    let totals = cart.totals(&site.terms, now)?;
                    return Ok(OpenCart { token: token.clone(), cart, totals });
                }
                Err(CommitError::Met(met)) if is_stale(&met) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// The change with the data that the rules need for it: products, coupons, available stock.
    async fn act_of(&self, site: &Site, cart: &Cart, change: &CartChange) -> Result<CartAct, Error> {
        Ok(match change {
            CartChange::Add { product, which, quantity } => {
                let goods = self.product(&site.slug, product).await?;
                let variant = goods.product.variant(which)?;
                let place = goods.product.variants.iter().position(|known| known.id == variant.id);
                let left = place.and_then(|place| goods.left.get(place).copied().flatten());
                CartAct::Add { item: goods.product.item(variant, *quantity), left }
            }
            CartChange::Update { product, variant, quantity } => {
                let mut items = cart.items.iter().filter(|item| {
                    item.product == *product && variant.as_ref().is_none_or(|variant| item.variant == *variant)
                });
                let left = match items.next().filter(|item| item.counted) {
                    Some(item) => Some(self.left(&site.slug, item).await?),
                    None => None,
                };
                let (product, variant) = (product.clone(), variant.clone());
                CartAct::Update { product, variant, quantity: *quantity, left }
            }
            CartChange::Remove { product, variant } => {
                CartAct::Remove { product: product.clone(), variant: variant.clone() }
            }
            CartChange::Clear => CartAct::Clear,
            CartChange::Coupon { code } => {
                let code = coupon::code(code)?;
                let found = self.coupon(&site.slug, &code).await?;
                let (coupon, _) = found.ok_or_else(|| shop_rules::Error::NoCoupon(code.to_string()))?;
                CartAct::Coupon(coupon)
            }
            CartChange::NoCoupon => CartAct::NoCoupon,
            CartChange::Email { address } => CartAct::Email(address.as_str().into()),
            CartChange::Cancel => CartAct::Cancel,
        })
    }

    async fn left(&self, site: &Slug, item: &shop_rules::Item) -> Result<u64, Error> {
        let account = checkout::unit_of(site, item).account(StockPlace::Available);
        let left = self.engine().store().balances(vec![account]).await.map_err(read_fault)?;
        Ok(left.first().map_or(0, |n| u64::try_from(*n).unwrap_or_default()))
    }

    /// Expires a cart with its checkout. A conflict means that a concurrent change did it or made it unnecessary.
    pub(crate) async fn expire(&self, key: &Arc<str>) -> Result<(), Error> {
        let Some((cart, version)) = self.read(records::CARTS, key.clone()).await? else { return Ok(()) };
        let session = match &cart.session {
            Some(id) => self.read_session(id).await?,
            None => None,
        };
        let Some(step) = checkout::expire(&cart, session.as_ref().map(|(row, _)| row), self.now()) else {
            return Ok(());
        };
        let versions = (version, session.map_or(0, |(_, version)| version));
        match self.commit_step(key, &step, versions, Vec::new()).await {
            Ok(()) | Err(CommitError::Met(Conflict::Record(..) | Conflict::Entry(_))) => Ok(()),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// Commits a step. If the outcome of a commit is unknown, the engine reads its first record back.
    pub(crate) async fn commit_step(
        &self,
        key: &Arc<str>,
        step: &shop_rules::CheckoutStep,
        (cart_version, session_version): (u64, u64),
        beside: Vec<RecordChange>,
    ) -> Result<(), CommitError> {
        let mut records = Vec::new();
        records.extend(step.order.as_ref().map(|order| records::put_order(order, 0)));
        records.extend(step.session.as_ref().map(|session| records::put_session(session, session_version)));
        records.push(records::put_cart(key, &step.cart, cart_version));
        records.extend(beside);
        let stock = step.stock.as_ref().and_then(|moves| moves.entry(step.cart.updated_at));
        let money = step.money.as_ref().map(ledger::entry::entry);
        let entries = stock.into_iter().chain(money).collect();
        self.engine().keep(SideWrites { records, entries, ..SideWrites::default() }).await
    }
}
