//! The rules of shops: catalogues, carts, checkouts, orders, and the skills of a store agent.
//!
//! This crate is pure: no I/O, no clock, no randomness, no wire. Time and random bytes are arguments. The result is a new
//! value or an [`Error`]; a [`CheckoutStep`] or [`OrderStep`] has all changes that must be committed together.
//!
//! | module | content |
//! |---|---|
//! | [`ids`], [`money`] | ids, secret tokens, amounts |
//! | [`site`], [`product`], [`coupon`] | the catalogue of a site and its terms |
//! | [`import`] | reading of catalogues in JSON and CSV |
//! | [`stock`] | quantities by place, and their moves |
//! | [`cart`], [`checkout`], [`order`] | from a cart to a sale, and the states of an order |
//! | [`search`] | the terms of a search |
//! | [`intent`], [`skill`] | the request in a message, and the work it needs |
//! | [`reply`], [`view`] | replies of skills, and JSON views |
//!
//! A sale:
//!
//! ```
//! use model::Time;
//! use shop_rules::{Buyer, Cart, CartAct, CartToken, ConfirmationToken, Currency, CheckoutInputs, Paid, ShopRules, Site, checkout, import};
//!
//! let (now, rules) = (Time(1_775_721_600_000), ShopRules::default());
//! let site = Site::new("acme".into(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), now);
//! let csv = "id,name,price,stock\nhat,Sun hat,19.90,5\n";
//! let catalogue = import::read(&site, import::CatalogueFormat::Csv, csv, now).unwrap();
//! let hat = &catalogue.products[0].product;
//!
//! let item = hat.item(&hat.variants[0], 2);
//! let cart = Cart::open(&site, now, &rules).act(CartAct::Add { item, left: Some(5) }, now, &rules).unwrap();
//! let (key, token) = (CartToken::draw([1; 20]).key(), ConfirmationToken::draw([2; 20]));
//! let products = [hat.clone()];
//! let ground = CheckoutInputs { site: &site, key, products: &products, coupon: None };
//! let begun = checkout::begin(&cart, &ground, &token, now, &rules).unwrap();
//! let (session, cart) = (begun.session.unwrap(), begun.cart);
//! assert_eq!(site.currency.say(session.totals.total), "39.80 USD");
//!
//! let buyer = Buyer { email: "ada@example.com".into(), ..Buyer::default() };
//! let paid = Paid { method: "page".into(), reference: None };
//! let sold = session.complete(&cart, &buyer, paid, now).unwrap();
//! assert_eq!(sold.order.unwrap().state.name(), "pending");
//! ```

pub mod cart;
pub mod checkout;
pub mod coupon;
pub mod error;
pub mod ids;
pub mod import;
pub mod intent;
pub mod money;
pub mod order;
pub mod product;
pub mod reply;
pub mod search;
pub mod site;
pub mod skill;
pub mod stock;
mod stored;
#[cfg(test)]
mod testing;
pub mod totals;
pub mod view;

pub use cart::{Cart, CartAct, CartStatus, Item, ShopRules};
pub use checkout::{Buyer, CheckoutInputs, CheckoutStep, Session, SessionStatus};
pub use coupon::{Coupon, Discount};
pub use error::Error;
pub use ids::{CartToken, ConfirmationToken, OrderId, ProductId, SessionId, Slug, VariantId, WorkspaceId};
pub use intent::{SkillRequest, SkillRequestError};
pub use money::{Currency, Minor};
pub use order::{Order, OrderAct, OrderState, OrderStep, Paid};
pub use product::{Media, Product, Variant, VariantChoice};
pub use reply::{Ending, SkillReply};
pub use search::Query;
pub use site::{Site, SiteTerms, Social, Workspace};
pub use skill::{CartAction, CartPlan, SkillPlan, StoreSkill, WRITE_ORDERS};
pub use stock::{Move, Moves, StockPlace, Unit};
pub use totals::Totals;
pub use view::Stocked;
