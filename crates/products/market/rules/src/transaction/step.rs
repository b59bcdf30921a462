//! The rules of each step: permitted actors and states, and the resulting changes.

use std::sync::Arc;

use model::{Json, Time};

use super::{
    Deadline, DeadlineChange, DecisionSource, Deliverable, Due, MAX_DELIVERABLES, MAX_ID, MAX_NAME, MAX_REASON,
    PurchaseOrder, Role, Status, Transaction, TransactionAction, TransactionRules, TransactionStep, Verb,
};
use crate::autonomy::{self, Confirmation, Confirmed, Decision, Question, Risk, Spend};
use crate::capability::{Capability, FieldError, PricingModel};
use crate::error::Error;
use crate::precondition::Precondition;
use crate::{Actor, Via};
use ledger::{AccountId, Hold, Ut};

impl Transaction {
    /// A new purchase. A sufficient balance is a precondition of the step, whether the money is held now or later.
    pub fn create(
        order: PurchaseOrder,
        capability: &Capability,
        now: Time,
        rules: &TransactionRules,
    ) -> Result<TransactionStep, Error> {
        let terms = &capability.terms;
        if order.tenant != capability.tenant || !capability.is_on_sale() {
            return Err(Error::NotOnSale { capability: capability.id.clone(), status: capability.status });
        }
        if order.buyer == capability.owner {
            return Err(Error::OwnCapability);
        }
        let price = terms.price_for(order.booked_hours)?;
        if let Some(input) = &order.input {
            at_most("input", input.text().len(), rules.max_payload_bytes, "bytes")?;
        }
        let context = order.context.as_ref().map(|context| context.as_str());
        for (field, id) in [("context_id", context), ("demand_id", order.demand.as_deref())] {
            at_most(field, id.unwrap_or_default().chars().count(), MAX_ID, "characters")?;
        }
        let sold = Some(order.sold).filter(|_| terms.is_limited());
        let now = sold.map_or(now, |sold| sold.next_at(now));
        if let Some(sold) = &sold {
            sold.check(terms, now)?;
        }

        let question = Question {
            tenant: order.tenant.clone(),
            caller: order.buyer.clone(),
            capability: capability.id.clone(),
            fee: price,
        };
        let decided = Decided::by(&order, capability, question, now)?;
        let transaction = Transaction {
            tenant: order.tenant,
            id: order.id,
            capability: capability.id.clone(),
            buyer: order.buyer,
            seller: capability.owner.clone(),
            pricing_model: terms.pricing_model,
            served: terms.served.clone(),
            auto_accept: terms.accepts_by_itself(price),
            counted: sold.is_some(),
            booked_hours: order.booked_hours.filter(|_| terms.pricing_model == PricingModel::PerHour),
            price,
            commission: rules.commission.of(price),
            status: Status::PendingFreeze,
            context: order.context,
            demand: order.demand,
            input: order.input,
            result: None,
            deliverables: Vec::new(),
            autonomy: decided.confirmation,
            decision_source: decided.source,
            reason: None,
            due: None,
            created_at: now,
            updated_at: now,
            frozen_at: None,
            settled_at: None,
            version: 1,
        };
        let mut step = TransactionStep::to(transaction, 0);
        step.guards.push(Precondition::Capability {
            tenant: capability.tenant.clone(),
            id: capability.id.clone(),
            version: capability.version,
        });
        if let Some(sold) = sold {
            let (tenant, capability) = (capability.tenant.clone(), capability.id.clone());
            step.guards.push(Precondition::Sold { tenant, capability, sales: sold });
            step.sales = Some(sold.with_one(now));
        }
        if let Some((spend, at_most)) = decided.spend {
            let (tenant, user, day) = (spend.tenant.clone(), spend.user.clone(), spend.day);
            step.guards.push(Precondition::Spent { tenant, user, day, at_most });
            step.spend = Some(spend);
        }
        if let Some(confirmed) = decided.used {
            step.use_up(&confirmed);
        }
        if rules.auto_freeze && !step.transaction.awaits_approval() {
            step.freeze(now, rules)?;
        } else if price.is_positive() {
            let account = AccountId::available(&step.transaction.tenant, &step.transaction.buyer);
            step.guards.push(Precondition::Available(account, price));
        }
        Ok(step.done())
    }

    /// The step of this action by this actor, or the reason why it is refused. Every actor may try every action in every
    /// state; the actor is checked before the state.
    pub fn step(
        &self,
        actor: &Actor,
        action: TransactionAction,
        now: Time,
        rules: &TransactionRules,
    ) -> Result<TransactionStep, Error> {
        let verb = action.verb();
        let role = self.role(actor).ok_or(Error::NotParty)?;
        if !self.may(role, verb) {
            return Err(Error::WrongActor { verb, role });
        }
        if let TransactionAction::Due(deadline) = &action
            && !self.due.is_some_and(|due| due.deadline == *deadline && due.at <= now)
        {
            return Err(Error::NotDue);
        }
        if !follows(verb, self.status) {
            return Err(Error::WrongState { verb, status: self.status });
        }
        // The time grows with every step: subscribers recognise a change by it.
        let at = Time(now.0.max(self.updated_at.0.saturating_add(1)));
        let mut step = TransactionStep::to(
            Transaction { updated_at: at, version: self.version.saturating_add(1), ..self.clone() },
            self.version,
        );
        match action {
            TransactionAction::Approve(confirmed) => {
                self.approve(&mut step, actor, confirmed, now)?;
                if rules.auto_freeze {
                    step.freeze(at, rules)?;
                }
            }
            TransactionAction::Freeze if self.awaits_approval() => return Err(Error::ConfirmationPending),
            TransactionAction::Freeze => step.freeze(at, rules)?,
            TransactionAction::Accept => step.enter(Status::Accepted, Some((Deadline::Deliver, rules.deliver_ms))),
            TransactionAction::Reject { reason } => step.refund(Status::RejectedBySeller, checked(reason)?)?,
            TransactionAction::Deliver { result, deliverables } => {
                check_delivery(result.as_ref(), &deliverables, rules)?;
                step.transaction.result = result;
                step.transaction.deliverables = deliverables;
                step.enter(Status::Delivered, Some((Deadline::Confirm, rules.confirm_ms)));
            }
            TransactionAction::Confirm => step.settle()?,
            TransactionAction::Cancel => step.refund(Status::CancelledByBuyer, None)?,
            // A long reason is cut, so that it cannot prevent the refund.
            TransactionAction::Fail { reason } => step.refund(Status::Failed, reason.map(cut))?,
            TransactionAction::Due(Deadline::Accept) => {
                step.refund(Status::Failed, Some("the seller did not accept in time".into()))?;
            }
            TransactionAction::Due(Deadline::Deliver) => {
                step.refund(Status::Failed, Some("the seller did not deliver in time".into()))?;
            }
            TransactionAction::Due(Deadline::Confirm) => {
                step.transaction.decision_source = DecisionSource::PlatformAuto;
                step.settle()?;
            }
        }
        Ok(step.done())
    }

    /// Checks that the actor may take this action. The platform accepts for a seller who accepts in advance, and
    /// rejects or delivers where a machine serves the capability.
    fn may(&self, role: Role, verb: Verb) -> bool {
        match (verb, role) {
            (Verb::Approve | Verb::Freeze | Verb::Confirm | Verb::Cancel, Role::Buyer) => true,
            (Verb::Accept | Verb::Reject | Verb::Deliver, Role::Seller) => true,
            (Verb::Accept, Role::Platform) => self.auto_accept,
            (Verb::Reject | Verb::Deliver, Role::Platform) => self.served.by_machine(),
            (Verb::Fail | Verb::Expire, Role::Platform) => true,
            (Verb::Create, Role::Buyer | Role::Seller | Role::Platform)
            | (Verb::Approve | Verb::Freeze | Verb::Confirm | Verb::Cancel, Role::Seller | Role::Platform)
            | (Verb::Accept | Verb::Reject | Verb::Deliver, Role::Buyer)
            | (Verb::Fail | Verb::Expire, Role::Buyer | Role::Seller) => false,
        }
    }

    /// A person who has logged in needs no token; an agent needs the token that its person confirmed.
    fn approve(
        &self,
        step: &mut TransactionStep,
        actor: &Actor,
        confirmed: Option<Confirmed>,
        now: Time,
    ) -> Result<(), Error> {
        let pending = self.autonomy.clone().filter(Confirmation::is_pending).ok_or(Error::NothingPending)?;
        let via = match actor {
            Actor::User { via, .. } => *via,
            Actor::Platform => return Err(Error::WrongActor { verb: Verb::Approve, role: Role::Platform }),
        };
        match (via, confirmed) {
            (_, Some(confirmed)) => {
                let question = Question {
                    tenant: self.tenant.clone(),
                    caller: self.buyer.clone(),
                    capability: self.capability.clone(),
                    fee: self.price,
                };
                confirmed.fits(&question, now)?;
                step.use_up(&confirmed);
            }
            (Via::Person, None) => {}
            (Via::Agent, None) => return Err(Error::ConfirmationPending),
        }
        step.transaction.autonomy = Some(pending.confirmed(&self.buyer, step.transaction.updated_at));
        step.transaction.decision_source = DecisionSource::UserConfirmed;
        Ok(())
    }
}

/// The decision behind an order, and the preconditions it needs.
struct Decided {
    source: DecisionSource,
    confirmation: Option<Confirmation>,
    /// With the day's spending before the order.
    spend: Option<(Spend, Ut)>,
    used: Option<Confirmed>,
}

impl Decided {
    fn by(order: &PurchaseOrder, capability: &Capability, question: Question, now: Time) -> Result<Decided, Error> {
        let alone = |source| Decided { source, confirmation: None, spend: None, used: None };
        let fee = question.fee;
        let risk = Risk::of(capability.terms.capability_type, fee, &order.limits);
        if let Some(confirmed) = &order.confirmed {
            confirmed.fits(&question, now)?;
            return Ok(Decided {
                confirmation: Some(Confirmation::pending(risk, fee).confirmed(&order.buyer, now)),
                used: Some(confirmed.clone()),
                ..alone(DecisionSource::UserConfirmed)
            });
        }
        match order.via {
            Via::Person => return Ok(alone(DecisionSource::UserManual)),
            Via::Agent => {}
        }
        Ok(match autonomy::decide(&order.limits, order.spent, fee, risk) {
            Decision::Ask(_) => Decided {
                confirmation: Some(Confirmation::pending(risk, fee)),
                ..alone(DecisionSource::AgentAutonomous)
            },
            Decision::Alone => {
                let spend = Spend {
                    tenant: order.tenant.clone(),
                    user: order.buyer.clone(),
                    day: autonomy::day(now),
                    amount: fee,
                };
                let before = order.limits.daily.minus(fee).unwrap_or(Ut::ZERO);
                Decided {
                    spend: Some((spend, before)).filter(|_| fee.is_positive()),
                    ..alone(DecisionSource::AgentAutonomous)
                }
            }
        })
    }
}

/// The actions that each state permits.
fn follows(verb: Verb, status: Status) -> bool {
    match verb {
        Verb::Create => false,
        Verb::Approve | Verb::Freeze => status == Status::PendingFreeze,
        Verb::Accept | Verb::Reject => status == Status::Frozen,
        Verb::Deliver => status == Status::Accepted,
        Verb::Confirm => status == Status::Delivered,
        Verb::Cancel => matches!(status, Status::PendingFreeze | Status::Frozen),
        Verb::Fail => matches!(status, Status::Frozen | Status::Accepted),
        // The deadline itself is checked by the caller.
        Verb::Expire => status.holds_money(),
    }
}

impl TransactionStep {
    fn to(transaction: Transaction, version: u64) -> TransactionStep {
        TransactionStep {
            state: transaction.state(),
            guards: vec![Precondition::Transaction(transaction.id, version)],
            transaction,
            hold: None,
            entries: Vec::new(),
            timers: Vec::new(),
            spend: None,
            used: None,
            sales: None,
        }
    }

    fn done(mut self) -> TransactionStep {
        self.state = self.transaction.state();
        self
    }

    /// Enters another state, whose deadline replaces the previous one.
    fn enter(&mut self, status: Status, deadline: Option<(Deadline, u64)>) {
        let due = deadline.map(|(deadline, ms)| Due { deadline, at: self.transaction.updated_at.plus_ms(ms) });
        if let Some(before) = self.transaction.due {
            self.timers.push(DeadlineChange::Clear(before.deadline));
        }
        if let Some(due) = due {
            self.timers.push(DeadlineChange::Set(due));
        }
        self.transaction.due = due;
        self.transaction.status = status;
    }

    fn freeze(&mut self, at: Time, rules: &TransactionRules) -> Result<(), Error> {
        let on = &self.transaction;
        if on.price.is_positive() {
            let (hold, entry) = Hold::freeze(&on.tenant, &on.buyer, on.id, on.price, at)?;
            self.guards.extend(entry.floors().into_iter().map(Precondition::from));
            self.entries.push(entry);
            self.hold = Some(hold);
        }
        self.transaction.frozen_at = Some(at);
        self.enter(Status::Frozen, Some((Deadline::Accept, rules.accept_ms)));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let at = self.transaction.updated_at;
        if let Some(hold) = self.transaction.hold() {
            let (ended, entry) = hold.settle(hold.amount, &self.transaction.share(), at)?;
            self.entries.push(entry);
            self.hold = Some(ended);
        }
        self.transaction.settled_at = Some(at);
        self.enter(Status::Settled, None);
        Ok(())
    }

    /// Ends the purchase without a sale; held money is refunded.
    fn refund(&mut self, status: Status, reason: Option<Arc<str>>) -> Result<(), Error> {
        if let Some(hold) = self.transaction.hold() {
            let (ended, entry) = hold.release(self.transaction.updated_at)?;
            self.entries.push(entry);
            self.hold = Some(ended);
        }
        self.transaction.reason = reason;
        self.enter(status, None);
        Ok(())
    }

    fn use_up(&mut self, confirmed: &Confirmed) {
        self.guards.push(Precondition::Unused(confirmed.mark()));
        self.used = Some(confirmed.mark());
    }
}

fn at_most(field: &'static str, size: usize, most: usize, unit: &str) -> Result<(), FieldError> {
    if size > most {
        return Err(FieldError::new(field, format!("must have at most {most} {unit}")));
    }
    Ok(())
}

fn checked(reason: Option<Arc<str>>) -> Result<Option<Arc<str>>, FieldError> {
    at_most("reason", reason.as_deref().unwrap_or_default().chars().count(), MAX_REASON, "characters")?;
    Ok(reason)
}

fn cut(reason: Arc<str>) -> Arc<str> {
    match reason.char_indices().nth(MAX_REASON) {
        Some((end, _)) => reason[..end].into(),
        None => reason,
    }
}

fn check_delivery(result: Option<&Json>, files: &[Deliverable], rules: &TransactionRules) -> Result<(), FieldError> {
    if let Some(result) = result {
        if !result.is_object() {
            return Err(FieldError::new("result_payload", "must be an object"));
        }
        at_most("result_payload", result.text().len(), rules.max_payload_bytes, "bytes")?;
    }
    if result.is_none() && files.is_empty() {
        return Err(FieldError::new("result_payload", "is required where no file is delivered"));
    }
    at_most("deliverables", files.len(), MAX_DELIVERABLES, "files")?;
    for text in files.iter().flat_map(|file| [&file.deliverable_id, &file.access_id, &file.file_name]) {
        if text.is_empty() {
            return Err(FieldError::new("deliverables", "must each have an id, an access id and a file name"));
        }
        at_most("deliverables", text.chars().count(), MAX_NAME, "characters in each name")?;
    }
    Ok(())
}
