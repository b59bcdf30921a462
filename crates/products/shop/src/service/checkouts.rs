//! Checkouts: from a cart to an order. A journal entry that leaves no account below zero reserves the stock: among concurrent
//! buyers of the last units, as many succeed as there are units, each at the first attempt.

use std::sync::Arc;

use engine::CommitError;
use ledger::FreshKey;
use ledger::records::unchanged;
use model::ports::store::Conflict;
use shop_rules::{
    Buyer, CartToken, CheckoutInputs, CheckoutStep, ConfirmationToken, Order, Product, Session, SessionId,
    SessionStatus, Site, Slug, Unit, checkout,
};

use crate::service::carts::{ATTEMPTS, KeyScope, ShopKeyResult, is_stale};
use crate::service::records;
use crate::service::{Error, Once, Shop, ShopEntity, secret};

/// A new checkout. The token is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCheckout {
    pub session: Session,
    pub token: ConfirmationToken,
    /// Address of its checkout page.
    pub complete_url: String,
}

/// The error for a unit that is out of stock, or a coupon that is used up.
fn short(step: &CheckoutStep, account: &str, on_it: i64) -> shop_rules::Error {
    let left = u64::try_from(on_it).unwrap_or_default();
    match Unit::of_account(account) {
        Some((Unit::Variant { product, variant, .. }, _)) => {
            let item = step.cart.items.iter().find(|item| item.product == product && item.variant == variant);
            shop_rules::Error::OutOfStock {
                what: item.map_or_else(|| product.to_string(), |item| item.name.to_string()),
                left,
            }
        }
        Some((Unit::Coupon { code, .. }, _)) => shop_rules::Error::CouponUsedUp(code.to_string()),
        None => shop_rules::Error::Changed,
    }
}

impl Shop {
    fn begun(&self, session: Session, token: ConfirmationToken) -> OpenCheckout {
        let complete_url = self.url(&format!("/checkout/{}?token={}", session.id, token.as_str()));
        OpenCheckout { session, token, complete_url }
    }

    /// The token that a checkout's random text stands for.
    fn checkout_token(&self, drawn: &str) -> Result<ConfirmationToken, Error> {
        Ok(ConfirmationToken::draw(self.shared.secret.derive(&["checkout", drawn])?))
    }

    /// Begins a checkout: reads current prices and reserves stock.
    pub async fn checkout(&self, slug: &Slug, cart: &CartToken, once: Option<Once>) -> Result<OpenCheckout, Error> {
        let site = self.site(slug).await?;
        let key = cart.key();
        let repeat = async |made| match made {
            ShopKeyResult::Session { drawn } => {
                let token = self.checkout_token(&drawn)?;
                let found = self.read_session(&token.session()).await?;
                let (session, _) = found.ok_or(Error::Unknown(ShopEntity::Session))?;
                Ok(self.begun(session, token))
            }
            ShopKeyResult::Cart { .. } | ShopKeyResult::Changed | ShopKeyResult::Order => Err(Error::KeyReused),
        };
        let perform = |fresh| self.new_checkout(&site, key.clone(), fresh);
        self.perform_once(KeyScope::Token(&key), once.as_ref(), perform, repeat).await
    }

    async fn new_checkout(&self, site: &Site, key: Arc<str>, fresh: Option<FreshKey>) -> Result<OpenCheckout, Error> {
        let slug = &site.slug;
        let drawn = secret::draw_text()?;
        let token = self.checkout_token(&drawn)?;
        for _ in 0..ATTEMPTS {
            let (cart, version) = self.read_cart(slug, &key).await?;
            let rows = self.product_rows(slug, cart.items.iter().map(|item| &item.product)).await?;
            let coupon = match &cart.coupon {
                Some(had) => self.coupon(slug, &had.code).await?,
                None => None,
            };
            let products: Vec<Product> = rows.values().map(|(product, _)| product.clone()).collect();
            let ground = CheckoutInputs {
                site,
                key: key.clone(),
                products: &products,
                coupon: coupon.as_ref().map(|(coupon, _)| coupon),
            };
            let now = self.now();
            let step = checkout::begin(&cart, &ground, &token, now, &self.config().rules)?;
            // The commit fails if a row that the prices were computed from has changed.
            let mut beside: Vec<_> = rows
                .values()
                .map(|(product, version)| {
                    records::PRODUCTS.leave(records::product_key(slug, &product.id), unchanged(*version))
                })
                .collect();
            beside.extend(coupon.as_ref().map(|(coupon, version)| {
                records::COUPONS.leave(records::coupon_key(slug, &coupon.code), unchanged(*version))
            }));
            beside.extend(
                fresh.as_ref().map(|fresh| fresh.used_for(ShopKeyResult::Session { drawn: drawn.clone() }, now)),
            );
            match self.commit_step(&key, &step, (version, 0), beside).await {
                Ok(()) => {
                    self.shared.alarm.notify_one();
                    let session = step.session.ok_or(Error::Unknown(ShopEntity::Session))?;
                    return Ok(self.begun(session, token));
                }
                Err(CommitError::Met(Conflict::Funds(account, on_it))) => {
                    return Err(short(&step, &account, on_it).into());
                }
                Err(CommitError::Met(met)) if is_stale(&met) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// A checkout, for a holder of its token.
    pub async fn session(&self, id: &SessionId, token: &ConfirmationToken) -> Result<Session, Error> {
        if token.session() != *id {
            return Err(Error::Unknown(ShopEntity::Session));
        }
        let (session, _) = self.read_session(id).await?.ok_or(Error::Unknown(ShopEntity::Session))?;
        // Shown as expired at once; the expiry task stores it later.
        let over = session.status == SessionStatus::Open && session.expires_at <= self.now();
        Ok(if over { Session { status: SessionStatus::Expired, ..session } } else { session })
    }

    /// Completes a checkout: takes the payment, sells the reserved stock and creates the order. A token does this once.
    pub async fn complete(
        &self,
        id: &SessionId,
        token: &ConfirmationToken,
        buyer: &Buyer,
        once: Option<Once>,
    ) -> Result<Order, Error> {
        if token.session() != *id {
            return Err(Error::Unknown(ShopEntity::Session));
        }
        let repeat = async |made| match made {
            ShopKeyResult::Order => self.made_order(id).await,
            ShopKeyResult::Cart { .. } | ShopKeyResult::Changed | ShopKeyResult::Session { .. } => {
                Err(Error::KeyReused)
            }
        };
        let perform = |fresh| self.pay_and_sell(id, buyer, fresh);
        self.perform_once(KeyScope::Token(id.as_str()), once.as_ref(), perform, repeat).await
    }

    async fn pay_and_sell(&self, id: &SessionId, buyer: &Buyer, fresh: Option<FreshKey>) -> Result<Order, Error> {
        let buyer = buyer.check()?;
        let (session, _) = self.read_session(id).await?.ok_or(Error::Unknown(ShopEntity::Session))?;
        session.is_open(self.now())?;
        let paid = self.shared.payments.take(&session, &buyer).await?;
        let done = self.sell(id, &buyer, &paid, fresh.as_ref()).await;
        if done.is_err() {
            // A concurrent completion may have used this payment.
            let sold = self.read_order(&id.order()).await?.is_some_and(|(order, _)| order.paid == paid);
            if !sold {
                self.shared.payments.give_back(&session, &paid).await;
            }
        }
        done
    }

    async fn made_order(&self, id: &SessionId) -> Result<Order, Error> {
        let found = self.read_order(&id.order()).await?;
        found.map(|(order, _)| order).ok_or(Error::Unknown(ShopEntity::Order))
    }

    async fn sell(
        &self,
        id: &SessionId,
        buyer: &Buyer,
        paid: &shop_rules::Paid,
        fresh: Option<&FreshKey>,
    ) -> Result<Order, Error> {
        for _ in 0..ATTEMPTS {
            let (session, session_version) = self.read_session(id).await?.ok_or(Error::Unknown(ShopEntity::Session))?;
            let found = self.read(records::CARTS, session.cart.clone()).await?;
            let (cart, version) = found.ok_or(Error::Unknown(ShopEntity::Cart))?;
            let now = self.now();
            let step = session.complete(&cart, buyer, paid.clone(), now)?;
            let beside = fresh.map(|fresh| fresh.used_for(ShopKeyResult::Order, now)).into_iter().collect();
            match self.commit_step(&session.cart, &step, (version, session_version), beside).await {
                Ok(()) => return step.order.ok_or(Error::Unknown(ShopEntity::Order)),
                Err(CommitError::Met(met)) if is_stale(&met) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// Cancels a checkout: its stock is available again, and the cart can change.
    pub async fn cancel_checkout(&self, id: &SessionId, token: &ConfirmationToken) -> Result<Session, Error> {
        if token.session() != *id {
            return Err(Error::Unknown(ShopEntity::Session));
        }
        for _ in 0..ATTEMPTS {
            let (session, session_version) = self.read_session(id).await?.ok_or(Error::Unknown(ShopEntity::Session))?;
            let found = self.read(records::CARTS, session.cart.clone()).await?;
            let (cart, version) = found.ok_or(Error::Unknown(ShopEntity::Cart))?;
            let step = session.cancel(&cart, self.now(), &self.config().rules)?;
            match self.commit_step(&session.cart, &step, (version, session_version), Vec::new()).await {
                Ok(()) => return step.session.ok_or(Error::Unknown(ShopEntity::Session)),
                Err(CommitError::Met(met)) if is_stale(&met) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }
}
