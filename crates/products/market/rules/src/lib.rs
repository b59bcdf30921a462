//! The rules of the market: capabilities for sale, purchases of them, and money that is held until a purchase ends.
//!
//! This crate is pure: no I/O, no clock, no randomness, no wire. Time, ids and nonces are arguments. The result is a
//! [`TransactionStep`], which has all changes that a store commits together, or an [`Error`]. [`MarketState`] is a
//! reference store in memory, and [`verify()`] checks the rows of any store. Money, entries and holds are those of the
//! crate [`ledger`].
//!
//! | module | content |
//! |---|---|
//! | [`capability`] | capabilities: terms, prices, and the states from draft to market |
//! | [`demand`] | demands of buyers, and the match of capabilities with them |
//! | [`transaction`], [`precondition`] | a purchase and its state machine, and the preconditions of a step |
//! | [`quota`] | counted sales of a capability, for its seller's limits |
//! | [`autonomy`] | spending limits of agents, and confirmations by persons |
//! | [`tariff`] | the price of an agent's turns, and money that is held for a turn |
//! | [`stored`] | the stored rows |
//! | [`market_state`], [`verify`](mod@verify) | the reference store, and the check of any store |
//!
//! A purchase from order to settlement:
//!
//! ```
//! use market_rules::{Actor, MarketState, CapabilityId, TransactionId, Ut, UserId, Via, autonomy, capability, ledger, transaction};
//! use model::{Json, State, Time};
//! use std::sync::Arc;
//!
//! let (tenant, buyer, seller): (Arc<str>, UserId, UserId) = ("default".into(), "u_buyer".into(), "u_seller".into());
//! let (mut book, rules, now) = (MarketState::default(), transaction::TransactionRules::default(), Time(1_775_721_600_000));
//!
//! // The buyer gets money, the seller puts a capability on the market.
//! let credit = Ut::parse("1000").unwrap();
//! book.post(&ledger::LedgerEntry::recharge(&tenant, &buyer, credit, "welcome", None, now).unwrap()).unwrap();
//! let draft = capability::CapabilityDraft {
//!     title: Some("OCR of invoices".into()),
//!     description: Some("Reads an invoice".into()),
//!     category: Some("documents".into()),
//!     capability_type: Some("service".into()),
//!     pricing_model: Some("per_use".into()),
//!     price_ut: Json::parse("120"),
//!     ..Default::default()
//! };
//! let terms = draft.check(&capability::CapabilityRules::default()).unwrap();
//! let id = CapabilityId::from("cap_ocr_invoice_v1");
//! let offer = capability::Capability::new(&tenant, id.clone(), seller.clone(), terms, now);
//! let submitted = offer.step(&Actor::person(&tenant, &seller), capability::CapabilityAction::Submit, now, &Default::default());
//! let capability::After::Kept(offer) = submitted.unwrap() else { unreachable!() };
//! book.put_capability(*offer);
//!
//! // The buyer's agent orders: 120 is more than it may spend by itself by default, so its limits are set higher.
//! let order = transaction::PurchaseOrder {
//!     id: "task_01jqxyz0000000000000000000".parse().unwrap(),
//!     tenant: tenant.clone(),
//!     buyer: buyer.clone(),
//!     via: Via::Agent,
//!     booked_hours: None,
//!     context: None,
//!     demand: None,
//!     input: None,
//!     limits: autonomy::SpendingLimits { per_call: credit, ..Default::default() },
//!     spent: Ut::ZERO,
//!     confirmed: None,
//!     sold: Default::default(),
//! };
//! let step = book.order(order, &id, now, &rules).unwrap();
//! assert_eq!((step.state, step.transaction.commission.to_string()), (State::Submitted, "12".to_owned()));
//!
//! // The money is held, the seller delivers, the buyer confirms.
//! let (task, b, s) = (step.transaction.id, Actor::agent(&tenant, &buyer), Actor::agent(&tenant, &seller));
//! let result = Json::parse(r#"{"total": "99.50"}"#);
//! for (actor, action, state) in [
//!     (&b, transaction::TransactionAction::Freeze, State::Submitted),
//!     (&s, transaction::TransactionAction::Accept, State::Working),
//!     (&s, transaction::TransactionAction::Deliver { result, deliverables: vec![] }, State::InputRequired),
//!     (&b, transaction::TransactionAction::Confirm, State::Completed),
//! ] {
//!     assert_eq!(book.act(task, actor, action, now, &rules).unwrap().state, state);
//! }
//! assert_eq!(book.balance(&ledger::AccountId::available(&tenant, &buyer)).to_string(), "880");
//! assert_eq!(book.balance(&ledger::AccountId::available(&tenant, &seller)).to_string(), "108");
//! assert_eq!(book.balance(&ledger::AccountId::commission(&tenant)).to_string(), "12");
//! assert!(book.verify().is_empty());
//! ```

pub mod autonomy;
pub mod capability;
pub mod demand;
pub mod error;
pub mod ids;
pub mod market_state;
pub mod precondition;
pub mod quota;
pub mod stored;
pub mod tariff;
pub mod transaction;
pub mod verify;

pub use capability::{Capability, FieldError, Served};
pub use demand::Demand;
pub use error::Error;
pub use ids::{Actor, CapabilityId, DemandId, Via};
pub use market_state::{MarketState, StateConflict};
pub use precondition::Precondition;
pub use quota::Sales;
pub use transaction::{Transaction, TransactionStep};
pub use verify::{MarketDifference, verify};

/// The ledger is part of the interface: amounts, accounts and entries are in signatures of this crate.
pub use ::ledger;
pub use ::ledger::{AccountId, LineKind, Rate, Row, TransactionId, UserId, Ut};
