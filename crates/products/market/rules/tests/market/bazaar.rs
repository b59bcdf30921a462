//! A small market with too many people in it: a few users in two tenants, some with the same name, a few capabilities,
//! little money, and a list of things that any of them may try.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{LedgerEntry, Rate, TransactionId, UserId, Ut};
use market_rules::autonomy::{ConfirmationKey, Confirmed, Mark, Question, Risk, SpendingLimits};
use market_rules::capability::{self, CapabilityTerms, CapabilityType, DeliveryMode, PricingModel};
use market_rules::transaction::{Deadline, PurchaseOrder, Status, TransactionAction, TransactionRules};
use market_rules::{Actor, Capability, CapabilityId, Error, MarketState, Served, StateConflict, TransactionStep, Via};
use model::{Json, TaskId, Time};
use proptest::prelude::*;
use uuid::Uuid;

pub(crate) const LIMITS: SpendingLimits =
    SpendingLimits { per_call: Ut::from_hundredths(10_000), daily: Ut::from_hundredths(6_000), risk: Risk::L3 };

const USERS: [(&str, &str); 5] =
    [("north", "ada"), ("north", "bob"), ("north", "cyd"), ("south", "ada"), ("south", "bob")];
const CAPABILITIES: usize = 7;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Recharge {
        user: usize,
        hundredths: i64,
        reference: u8,
    },
    Withdraw {
        user: usize,
        hundredths: i64,
        reference: u8,
    },
    Buy {
        user: usize,
        capability: usize,
        person: bool,
        hours: Option<i64>,
        token: Option<u8>,
    },
    /// Anybody does anything to any transaction.
    Act {
        transaction: usize,
        actor: Who,
        person: bool,
        act: Act,
        token: Option<u8>,
    },
    /// The one whose turn it is does what comes next.
    Advance {
        transaction: usize,
    },
    /// Works a step out now and commits it later, when the world has moved on.
    Prepare {
        transaction: usize,
        actor: Who,
        act: Act,
    },
    PrepareBuy {
        user: usize,
        capability: usize,
    },
    CommitPrepared {
        which: usize,
    },
    Reprice {
        capability: usize,
        hundredths: i64,
    },
    Switch {
        capability: usize,
    },
    Later(i64),
    Fire,
}

/// Who tries: anybody, or one whose business it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    User(usize),
    Platform,
    Buyer,
    Seller,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Approve,
    Freeze,
    Accept,
    Reject,
    Deliver,
    Confirm,
    Cancel,
    Fail,
    Due(Deadline),
}

const ACTS: [Act; 11] = [
    Act::Approve,
    Act::Freeze,
    Act::Accept,
    Act::Reject,
    Act::Deliver,
    Act::Confirm,
    Act::Cancel,
    Act::Fail,
    Act::Due(Deadline::Accept),
    Act::Due(Deadline::Deliver),
    Act::Due(Deadline::Confirm),
];

pub(crate) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let user = 0..USERS.len();
    let capability = 0..CAPABILITIES;
    // The newest more often than others, so that some get far and some are left.
    let transaction = prop_oneof![0_usize..4, 0_usize..20];
    let actor = prop_oneof![
        1 => (0..USERS.len()).prop_map(Who::User),
        2 => Just(Who::Platform),
        4 => Just(Who::Buyer),
        4 => Just(Who::Seller),
    ];
    let wish = 0..4 * CAPABILITIES;
    let act = || prop::sample::select(ACTS.to_vec());
    let token = || prop::option::weighted(0.3, 0_u8..4);
    let hours = prop::option::weighted(0.8, -1_i64..9);
    let op = prop_oneof![
        2 => (user.clone(), 1_i64..30_000, 0_u8..20).prop_map(|(user, hundredths, reference)| Op::Recharge { user, hundredths, reference }),
        1 => (user.clone(), 1_i64..30_000, 0_u8..20).prop_map(|(user, hundredths, reference)| Op::Withdraw { user, hundredths, reference }),
        6 => (user.clone(), wish.clone(), any::<bool>(), hours, token())
            .prop_map(|(user, capability, person, hours, token)| Op::Buy { user, capability, person, hours, token }),
        6 => (transaction.clone(), actor.clone(), any::<bool>(), act(), token())
            .prop_map(|(transaction, actor, person, act, token)| Op::Act { transaction, actor, person, act, token }),
        12 => transaction.clone().prop_map(|transaction| Op::Advance { transaction }),
        2 => (transaction, actor, act()).prop_map(|(transaction, actor, act)| Op::Prepare { transaction, actor, act }),
        2 => (user, wish).prop_map(|(user, capability)| Op::PrepareBuy { user, capability }),
        3 => (0_usize..4).prop_map(|which| Op::CommitPrepared { which }),
        1 => (capability.clone(), 0_i64..20_000).prop_map(|(capability, hundredths)| Op::Reprice { capability, hundredths }),
        1 => capability.prop_map(|capability| Op::Switch { capability }),
        // Clocks of replicas differ: time may step back.
        4 => (-100_000_i64..3_600_000).prop_map(Op::Later),
        1 => (0_i64..300_000_000).prop_map(Op::Later),
        2 => Just(Op::Fire),
    ];
    prop::collection::vec(op, most / 2..most)
}

pub(crate) struct Bazaar {
    pub(crate) book: MarketState,
    pub(crate) rules: TransactionRules,
    pub(crate) now: Time,
    /// How often each token was used up.
    pub(crate) marks: BTreeMap<Mark, usize>,
    key: ConfirmationKey,
    prepared: Vec<TransactionStep>,
    bought: Vec<TransactionId>,
    drawn: u128,
}

fn tenant(user: usize) -> Arc<str> {
    USERS[user].0.into()
}
fn name(user: usize) -> UserId {
    USERS[user].1.into()
}

impl Bazaar {
    pub(crate) fn new(auto_freeze: bool, rate: &str) -> Bazaar {
        let rules =
            TransactionRules { auto_freeze, commission: Rate::parse(rate).unwrap(), ..TransactionRules::default() };
        let mut bazaar = Bazaar {
            book: MarketState::default(),
            rules,
            now: Time(1_775_721_600_000),
            marks: BTreeMap::new(),
            key: ConfirmationKey::new(&[9; 32]).unwrap(),
            prepared: Vec::new(),
            bought: Vec::new(),
            drawn: 0,
        };
        let callback = Served::Callback { url: "https://e.example.com/".into(), timeout_s: 30 };
        for (i, (seller, price, pricing_model, what, served)) in [
            (0, 0, PricingModel::PerUse, CapabilityType::Data, Served::Person),
            (0, 1, PricingModel::PerQuery, CapabilityType::Api, callback),
            (1, 1_555, PricingModel::PerHour, CapabilityType::Service, Served::Person),
            (1, 12_000, PricingModel::PerUse, CapabilityType::Service, Served::Agent("ocr".into())),
            (2, 9_999, PricingModel::PerDay, CapabilityType::AccountSharing, Served::Person),
            (3, 5_000, PricingModel::Subscription, CapabilityType::Tool, Served::Worker),
            (4, 777, PricingModel::PerUse, CapabilityType::Workflow, Served::Person),
        ]
        .into_iter()
        .enumerate()
        {
            let terms = CapabilityTerms {
                title: "t".into(),
                description: "d".into(),
                category: "c".into(),
                capability_type: what,
                pricing_model,
                price: Ut::from_hundredths(price),
                tags: vec![],
                delivery_mode: DeliveryMode::Instant,
                auto_accept_min: (i == 4).then_some(Ut::from_hundredths(5_000)),
                daily_limit: (i == 6).then_some(2),
                rate_limit_per_min: (i == 3).then_some(2),
                served,
                available: true,
            };
            let new = Capability::new(&tenant(seller), Bazaar::id(i), name(seller), terms, bazaar.now);
            bazaar.book.put_capability(Capability { status: capability::Status::Active, ..new });
        }
        for user in 0..USERS.len() {
            bazaar.run(&Op::Recharge { user, hundredths: 20_000, reference: 100 + user as u8 }).unwrap();
        }
        bazaar
    }

    fn id(capability: usize) -> CapabilityId {
        CapabilityId(format!("cap_{capability}").into())
    }

    fn actor(&self, id: TransactionId, who: Who, person: bool) -> Actor {
        let known = self.book.transaction(id).unwrap();
        let (tenant, id) = match who {
            Who::Platform => return Actor::Platform,
            Who::User(user) => (tenant(user), name(user)),
            Who::Buyer => (known.tenant.clone(), known.buyer.clone()),
            Who::Seller => (known.tenant.clone(), known.seller.clone()),
        };
        Actor::User { tenant, id, via: if person { Via::Person } else { Via::Agent } }
    }

    fn capability(&self, i: usize) -> Capability {
        let find = |tenant: &str| self.book.capability(&tenant.into(), &Bazaar::id(i)).cloned();
        find("north").or_else(|| find("south")).unwrap()
    }

    /// A capability for this user: usually another user's in the same tenant, sometimes any.
    fn wanted(&self, user: usize, wish: usize) -> Capability {
        if wish < CAPABILITIES {
            return self.capability(wish);
        }
        let (tenant, buyer) = (tenant(user), name(user));
        let fits = |known: &Capability| known.tenant == tenant && known.owner != buyer;
        let others: Vec<Capability> = (0..CAPABILITIES).map(|i| self.capability(i)).filter(fits).collect();
        others[wish % others.len()].clone()
    }

    /// A token for just what is asked, four nonces in all: they are used again and again.
    fn token(&self, nonce: u8, tenant: &Arc<str>, caller: &UserId, capability: &CapabilityId, fee: Ut) -> Confirmed {
        let question = Question { tenant: tenant.clone(), caller: caller.clone(), capability: capability.clone(), fee };
        let day = self.now.0.div_euclid(86_400_000);
        // Issued at the beginning of the day: most have expired.
        let issued = if nonce == 0 { Time(day * 86_400_000) } else { self.now };
        let token = self.key.issue(&question, [nonce; 16], issued);
        self.key.check(&token, &question, issued).unwrap()
    }

    fn action(&self, id: TransactionId, act: Act, token: Option<u8>) -> TransactionAction {
        let transaction = self.book.transaction(id).unwrap();
        match act {
            Act::Approve => TransactionAction::Approve(token.map(|nonce| {
                self.token(nonce, &transaction.tenant, &transaction.buyer, &transaction.capability, transaction.price)
            })),
            Act::Freeze => TransactionAction::Freeze,
            Act::Accept => TransactionAction::Accept,
            Act::Reject => TransactionAction::Reject { reason: None },
            Act::Deliver => TransactionAction::Deliver { result: Json::parse("{\"ok\":true}"), deliverables: vec![] },
            Act::Confirm => TransactionAction::Confirm,
            Act::Cancel => TransactionAction::Cancel,
            Act::Fail => TransactionAction::Fail { reason: Some("it broke".into()) },
            Act::Due(deadline) => TransactionAction::Due(deadline),
        }
    }

    fn order(
        &mut self,
        user: usize,
        capability: &Capability,
        person: bool,
        hours: Option<i64>,
        token: Option<u8>,
    ) -> PurchaseOrder {
        self.drawn += 1;
        let (tenant, buyer) = (tenant(user), name(user));
        let fee = capability.terms.price_for(hours).unwrap_or(Ut::ZERO);
        PurchaseOrder {
            id: TransactionId(TaskId(Uuid::from_u128(self.drawn))),
            confirmed: token.map(|nonce| self.token(nonce, &tenant, &buyer, &capability.id, fee)),
            tenant,
            buyer,
            via: if person { Via::Person } else { Via::Agent },
            booked_hours: hours,
            context: None,
            demand: None,
            input: None,
            limits: LIMITS,
            spent: Ut::ZERO,
            sold: market_rules::Sales::default(),
        }
    }

    fn pick(&self, transaction: usize) -> Option<TransactionId> {
        let index = transaction.checked_rem(self.bought.len())?;
        self.bought.iter().rev().nth(index).copied()
    }

    fn note(&mut self, step: &TransactionStep) {
        if let Some(mark) = step.used {
            *self.marks.entry(mark).or_default() += 1;
        }
        let bought = &step.transaction;
        if !self.bought.contains(&bought.id) {
            // The bought capability is on sale right now, and at this price.
            let offer = self.book.capability(&bought.tenant, &bought.capability).unwrap();
            assert!(offer.is_on_sale(), "{} was bought and is not on sale", offer.id);
            assert_eq!(offer.terms.price_for(bought.booked_hours).unwrap(), bought.price, "an old price was paid");
            self.bought.push(step.transaction.id);
        }
    }

    pub(crate) fn spent(&self) -> Vec<(UserId, i64, Ut)> {
        let today = self.now.0.div_euclid(86_400_000);
        let mut all = Vec::new();
        for user in 0..USERS.len() {
            for day in today - 2..=today + 2 {
                all.push((name(user), day, self.book.spent(&tenant(user), &name(user), day)));
            }
        }
        all
    }

    pub(crate) fn run(&mut self, op: &Op) -> Result<(), Error> {
        match *op {
            Op::Recharge { user, hundredths, reference } => {
                let (amount, reference) = (Ut::from_hundredths(hundredths), reference.to_string());
                self.book.post(&LedgerEntry::recharge(
                    &tenant(user),
                    &name(user),
                    amount,
                    &reference,
                    None,
                    self.now,
                )?)?;
            }
            Op::Withdraw { user, hundredths, reference } => {
                let (amount, reference) = (Ut::from_hundredths(hundredths), reference.to_string());
                self.book.post(&LedgerEntry::withdraw(
                    &tenant(user),
                    &name(user),
                    amount,
                    &reference,
                    None,
                    self.now,
                )?)?;
            }
            Op::Buy { user, capability, person, hours, token } => {
                let capability = self.wanted(user, capability);
                let order = self.order(user, &capability, person, hours, token);
                let step = self.book.order(order, &capability.id, self.now, &self.rules)?;
                self.note(&step);
            }
            Op::Act { transaction, actor, person, act, token } => {
                let Some(id) = self.pick(transaction) else { return Ok(()) };
                let action = self.action(id, act, token);
                let step = self.book.act(id, &self.actor(id, actor, person), action, self.now, &self.rules)?;
                self.note(&step);
            }
            Op::Advance { transaction } => {
                let Some(id) = self.pick(transaction) else { return Ok(()) };
                let known = self.book.transaction(id).unwrap();
                let buyer = Actor::person(&known.tenant, &known.buyer);
                let seller = Actor::agent(&known.tenant, &known.seller);
                let (actor, act) = match known.status {
                    // Some forget that they have been asked.
                    Status::PendingFreeze if known.awaits_approval() && transaction % 3 > 0 => (buyer, Act::Approve),
                    Status::PendingFreeze => (buyer, Act::Freeze),
                    Status::Frozen => (seller, Act::Accept),
                    Status::Accepted => (seller, Act::Deliver),
                    Status::Delivered => (buyer, Act::Confirm),
                    Status::Settled | Status::CancelledByBuyer | Status::RejectedBySeller | Status::Failed => {
                        return Ok(());
                    }
                };
                let action = self.action(id, act, None);
                let step = self.book.act(id, &actor, action, self.now, &self.rules)?;
                self.note(&step);
            }
            Op::Prepare { transaction, actor, act } => {
                let Some(id) = self.pick(transaction) else { return Ok(()) };
                let action = self.action(id, act, None);
                let known = self.book.transaction(id).unwrap();
                let step = known.step(&self.actor(id, actor, true), action, self.now, &self.rules)?;
                self.prepared.push(step);
            }
            Op::PrepareBuy { user, capability } => {
                let capability = self.wanted(user, capability);
                let order = self.order(user, &capability, false, Some(1), None);
                let spent = self.book.spent(&order.tenant, &order.buyer, self.now.0.div_euclid(86_400_000));
                let order = PurchaseOrder { spent, ..order };
                let step = market_rules::Transaction::create(order, &capability, self.now, &self.rules)?;
                self.prepared.push(step);
            }
            Op::CommitPrepared { which } => {
                let Some(step) = self.prepared.iter().rev().nth(which).cloned() else { return Ok(()) };
                self.book.commit(&step).map_err(|conflict: StateConflict| Error::from(conflict))?;
                self.note(&step);
            }
            Op::Reprice { capability, hundredths } => {
                let before = self.capability(capability);
                let terms = CapabilityTerms { price: Ut::from_hundredths(hundredths), ..before.terms.clone() };
                self.change(&before, capability::CapabilityAction::Edit(Box::new(terms)));
            }
            Op::Switch { capability } => {
                let before = self.capability(capability);
                self.change(
                    &before,
                    match before.status {
                        capability::Status::Active => capability::CapabilityAction::Offline,
                        _ => capability::CapabilityAction::Online,
                    },
                );
            }
            Op::Later(ms) => self.now = Time(self.now.0 + ms),
            Op::Fire => {
                for (id, deadline) in self.book.due(self.now) {
                    let step =
                        self.book.act(id, &Actor::Platform, TransactionAction::Due(deadline), self.now, &self.rules)?;
                    self.note(&step);
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, before: &Capability, action: capability::CapabilityAction) {
        let owner = Actor::person(&before.tenant, &before.owner);
        let after = before.step(&owner, action, self.now, &capability::CapabilityRules::default()).unwrap();
        if let capability::After::Kept(after) = after {
            self.book.put_capability(*after);
        }
    }
}
