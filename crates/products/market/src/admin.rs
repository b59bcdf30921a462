//! Operators' commands of the market: users, credit from outside, the ledger and its check.

use std::sync::Arc;

use crate::service::{
    Error as ServiceError, Market, MarketConfig, MarketEntity, MarketReport, NewApiKey, NewUser, StatementLine,
};
use engine::Engine;
use futures_util::FutureExt as _;
use market_rules::ledger::AccountKind;
use market_rules::{AccountId, UserId, Ut, autonomy};
use model::{Fault, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MarketService;
use crate::api::begin_check;
use gateway::admin::{AdminCommand, AdminContext, AdminRequest, ApiRole, CommandAccess, RedactedText, wrong_arguments};

/// Maximum number of reported differences.
const MAX_DIFFERENCES: usize = 1_000;
const MOST_LINES: u32 = 100_000;

pub static COMMANDS: [AdminCommand; 1] = [AdminCommand {
    name: "market",
    creates_data: |arguments| arguments["wish"]["what"] == "open",
    is_audited: true,
    has_secrets: true,
    access,
    perform: |context, arguments| perform(context, arguments).boxed(),
}];

/// Users and money are the administration of the market, whose tenant is one for the whole server.
fn access(arguments: &Value) -> CommandAccess {
    CommandAccess::about_server(match arguments["wish"]["what"].as_str() {
        Some("ledger" | "verify") => ApiRole::Viewer,
        Some(_) | None => ApiRole::Admin,
    })
}

/// The command's arguments.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The market's tenant, for use without a running market.
    #[serde(default)]
    tenant: Option<String>,
    wish: MarketOperation,
}

/// The command that performs an operation.
pub fn request(tenant: Option<String>, wish: MarketOperation) -> Result<AdminRequest, serde_json::Error> {
    Ok(AdminRequest::Product(&COMMANDS[0], serde_json::to_value(Arguments { tenant, wish })?))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum MarketOperation {
    /// Creates a user, and a key.
    Open {
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        account: Option<String>,
        #[serde(default)]
        password: Option<RedactedText>,
        #[serde(default)]
        platforms: Vec<String>,
        /// Per call and per day, as decimal texts.
        #[serde(default)]
        limits: Option<(String, String)>,
        #[serde(default)]
        key: Option<OpenedKey>,
    },
    Credit {
        user: String,
        amount: String,
        #[serde(default)]
        reference: Option<String>,
        #[serde(default)]
        note: Option<String>,
    },
    Ledger {
        /// An account in the form that [`account`] parses; the journal if absent.
        #[serde(default)]
        account: Option<String>,
        limit: u32,
    },
    Verify,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenedKey {
    /// Acts for the new user.
    User,
    /// Acts for every user of the platform.
    Platform(String),
}

/// The market of the running server, or one that is opened for this command.
async fn market(engine: &Engine, running: Option<Market>, tenant: Option<String>) -> Result<Market, Fault> {
    match (running, tenant) {
        (Some(market), None) => Ok(market),
        (Some(market), Some(tenant)) if *market.config().tenant == *tenant => Ok(market),
        (Some(_) | None, tenant) => {
            let usual = MarketConfig::default();
            let tenant = tenant.map_or_else(|| usual.tenant.clone(), Arc::from);
            Market::start(engine.clone(), MarketConfig { tenant, ..usual }, false).await
        }
    }
}

async fn perform(context: &AdminContext<'_>, arguments: Value) -> Result<Value, Fault> {
    let Arguments { tenant, wish } = serde_json::from_value(arguments).map_err(wrong_arguments)?;
    let server = context.running.map(|running| running.serving.now());
    let running = server.and_then(|server| MarketService::settings(&server).map(|open| open.market.clone()));
    let market = &market(context.engine, running, tenant).await?;
    match wish {
        MarketOperation::Open { id, account, password, platforms, limits, key } => {
            let new = NewUser {
                id: id.as_deref().map(UserId::from),
                account: account.map(Arc::from),
                password: password.map(|password| password.0),
                platforms: platforms.into_iter().map(Arc::from).collect(),
                limits: limits.map(|(per_call, daily)| limits_of(market, &per_call, &daily)).transpose()?,
                acts_alone: false,
            };
            open(market, context, new, key).await.map_err(fault_of)
        }
        MarketOperation::Credit { user, amount, reference, note } => {
            let amount = ut("amount", &amount)?;
            credit(market, context, &user.as_str().into(), amount, reference, note).await.map_err(fault_of)
        }
        MarketOperation::Ledger { account: None, limit } => {
            journal(market, context.rows(limit)?).await.map_err(fault_of)
        }
        MarketOperation::Ledger { account: Some(name), limit } => {
            let account = account(&market.config().tenant, &name)?;
            statement(market, &account, context.rows(limit)?).await.map_err(fault_of)
        }
        MarketOperation::Verify => {
            let _running = context.requester.map(|_| begin_check()).transpose()?;
            market.verify().await.map(|report| verified(&report)).map_err(fault_of)
        }
    }
}

async fn open(
    market: &Market,
    context: &AdminContext<'_>,
    new: NewUser,
    key: Option<OpenedKey>,
) -> Result<Value, ServiceError> {
    let user = market.open_user(new).await?;
    let mut shown = json!({
        "user_id": user.id.as_str(),
        "tenant": &*user.tenant,
        "account": user.account.as_deref(),
        "platforms": user.platforms,
    });
    context.audit("market", json!({ "change": "opened", "user": user.id.as_str(), "tenant": &*user.tenant }));
    if let Some(key) = key {
        let wanted = match &key {
            OpenedKey::User => NewApiKey::User(user.id.clone()),
            OpenedKey::Platform(name) => NewApiKey::Platform(name.as_str().into()),
        };
        let issued = market.issue_key(wanted, None).await?;
        shown["api_key"] = json!(issued.api_key);
        let (platform, user) = match key {
            OpenedKey::User => (None, Some(user.id.as_str())),
            OpenedKey::Platform(name) => (Some(name), None),
        };
        context.audit("market", json!({ "change": "key created", "user": user, "platform": platform }));
    }
    Ok(shown)
}

async fn credit(
    market: &Market,
    context: &AdminContext<'_>,
    user: &UserId,
    amount: Ut,
    reference: Option<String>,
    words: Option<String>,
) -> Result<Value, ServiceError> {
    let reference = match reference {
        Some(reference) => reference,
        None => market.engine().new_task_id().to_string(),
    };
    let wallet = market.credit(user, amount, &reference, words.map(Arc::from)).await?;
    let shown = json!({
        "user_id": user.as_str(),
        "amount": amount.to_string(),
        "reference": reference,
        "available": wallet.available.to_string(),
        "frozen": wallet.frozen.to_string(),
    });
    let amount = amount.to_string();
    context.audit(
        "market",
        json!({ "change": "credited", "user": user.as_str(), "amount": amount, "reference": reference }),
    );
    Ok(shown)
}

async fn statement(market: &Market, account: &AccountId, limit: u32) -> Result<Value, ServiceError> {
    if let AccountKind::Available(user) | AccountKind::Frozen(user) = &account.purse
        && market.user(user).await?.is_none()
    {
        return Err(ServiceError::Unknown(MarketEntity::User));
    }
    let lines = market.lines(account, limit.min(MOST_LINES) as usize).await?;
    let shown = |line: &StatementLine| {
        json!({
            "id": line.id,
            "at": line.at.to_string(),
            "type": line.kind.name(),
            "amount": line.amount.to_string(),
            "balance_after": line.balance_after.to_string(),
            "transaction": line.transaction.map(|id| id.tx()),
            "note": line.note.as_deref(),
        })
    };
    Ok(json!({ "account": account.to_string(), "lines": lines.iter().map(shown).collect::<Vec<_>>() }))
}

async fn journal(market: &Market, limit: u32) -> Result<Value, ServiceError> {
    let entries = market.journal(limit.min(MOST_LINES) as usize).await?;
    let entries = entries.iter().map(|entry| {
        let lines = entry.lines.iter().map(|line| {
            json!({
                "account": line.account.to_string(),
                "type": line.kind.name(),
                "amount": line.amount.to_string(),
            })
        });
        json!({
            "place": entry.place,
            "id": entry.id.as_str(),
            "at": entry.at.to_string(),
            "transaction": entry.transaction.map(|id| id.tx()),
            "note": entry.note.as_deref(),
            "lines": lines.collect::<Vec<_>>(),
        })
    });
    Ok(json!({ "entries": entries.collect::<Vec<_>>() }))
}

pub(crate) fn verified(report: &MarketReport) -> Value {
    let differences: Vec<String> = report.words().take(MAX_DIFFERENCES).collect();
    json!({
        "clean": report.is_clean(),
        "accounts": report.accounts,
        "entries": report.entries,
        "transactions": report.transactions,
        "holds": report.holds,
        "turn_holds": report.turns,
        "entries_of_others": report.others,
        "at_work": report.moving,
        "differences": differences,
        "left_off": report.words().count().saturating_sub(MAX_DIFFERENCES),
    })
}

/// `available:USER`, `frozen:USER`, `commission` or `outside`.
pub fn account(tenant: &Arc<str>, name: &str) -> Result<AccountId, Fault> {
    match name.split_once(':') {
        Some(("available", user)) => Ok(AccountId::available(tenant, &user.into())),
        Some(("frozen", user)) => Ok(AccountId::frozen(tenant, &user.into())),
        None if name == "commission" => Ok(AccountId::commission(tenant)),
        None if name == "outside" => Ok(AccountId::outside(tenant)),
        Some(_) | None => Err(Fault::new(
            Kind::InvalidParams,
            format!("there is no account {name:?}; write available:USER, frozen:USER, commission or outside"),
        )),
    }
}

fn limits_of(market: &Market, per_call: &str, daily: &str) -> Result<autonomy::SpendingLimits, Fault> {
    let usual = market.config().limits;
    Ok(autonomy::SpendingLimits { per_call: ut("per-call", per_call)?, daily: ut("daily", daily)?, ..usual })
}

fn ut(name: &str, text: &str) -> Result<Ut, Fault> {
    Ut::parse(text).map_err(|error| Fault::new(Kind::InvalidParams, format!("{name}: {text:?} {error}")))
}

pub(crate) fn fault_of(refused: ServiceError) -> Fault {
    match refused {
        ServiceError::Fault(fault) => fault,
        refused @ (ServiceError::Rule(_)
        | ServiceError::Capability(_)
        | ServiceError::Demand(_)
        | ServiceError::Fields(_)
        | ServiceError::Unknown(_)
        | ServiceError::Who(_)
        | ServiceError::KeyReused
        | ServiceError::Taken(_)
        | ServiceError::TooFast { .. }
        | ServiceError::NotServed(_)) => Fault::new(Kind::InvalidParams, refused.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_names_for_people() {
        let tenant: Arc<str> = "default".into();
        for (name, shown) in [
            ("available:u:1", "default: available of u:1"),
            ("frozen:u_1", "default: frozen of u_1"),
            ("commission", "default: commission"),
            ("outside", "default: outside"),
        ] {
            assert_eq!(account(&tenant, name).unwrap().to_string(), shown);
        }
        assert!(account(&tenant, "savings:u_1").unwrap_err().message.contains("available:USER"));
        assert!(account(&tenant, "").is_err());
    }

    #[test]
    fn a_password_is_in_no_log() {
        let wish: MarketOperation =
            serde_json::from_str(r#"{"what":"open","account":"a","password":"hunter2hunter2"}"#).unwrap();
        assert!(!format!("{wish:?}").contains("hunter2"), "{wish:?}");
        assert!(serde_json::to_string(&wish).unwrap().contains("hunter2"), "the server has to be told");
    }
}
