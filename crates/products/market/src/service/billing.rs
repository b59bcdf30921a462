//! Billing of agents with a price: the hold for a turn, and its settlement.
//!
//! A [`BilledAgent`] wraps an agent and bills its turns. Taking money reads nothing: the caller's account has a floor
//! of zero, and a budget is an account whose floor is the amount that may be spent. The store refuses a commit that
//! would go below a floor, and the account that was short decides the error. [`MarketSettlement`] ends a hold from the
//! log of its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use ledger::records::listed;
use ledger::{AccountId, EntryError, Rate, Row, UserId, Ut};
use market_rules::tariff::{Budget, Budgeted, Owed, Price, TurnHold, Usage, Window};
use model::ports::Future;
use model::ports::agent::{Admission, Agent, AgentEvent, AgentLoad, Extension, Look, Profile, RemoteCards, Turn};
use model::ports::billing::{Billing, EndedTurn, Reservation, Settled, Settlement, TurnQuote};
use model::ports::store::Conflict;
use model::ports::worker::WorkerQueue;
use model::{Entry, Expect, Fault, Inbound, Json, Kind, Posting, Task, Time, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::service::records::{self, ALL, joined};

/// The extension under which a card shows the price and a task its cost.
pub const EXTENSION: &str = "https://rialto.dev/ext/price/v1";
const CURRENCY: &str = "UT";

/// Settings of the market for billed turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillingTerms {
    /// The tenant of the accounts.
    pub tenant: Arc<str>,
    /// The platform's share of what a seller is paid.
    pub commission: Rate,
    pub budgets: Budgets,
}

/// Budgets for turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// For each caller.
    pub per_key: Option<Budget>,
    /// For callers by name, instead of `per_key`.
    pub keys: BTreeMap<String, Budget>,
    /// For each context, over all callers.
    pub per_context: Option<Ut>,
}

/// An agent whose turns are billed.
pub struct BilledAgent {
    agent: Arc<dyn Agent>,
    profile: Profile,
    till: Arc<PricedBilling>,
}

impl BilledAgent {
    /// `seller` is paid; without a seller the platform is.
    pub fn new(agent: Arc<dyn Agent>, price: Price, seller: Option<UserId>, terms: BillingTerms) -> BilledAgent {
        let mut profile = agent.profile().clone();
        profile.extensions.push(Extension {
            uri: EXTENSION.to_owned(),
            description:
                "Turns of this agent cost something: the price is in params, what a turn used and cost in the \
                task's metadata under this URI"
                    .to_owned(),
            required: false,
            params: Some(params(&price)),
        });
        BilledAgent { agent, profile, till: Arc::new(PricedBilling { price, seller, terms }) }
    }
}

impl Agent for BilledAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        self.agent.admit(message, task)
    }
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        self.agent.run(turn).map(without_receipts).boxed()
    }
    fn desk(&self) -> Option<Arc<dyn WorkerQueue>> {
        self.agent.desk()
    }
    fn picture(&self, look: Option<Look<'_>>) -> Option<Json> {
        self.agent.picture(look)
    }
    fn members(&self) -> Vec<Arc<str>> {
        self.agent.members()
    }
    fn till(&self) -> Option<Arc<dyn Billing>> {
        Some(self.till.clone())
    }
    fn load(&self) -> Option<AgentLoad> {
        self.agent.load()
    }
    fn remote_card(&self) -> Option<Future<'static, Result<RemoteCards, Fault>>> {
        self.agent.remote_card()
    }
}

/// Removes receipts from an agent's own output. The cost of this turn is added here; a receipt that the agent passes on
/// is about a turn on another server.
fn without_receipts(emission: AgentEvent) -> AgentEvent {
    match emission {
        AgentEvent::Metadata(json) if json.text().contains(EXTENSION) => {
            let mut metadata = json.to_value();
            if let Some(members) = metadata.as_object_mut() {
                members.remove(EXTENSION);
            }
            AgentEvent::Metadata(Json::from_value(&metadata))
        }
        emission @ (AgentEvent::Metadata(_)
        | AgentEvent::Working(_)
        | AgentEvent::Artifact(_)
        | AgentEvent::Reply(_)
        | AgentEvent::Bound(_)
        | AgentEvent::End(_)) => emission,
    }
}

/// A price as cards show it.
fn params(price: &Price) -> Json {
    let mut told = Map::new();
    told.insert("currency".into(), CURRENCY.into());
    let amounts = [("per_task", price.per_task), ("per_turn", price.per_turn)];
    told.extend(
        amounts.iter().filter(|(_, ut)| !ut.is_zero()).map(|(name, ut)| (name.to_string(), ut.to_string().into())),
    );
    let rates = [
        ("per_1k_input", price.per_1k_input),
        ("per_1k_output", price.per_1k_output),
        ("per_second", price.per_second),
    ];
    told.extend(
        rates
            .iter()
            .filter(|(_, rate)| !rate.is_zero())
            .map(|(name, rate)| (name.to_string(), rate.to_string().into())),
    );
    told.insert("hold".into(), price.held(true).to_string().into());
    Json::from_value(&Value::Object(told))
}

/// The billing of one agent's turns.
struct PricedBilling {
    price: Price,
    seller: Option<UserId>,
    terms: BillingTerms,
}

impl PricedBilling {
    fn budgets(&self, asked: &TurnQuote<'_>) -> Vec<Budgeted> {
        let Budgets { per_key, keys, per_context } = &self.terms.budgets;
        let mut budgets = Vec::new();
        if let Some(Budget { amount, window }) = keys.get(&**asked.payer).or(per_key.as_ref()) {
            let account = joined(&["b", asked.tenant, "key", payer(asked.payer).as_str(), &window.at(asked.now)]);
            budgets.push(Budgeted { account, amount: *amount, of: "key".into(), window: window.name().into() });
        }
        if let Some(amount) = per_context {
            // A context id is an arbitrary text of the caller.
            let context = records::hex(&Sha256::digest(asked.context.as_str()));
            let account = joined(&["b", asked.tenant, "context", &context]);
            let window = Window::Total.name().into();
            budgets.push(Budgeted { account, amount: *amount, of: "context".into(), window });
        }
        budgets
    }
}

impl Billing for PricedBilling {
    fn hold(&self, asked: &TurnQuote<'_>) -> Result<Option<Reservation>, Fault> {
        let amount = self.price.held(asked.first);
        if amount.is_zero() {
            return Ok(None);
        }
        if !asked.known {
            let message = format!(
                "{} has a price and callers without a credential cannot pay; send a key or a token whose owner has an \
                 account",
                asked.agent
            );
            return Err(Fault::new(Kind::Unauthenticated, message));
        }
        if *asked.tenant != self.terms.tenant {
            let message = format!(
                "{} has a price, and callers like this one have no account here; ask the operator for a key of the \
                 market's tenant",
                asked.agent
            );
            return Err(Fault::new(Kind::Forbidden, message));
        }
        let hold = TurnHold {
            tenant: asked.tenant.clone(),
            agent: asked.agent.clone(),
            task: asked.task,
            turn: asked.turn,
            payer: payer(asked.payer),
            amount,
            made_at: asked.now,
            first: asked.first,
            price: self.price,
            seller: self.seller.clone(),
            commission: self.terms.commission,
            budgets: self.budgets(asked),
        };
        held(&hold).map(Some).map_err(Fault::internal)
    }

    fn refused(&self, hold: &Json, met: &Conflict) -> Option<Fault> {
        let Conflict::Funds(account, balance) = met else { return None };
        let hold = read(hold).ok()?;
        let (needed, has) = (hold.amount, Ut::from_hundredths(*balance));
        let told = |fault: Fault, available: Ut| {
            let fault = fault.fact("agent", &*hold.agent).fact("payer", hold.payer.as_str());
            let fault = fault.fact("needed", needed.to_string()).fact("available", available.to_string());
            fault.fact("currency", CURRENCY)
        };
        if **account == *AccountId::available(&hold.tenant, &hold.payer).key() {
            let message = format!(
                "insufficient balance: a turn of {} sets aside {needed} {CURRENCY}, and {} has {has}; add credit and send \
                 the message again",
                hold.agent, hold.payer
            );
            let fault = Fault::new(Kind::InsufficientBalance, message).fact("reason", "INSUFFICIENT_BALANCE");
            return Some(told(fault, has));
        }
        let budget = hold.budgets.iter().find(|budget| budget.account == *account)?;
        let left = budget.amount.plus(has).filter(|left| left.is_positive()).unwrap_or(Ut::ZERO);
        let next = match (&*budget.of, &*budget.window) {
            ("context", _) => "go on in another context, or have the budget raised",
            (_, "day") => "wait for the next day (UTC), or have the budget raised",
            (_, "month") => "wait for the next month (UTC), or have the budget raised",
            (_, _) => "have the budget raised",
        };
        let message = format!(
            "budget exceeded: a turn of {} sets aside {needed} {CURRENCY}, and of the budget of this {} ({} {CURRENCY}, {}) \
             {left} is left; {next}",
            hold.agent, budget.of, budget.amount, budget.window
        );
        let fault = Fault::new(Kind::BudgetExceeded, message).fact("reason", "BUDGET_EXCEEDED");
        Some(told(fault, left).fact("budget", &*budget.of).fact("window", &*budget.window))
    }
}

/// The account that a caller pays from: the user of the caller's name. A byte that a user id cannot have is written as
/// `~` and two hex digits, since the name of a caller by token has the address of its issuer.
fn payer(caller: &Arc<str>) -> UserId {
    use std::fmt::Write as _;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~@:+".contains(&byte);
    if caller.bytes().all(fits) {
        return UserId(caller.clone());
    }
    let mut id = String::with_capacity(caller.len() + 8);
    for byte in caller.bytes() {
        if fits(byte) && byte != b'~' {
            id.push(char::from(byte));
        } else {
            let _ = write!(id, "~{byte:02x}");
        }
    }
    UserId(id.into())
}

fn read(hold: &Json) -> serde_json::Result<TurnHold> {
    serde_json::from_str(hold.text())
}

pub(crate) fn turn_key(turn: TurnId) -> Arc<str> {
    turn.to_string().into()
}

/// The reservation of a hold.
fn held(hold: &TurnHold) -> Result<Reservation, EntryError> {
    let lists = vec![listed(ALL, hold.made_at.0)];
    let record = records::TURN_HOLDS.put(turn_key(hold.turn), Expect::Absent, hold, lists);
    let mut entries = vec![records::entry(&hold.frozen()?)];
    entries.extend(budget_entry(hold, Drawn::Hold, hold.amount, hold.made_at));
    // Rows have only texts and integers; serializing them cannot fail.
    let hold = Json::from_value(&serde_json::to_value(hold).unwrap_or_default());
    Ok(Reservation { hold, records: vec![record], entries })
}

/// The body of an entry on budgets, which moves no money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BudgetEntry {
    pub(crate) turn: TurnId,
    pub(crate) drawn: Drawn,
}
impl Row for BudgetEntry {
    const NAME: &'static str = "budget entry";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Drawn {
    /// The amount of a hold counts as spent until the cost is known.
    Hold,
    /// The unspent rest is returned to the budget.
    Back,
}

/// A budget is counted down from zero to its floor, against an account of the payer's that has none.
fn budget_entry(hold: &TurnHold, drawn: Drawn, amount: Ut, at: Time) -> Option<Entry> {
    let amount = amount.hundredths();
    let several = i64::try_from(hold.budgets.len()).ok().filter(|n| *n > 0 && amount > 0)?;
    let sign = match drawn {
        Drawn::Hold => -1,
        Drawn::Back => 1,
    };
    let mut postings: Vec<Posting> = Vec::with_capacity(hold.budgets.len() + 1);
    for budget in &hold.budgets {
        let floor = (drawn == Drawn::Hold).then(|| -budget.amount.hundredths());
        postings.push(Posting { account: budget.account.clone(), amount: sign * amount, floor });
    }
    let against = joined(&["b", &hold.tenant, "spent", hold.payer.as_str()]);
    postings.push(Posting { account: against, amount: -sign * amount.checked_mul(several)?, floor: None });
    let name = match drawn {
        Drawn::Hold => format!("turn/{}/budget", hold.turn),
        Drawn::Back => format!("turn/{}/budget-back", hold.turn),
    };
    let body = Bytes::from(BudgetEntry { turn: hold.turn, drawn }.to_row());
    Some(Entry { id: named(&name), at, body, postings })
}

fn named(name: &str) -> Uuid {
    let hash = Sha256::digest(name);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Ends the holds of turns: the cost to the payee, the rest back, and a receipt for the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarketSettlement;

impl Settlement for MarketSettlement {
    fn settle(&self, ended: &EndedTurn<'_>) -> Result<Settled, Fault> {
        let hold = read(ended.hold).map_err(Fault::internal)?;
        let facts = ended.facts.map(Json::to_value);
        let usage = Usage::told(facts.as_ref().and_then(|facts| facts.get("usage")), ended.ran_ms.unwrap_or_default());
        let cost = hold.cost(&usage, Owed::by(ended.state));
        let entry = hold.ended(cost, ended.now).map_err(Fault::internal)?;
        let mut entries = vec![records::entry(&entry)];
        let rest = hold.amount.minus(cost).unwrap_or(Ut::ZERO);
        entries.extend(budget_entry(&hold, Drawn::Back, rest, ended.now));
        let record = records::TURN_HOLDS.remove(turn_key(hold.turn), Expect::Version(1));
        let metadata = receipt(&hold, &usage, cost, entry.id().as_str(), ended);
        Ok(Settled { records: vec![record], entries, metadata })
    }
}

/// The caller's receipt: usage and cost of this turn, and the sums of the task's turns so far.
fn receipt(hold: &TurnHold, usage: &Usage, cost: Ut, entry: &str, ended: &EndedTurn<'_>) -> Json {
    let before = ended.metadata.map(Json::to_value);
    let before = before.as_ref().and_then(|metadata| metadata.get(EXTENSION)?.get("total"));
    let amount = before.and_then(|total| Ut::parse(total.get("amount")?.as_str()?).ok()).unwrap_or(Ut::ZERO);
    let turns = before.and_then(|total| total.get("turns")?.as_u64()).unwrap_or_default();
    let mut used = Map::new();
    used.insert("input_tokens".into(), usage.input_tokens.into());
    used.insert("output_tokens".into(), usage.output_tokens.into());
    if ended.ran_ms.is_some() {
        used.insert("ms".into(), usage.ran_ms.into());
    }
    Json::from_value(&json!({ EXTENSION: {
        "usage": used,
        "cost": { "amount": cost.to_string(), "currency": CURRENCY, "hold": hold.amount.to_string(), "entry": entry },
        "total": { "amount": amount.plus(cost).unwrap_or(amount).to_string(), "currency": CURRENCY, "turns": turns.saturating_add(1) },
    }}))
}
