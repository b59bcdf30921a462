//! Carts: goods that a buyer has chosen, until the purchase or the expiry of the cart.
//!
//! An item has the price of the product when it was added or changed; a checkout reads the price again. A cart reserves no
//! stock: its checkout does.

use std::sync::Arc;

use model::Time;
use serde::{Deserialize, Serialize};

use crate::error::text;
use crate::site::SiteTerms;
use crate::{Coupon, Currency, Error, Minor, ProductId, SessionId, Site, Slug, Totals, VariantId, WorkspaceId};

pub const MAX_ITEMS: usize = 50;
pub const MAX_QUANTITY: u32 = 999;

/// Lifetimes of carts and checkouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShopRules {
    /// Time until a cart without changes expires.
    pub cart_ms: u64,
    /// Time until a checkout expires that is not completed.
    pub checkout_ms: u64,
}

impl Default for ShopRules {
    fn default() -> ShopRules {
        ShopRules { cart_ms: 24 * 3_600_000, checkout_ms: 30 * 60_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CartStatus {
    Active,
    /// Its stock is reserved, and it cannot change.
    Checkout,
    Completed,
    Expired,
    Cancelled,
}

impl CartStatus {
    pub fn name(self) -> &'static str {
        match self {
            CartStatus::Active => "active",
            CartStatus::Checkout => "checkout",
            CartStatus::Completed => "completed",
            CartStatus::Expired => "expired",
            CartStatus::Cancelled => "cancelled",
        }
    }
    pub fn is_terminal(self) -> bool {
        match self {
            CartStatus::Active | CartStatus::Checkout => false,
            CartStatus::Completed | CartStatus::Expired | CartStatus::Cancelled => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub product: ProductId,
    pub variant: VariantId,
    pub name: Arc<str>,
    #[serde(default)]
    pub options: Vec<(Arc<str>, Arc<str>)>,
    pub price: Minor,
    pub quantity: u32,
    pub digital: bool,
    pub counted: bool,
}

impl Item {
    fn is(&self, product: &ProductId, variant: Option<&VariantId>) -> bool {
        self.product == *product && variant.is_none_or(|variant| self.variant == *variant)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    pub site: Slug,
    pub workspace: WorkspaceId,
    pub currency: Currency,
    pub status: CartStatus,
    pub items: Vec<Item>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupon: Option<Coupon>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Arc<str>>,
    /// Its last checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    pub created_at: Time,
    pub updated_at: Time,
    pub expires_at: Time,
}

/// A change of a cart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CartAct {
    /// Adds a quantity; `left` is the available stock, if it is counted.
    Add {
        item: Item,
        left: Option<u64>,
    },
    /// Sets a quantity; zero removes the item.
    Update {
        product: ProductId,
        variant: Option<VariantId>,
        quantity: u32,
        left: Option<u64>,
    },
    Remove {
        product: ProductId,
        variant: Option<VariantId>,
    },
    Clear,
    Coupon(Coupon),
    NoCoupon,
    Email(Arc<str>),
    Cancel,
}

/// Checks an email address.
pub fn email(address: &str) -> Result<Arc<str>, Error> {
    let address = address.trim();
    text("email", address, 254)?;
    let fits = address.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.len() > 2 && host.contains('.') && !host.contains('@') && !host.starts_with('.')
    });
    if !fits || address.chars().any(char::is_whitespace) {
        let says = "must be an address such as \"ada@example.com\"".to_owned();
        return Err(Error::Field { field: "email", says });
    }
    Ok(address.into())
}

fn enough(item: &Item, left: Option<u64>) -> Result<(), Error> {
    match left.filter(|_| item.counted) {
        Some(left) if u64::from(item.quantity) > left => Err(Error::OutOfStock { what: item.name.to_string(), left }),
        Some(_) | None => Ok(()),
    }
}

impl Cart {
    pub fn open(site: &Site, now: Time, rules: &ShopRules) -> Cart {
        Cart {
            site: site.slug.clone(),
            workspace: site.workspace.clone(),
            currency: site.currency.clone(),
            status: CartStatus::Active,
            items: Vec::new(),
            coupon: None,
            email: None,
            session: None,
            created_at: now,
            updated_at: now,
            expires_at: now.plus_ms(rules.cart_ms),
        }
    }

    pub fn is_over(&self, now: Time) -> bool {
        !self.status.is_terminal() && self.expires_at <= now
    }

    pub fn totals(&self, terms: &SiteTerms, now: Time) -> Result<Totals, Error> {
        Totals::of(&self.items, self.coupon.as_ref(), terms, &self.currency, now)
    }

    fn subtotal(&self) -> Result<Minor, Error> {
        Ok(Totals::of(&self.items, None, &SiteTerms::default(), &self.currency, self.updated_at)?.subtotal)
    }

    /// Checks that it may change or be checked out.
    pub(crate) fn is_open(&self, now: Time) -> Result<(), Error> {
        match self.status {
            CartStatus::Active if self.expires_at <= now => Err(Error::CartExpired),
            CartStatus::Active => Ok(()),
            CartStatus::Checkout => Err(Error::CartInCheckout),
            CartStatus::Expired => Err(Error::CartExpired),
            CartStatus::Completed | CartStatus::Cancelled => Err(Error::CartClosed(self.status.name())),
        }
    }

    /// The cart after a change, with its expiry extended from now.
    pub fn act(&self, act: CartAct, now: Time, rules: &ShopRules) -> Result<Cart, Error> {
        self.is_open(now)?;
        let mut cart = self.clone();
        match act {
            CartAct::Add { item, left } => cart.add(item, left)?,
            CartAct::Update { product, variant, quantity, left } => {
                let place = cart.place(&product, variant.as_ref())?;
                if quantity == 0 {
                    cart.items.remove(place);
                } else {
                    let mut item = cart.items[place].clone();
                    item.quantity = quantity;
                    if quantity > MAX_QUANTITY {
                        return Err(Error::Quantity);
                    }
                    enough(&item, left)?;
                    cart.items[place] = item;
                }
            }
            CartAct::Remove { product, variant } => {
                let place = cart.place(&product, variant.as_ref())?;
                cart.items.remove(place);
            }
            CartAct::Clear => {
                cart.items.clear();
                cart.coupon = None;
            }
            CartAct::Coupon(coupon) => {
                coupon.is_good(cart.subtotal()?, &cart.currency, now)?;
                cart.coupon = Some(coupon);
            }
            CartAct::NoCoupon => cart.coupon = None,
            CartAct::Email(address) => cart.email = Some(email(&address)?),
            CartAct::Cancel => cart.status = CartStatus::Cancelled,
        }
        // Checks that the sum is within the range of amounts.
        cart.subtotal()?;
        cart.updated_at = now;
        cart.expires_at = now.plus_ms(rules.cart_ms);
        Ok(cart)
    }

    fn add(&mut self, item: Item, left: Option<u64>) -> Result<(), Error> {
        if item.quantity == 0 || item.quantity > MAX_QUANTITY {
            return Err(Error::Quantity);
        }
        match self.items.iter().position(|known| known.is(&item.product, Some(&item.variant))) {
            Some(place) => {
                let known = &mut self.items[place];
                let quantity = known.quantity.saturating_add(item.quantity);
                if quantity > MAX_QUANTITY {
                    return Err(Error::Quantity);
                }
                let item = Item { quantity, ..item };
                enough(&item, left)?;
                *known = item;
            }
            None if self.items.len() >= MAX_ITEMS => return Err(Error::TooManyItems(MAX_ITEMS)),
            None => {
                enough(&item, left)?;
                self.items.push(item);
            }
        }
        Ok(())
    }

    fn place(&self, product: &ProductId, variant: Option<&VariantId>) -> Result<usize, Error> {
        let mut places = self.items.iter().enumerate().filter(|(_, item)| item.is(product, variant));
        match (places.next(), places.next()) {
            (Some((place, _)), None) => Ok(place),
            (None, _) => Err(Error::NotInCart),
            (Some((_, item)), Some(_)) => {
                let of = self.items.iter().filter(|item| item.is(product, None));
                let ways = of.map(|item| format!("variant_id {}", item.variant)).collect::<Vec<_>>().join("; ");
                Err(Error::WhichVariant { what: item.name.to_string(), ways })
            }
        }
    }
}
