//! The market in the admin API: its ledger, what is set aside, purchases and listings.
//!
//! The whole market is of one tenant: a caller of another tenant gets empty lists.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway::GatewayVersion;
use gateway::admin_api::{ApiContext, ApiProblem, ApiRoute, ID, USUAL_PAGE, json, limit, ok, param};
use gateway::product::MoneyOfTask;
use ledger::{AccountKind, Ut};
use market_rules::transaction::Status;
use market_rules::{Capability, Transaction};
use model::{Fault, Kind, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};
use web::body::Response;
use web::openapi::{ParamKind, QueryParam};

use crate::MarketService;
use crate::admin::{account, fault_of, verified};
use crate::service::{BalancedEntry, Error, Market, PRICE_EXTENSION};

const CURRENCY: &str = "UT";

/// The pages of the console.
pub(crate) static PAGES: [&str; 1] = ["market"];

/// The check reads the whole journal into memory, so that one runs at a time.
static CHECKS: Mutex<()> = Mutex::const_new(());

fn statuses() -> Vec<&'static str> {
    Status::ALL.iter().map(|status| status.name()).collect()
}

const CURSOR: QueryParam =
    param("cursor", "The `next` of the page before, with the same filters.", ParamKind::Text { most: 1_024 });
const JOURNAL: &[QueryParam] = &[
    param(
        "account",
        "Only entries of this account: `available:USER`, `frozen:USER`, `commission` or `outside`.",
        ParamKind::Text { most: ID },
    ),
    limit(),
    param("before", "The `next` of the page before.", ParamKind::Number { least: 0, most: u32::MAX, usual: None }),
];
const ACCOUNTS: &[QueryParam] = &[limit(), CURSOR];
const PURCHASES: &[QueryParam] =
    &[param("status", "Only purchases in this status.", ParamKind::OneOf(statuses)), limit(), CURSOR];

pub(crate) static ROUTES: [ApiRoute; 6] = [
    ApiRoute::get(
        "/ledger",
        "Entries of the market's journal, newest first, with the balance after each line",
        json::<LedgerPage>(),
        |context| Box::pin(journal(context)),
    )
    .query(JOURNAL),
    ApiRoute::get(
        "/ledger/accounts",
        "Accounts of the market with their balances",
        json::<AccountsPage>(),
        |context| Box::pin(accounts(context)),
    )
    .query(ACCOUNTS),
    ApiRoute::get(
        "/ledger/escrow",
        "What is set aside, by the status of purchases",
        json::<ShownEscrow>(),
        |context| Box::pin(escrow(context)),
    ),
    ApiRoute::post(
        "/ledger:verify",
        "Recomputes every balance and hold from the journal; nothing is changed",
        json::<Verified>(),
        |context| Box::pin(verify(context)),
    )
    .about_server()
    .refuses(&[404]),
    ApiRoute::get("/purchases", "Purchases, newest first", json::<PurchasesPage>(), |context| {
        Box::pin(purchases(context))
    })
    .query(PURCHASES),
    ApiRoute::get(
        "/listings",
        "Capabilities that are on the market, newest first",
        json::<ListingsPage>(),
        |context| Box::pin(listings(context)),
    )
    .query(ACCOUNTS),
];

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LedgerLine")]
struct LedgerLine {
    /// As the parameter `account` takes it.
    account: String,
    /// `freeze`, `unfreeze`, `settle_out`, `income`, `commission`, `recharge` or `withdraw`.
    #[serde(rename = "type")]
    kind: String,
    amount: String,
    /// The balance of the account after the line; null in a list of another account's entries.
    balance: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LedgerEntry")]
struct ShownEntry {
    place: u64,
    id: String,
    at: String,
    /// The purchase, where it is of one.
    transaction: Option<String>,
    /// The task of the purchase.
    task: Option<String>,
    note: Option<String>,
    lines: Vec<LedgerLine>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ledger")]
struct LedgerPage {
    currency: String,
    entries: Vec<ShownEntry>,
    /// The `before` of the next page; null on the last one. A page may be short, or empty, although more follow.
    next: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LedgerAccount")]
struct ShownAccount {
    account: String,
    balance: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LedgerAccounts")]
struct AccountsPage {
    currency: String,
    accounts: Vec<ShownAccount>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EscrowState")]
struct EscrowState {
    /// The status of the purchases.
    status: String,
    purchases: u64,
    /// The sum of their prices.
    price: String,
    /// The money that is set aside for them.
    held: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Escrow")]
struct ShownEscrow {
    currency: String,
    states: Vec<EscrowState>,
    /// The number of turns of agents with a price that run.
    turns: u64,
    /// The money that is set aside for them.
    turns_held: String,
    /// False where only the newest 10,000 purchases were counted.
    exact: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "LedgerCheck")]
struct Verified {
    clean: bool,
    accounts: u64,
    entries: u64,
    transactions: u64,
    holds: u64,
    turn_holds: u64,
    entries_of_others: u64,
    /// Money moved during the check, so that only lasting differences are listed.
    at_work: bool,
    differences: Vec<String>,
    left_off: usize,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Purchase")]
struct ShownPurchase {
    /// The id of the market.
    id: String,
    /// The id of its task.
    task: String,
    capability: String,
    buyer: String,
    seller: String,
    price: String,
    /// The platform's part of the price.
    commission: String,
    status: String,
    /// `agent_autonomous`, `user_confirmed`, `user_manual` or `platform_auto`.
    decided_by: String,
    /// Why it was rejected or failed.
    reason: Option<String>,
    /// Who acts next, and until when.
    deadline: Option<String>,
    due_at: Option<String>,
    created_at: String,
    updated_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Purchases")]
struct PurchasesPage {
    currency: String,
    purchases: Vec<ShownPurchase>,
    /// The `cursor` of the next page; null on the last one. A page may be short, or empty, although more follow.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Listing")]
struct ShownListing {
    id: String,
    seller: String,
    title: String,
    category: String,
    price: String,
    pricing_model: String,
    status: String,
    created_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Listings")]
struct ListingsPage {
    currency: String,
    listings: Vec<ShownListing>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

/// The market, if there is one that the caller sees.
fn market<'a>(context: &'a ApiContext<'_>) -> Option<&'a Market> {
    let market = &MarketService::settings(context.server())?.market;
    context.sees(&market.config().tenant).then_some(market)
}

fn refused(error: Error) -> ApiProblem {
    fault_of(error).into()
}

/// The name of an account, as operators write it.
fn named(purse: &AccountKind) -> String {
    match purse {
        AccountKind::Available(user) => format!("available:{user}"),
        AccountKind::Frozen(user) => format!("frozen:{user}"),
        AccountKind::Commission => "commission".to_owned(),
        AccountKind::Outside => "outside".to_owned(),
    }
}

impl ShownEntry {
    fn of(entry: &BalancedEntry) -> ShownEntry {
        let booked = &entry.booked;
        let lines = booked.lines.iter().zip(&entry.balances).map(|(line, balance)| LedgerLine {
            account: named(&line.account.purse),
            kind: line.kind.name().to_owned(),
            amount: line.amount.to_string(),
            balance: balance.map(|balance| balance.to_string()),
        });
        ShownEntry {
            place: entry.place,
            id: booked.id.to_string(),
            at: entry.at.to_string(),
            transaction: booked.transaction.map(|id| id.tx()),
            task: booked.transaction.map(|id| id.0.to_string()),
            note: booked.note.as_deref().map(str::to_owned),
            lines: lines.collect(),
        }
    }
}

async fn journal(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let before = context.http.query_param("before").and_then(|text| text.parse().ok());
    let (mut entries, mut next) = (Vec::new(), None);
    if let Some(market) = market(context) {
        let tenant = market.config().tenant.clone();
        let wrong = |_| ApiProblem::field("account", "must be available:USER, frozen:USER, commission or outside");
        let only = context.http.query_param("account").map(|name| account(&tenant, name).map_err(wrong)).transpose()?;
        let limit = context.number("limit", USUAL_PAGE) as usize;
        let page = market.journal_page(only.as_ref(), before, limit).await.map_err(refused)?;
        (entries, next) = (page.rows.iter().map(ShownEntry::of).collect(), page.next);
    }
    ok(&LedgerPage { currency: CURRENCY.to_owned(), entries, next })
}

/// A place in a list of records, as a cursor.
fn write_cursor((rank, key): &(i64, Arc<str>)) -> String {
    URL_SAFE_NO_PAD.encode(format!("{rank}\n{key}"))
}

fn read_cursor(context: &ApiContext<'_>) -> Result<Option<String>, ApiProblem> {
    let read = |text: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    let wrong = || ApiProblem::field("cursor", "is not one of this list; start again without it");
    context.http.query_param("cursor").map(|text| read(text).ok_or_else(wrong)).transpose()
}

fn read_place(context: &ApiContext<'_>) -> Result<Option<(i64, Arc<str>)>, ApiProblem> {
    let read = |text: String| {
        let (rank, key) = text.split_once('\n')?;
        Some((rank.parse().ok()?, key.into()))
    };
    let wrong = || ApiProblem::field("cursor", "is not one of this list; start again without it");
    read_cursor(context)?.map(|text| read(text).ok_or_else(wrong)).transpose()
}

async fn accounts(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_cursor(context)?.map(Arc::from);
    let (mut accounts, mut next) = (Vec::new(), None);
    if let Some(market) = market(context) {
        let page = market.accounts_page(after, context.number("limit", USUAL_PAGE) as usize).await.map_err(refused)?;
        let shown = page
            .rows
            .iter()
            .map(|(account, balance)| ShownAccount { account: named(&account.purse), balance: balance.to_string() });
        (accounts, next) = (shown.collect(), page.next.map(|key| URL_SAFE_NO_PAD.encode(&*key)));
    }
    ok(&AccountsPage { currency: CURRENCY.to_owned(), accounts, next })
}

async fn escrow(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let aside = match market(context) {
        Some(market) => market.set_aside().await.map_err(refused)?,
        None => Default::default(),
    };
    let states = Status::ALL.iter().filter_map(|status| Some((status.name(), aside.by_status.get(status.name())?)));
    let states = states.map(|(status, escrow)| EscrowState {
        status: status.to_owned(),
        purchases: escrow.purchases,
        price: escrow.price.to_string(),
        held: escrow.held.to_string(),
    });
    ok(&ShownEscrow {
        currency: CURRENCY.to_owned(),
        states: states.collect(),
        turns: aside.turns,
        turns_held: aside.turns_held.to_string(),
        exact: aside.is_whole,
    })
}

/// The right to check the ledger for a caller of the admin API.
pub(crate) fn begin_check() -> Result<MutexGuard<'static, ()>, Fault> {
    let busy = |_| Fault::new(Kind::Unavailable, "a check runs already; ask again when it is done").retry_after(5);
    CHECKS.try_lock().map_err(busy)
}

async fn verify(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let market = market(context).ok_or_else(|| ApiProblem::missing("this server has no market"))?;
    let _running = begin_check()?;
    let report = market.verify().await.map_err(refused)?;
    let shown: Verified = serde_json::from_value(verified(&report)).map_err(Fault::internal)?;
    ok(&shown)
}

impl ShownPurchase {
    fn of(one: &Transaction) -> ShownPurchase {
        ShownPurchase {
            id: one.id.tx(),
            task: one.id.0.to_string(),
            capability: one.capability.to_string(),
            buyer: one.buyer.to_string(),
            seller: one.seller.to_string(),
            price: one.price.to_string(),
            commission: one.commission.to_string(),
            status: one.status.name().to_owned(),
            decided_by: one.decision_source.name().to_owned(),
            reason: one.reason.as_deref().map(str::to_owned),
            deadline: one.due.map(|due| due.deadline.name().to_owned()),
            due_at: one.due.map(|due| due.at.to_string()),
            created_at: one.created_at.to_string(),
            updated_at: one.updated_at.to_string(),
        }
    }
}

async fn purchases(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_place(context)?;
    let status = context.http.query_param("status").and_then(|name| Status::ALL.iter().find(|one| one.name() == name));
    let (mut purchases, mut next) = (Vec::new(), None);
    if let Some(market) = market(context) {
        let limit = context.number("limit", USUAL_PAGE) as usize;
        let page = market.purchases_page(status.copied(), after, limit).await.map_err(refused)?;
        (purchases, next) = (page.rows.iter().map(ShownPurchase::of).collect(), page.next.as_ref().map(write_cursor));
    }
    ok(&PurchasesPage { currency: CURRENCY.to_owned(), purchases, next })
}

impl ShownListing {
    fn of(one: &Capability) -> ShownListing {
        ShownListing {
            id: one.id.to_string(),
            seller: one.owner.to_string(),
            title: one.terms.title.to_string(),
            category: one.terms.category.to_string(),
            price: one.terms.price.to_string(),
            pricing_model: one.terms.pricing_model.name().to_owned(),
            status: one.status.name().to_owned(),
            created_at: one.created_at.to_string(),
        }
    }
}

async fn listings(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_place(context)?;
    let (mut listings, mut next) = (Vec::new(), None);
    if let Some(market) = market(context) {
        let page = market.listings_page(after, context.number("limit", USUAL_PAGE)).await.map_err(refused)?;
        (listings, next) = (page.rows.iter().map(ShownListing::of).collect(), page.next.as_ref().map(write_cursor));
    }
    ok(&ListingsPage { currency: CURRENCY.to_owned(), listings, next })
}

/// The money of a task: of a purchase, or of an agent's turns that have a price.
pub(crate) async fn money(server: &GatewayVersion, task: &Task) -> Result<Vec<MoneyOfTask>, Fault> {
    let mut all = Vec::new();
    if let Some(settings) = MarketService::settings(server) {
        let found = settings.market.purchase_of_task(task.id).await.map_err(fault_of)?;
        all.extend(found.filter(|found| found.tenant == task.tenant).map(|found| of_purchase(task, &found)));
    }
    all.extend(of_turns(task));
    Ok(all)
}

fn of_purchase(task: &Task, found: &Transaction) -> MoneyOfTask {
    let paid = if found.status == Status::Settled { found.price } else { Ut::ZERO };
    let held = if found.status.holds_money() { found.price } else { Ut::ZERO };
    MoneyOfTask {
        task: task.id.to_string(),
        agent: task.agent.to_string(),
        what: "purchase".to_owned(),
        state: found.status.name().to_owned(),
        currency: CURRENCY.to_owned(),
        charged: paid.to_string(),
        held: held.to_string(),
        payer: Some(found.buyer.to_string()),
        payee: Some(found.seller.to_string()),
        entries: Vec::new(),
        at: found.updated_at.to_string(),
    }
}

/// The receipts in the task's metadata, and what is set aside for the turn that runs.
fn of_turns(task: &Task) -> Option<MoneyOfTask> {
    let receipt = task.metadata.as_ref().filter(|json| json.text().contains(PRICE_EXTENSION));
    let receipt = receipt.map(|json| json.to_value()).map(|metadata| metadata[PRICE_EXTENSION].clone());
    let hold = task.due.as_ref().and_then(|due| due.hold.as_ref()).map(|hold| hold.to_value());
    if receipt.is_none() && hold.is_none() {
        return None;
    }
    let text = |value: Option<&str>| value.unwrap_or("0.00").to_owned();
    let total = receipt.as_ref().map(|receipt| &receipt["total"]);
    let entry = receipt.as_ref().and_then(|receipt| receipt["cost"]["entry"].as_str());
    let held = hold.as_ref().and_then(|hold| Ut::deserialize(&hold["amount"]).ok());
    Some(MoneyOfTask {
        task: task.id.to_string(),
        agent: task.agent.to_string(),
        what: "turns".to_owned(),
        state: if hold.is_some() { "held" } else { "charged" }.to_owned(),
        currency: CURRENCY.to_owned(),
        charged: text(total.and_then(|total| total["amount"].as_str())),
        held: held.map_or_else(|| text(None), |held| held.to_string()),
        payer: hold.as_ref().and_then(|hold| hold["payer"].as_str()).map(str::to_owned),
        payee: hold.as_ref().and_then(|hold| hold["seller"].as_str()).map(str::to_owned),
        entries: entry.map(str::to_owned).into_iter().collect(),
        at: task.status.at.to_string(),
    })
}
