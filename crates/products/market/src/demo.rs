//! The demo's market: a seller, a buyer, and a capability between them.
//!
//! Users and capability have the same ids everywhere. Keys are generated once and stay in `demo.json`; a folder
//! without one, such as that of another replica on the same store, gets its own keys for the same users.

use crate::service::{Credentials, Error as Refused, Market, MarketCaller, MarketEntity as What, NewApiKey, NewUser};
use anyhow::Context;
use gateway::product::config::drawn;
use market_rules::capability::{CapabilityAction, CapabilityDraft, Status};
use market_rules::{CapabilityId, UserId, Ut, autonomy};
use model::Json;
use serde_json::{Map, Value};

pub const SECTION: &str = "uumit";

const CAPABILITY: &str = "cap_ocr_invoice_v1";
/// The buyer's initial balance, in hundredths; its agents' spending limit is higher.
const CREDIT: Ut = Ut::from_hundredths(1_000_000 * 100);
const REFERENCE: &str = "demo";

struct Party {
    /// The login account.
    account: &'static str,
    id: &'static str,
    /// The members of the section with its id, key, password and account.
    members: [&'static str; 4],
}

const BUYER: Party = Party {
    account: "buyer",
    id: "0b4e6f52-7d1c-4a39-8f25-6c1d9e3b7a10",
    members: ["user_id", "api_key", "password", "account"],
};
const SELLER: Party = Party {
    account: "seller",
    id: "5e11e7b3-2c84-4d0f-9b6a-d47f08c5a1e2",
    members: ["seller_user_id", "seller_api_key", "seller_password", "seller_account"],
};

/// The section of a new `demo.json`.
pub async fn section(market: &Market) -> anyhow::Result<Map<String, Value>> {
    let mut members = Map::new();
    for party in [&BUYER, &SELLER] {
        let [id, key, password, account] = party.members;
        members.insert(id.into(), party.id.into());
        members.insert(key.into(), format!("uk_demo_{}", drawn()?).into());
        // The password of an existing user is not known any more.
        if known(market.user(&party.id.into()).await)?.is_none() {
            members.insert(password.into(), drawn()?.into());
            members.insert(account.into(), party.account.into());
        }
    }
    members.insert("capability_id".into(), CAPABILITY.into());
    Ok(members)
}

/// Creates the users and the capability of `demo.json`. Existing data stays as it is.
pub async fn open(market: &Market, told: &Map<String, Value>) -> anyhow::Result<()> {
    let told = told.get(SECTION).cloned().unwrap_or_default();
    let member = |name: &str| {
        told[name]
            .as_str()
            .with_context(|| format!("demo.json has no {SECTION}.{name}; remove the file and start again"))
    };
    for party in [&BUYER, &SELLER] {
        let [id, key, password, _] = party.members;
        let id: UserId = member(id)?.into();
        if known(market.user(&id).await)?.is_none() {
            make(market, party, id.clone(), told[password].as_str()).await?;
        }
        known(market.issue_key(NewApiKey::User(id), Some(member(key)?)).await)?;
    }
    match market.credit(&member(BUYER.members[0])?.into(), CREDIT, REFERENCE, Some("to try it with".into())).await {
        Ok(_) => {}
        Err(Refused::Taken(_)) => tracing::warn!("the demo's credit went to another user"),
        Err(refused) => return known(Err(refused)),
    }
    let [id, key, _, _] = SELLER.members;
    let shown = Credentials { api_key: Some(member(key)?), user: Some(member(id)?), bearer: None };
    let seller = known(market.who(shown).await)?;
    offer(market, &seller, &member("capability_id")?.into()).await
}

async fn make(market: &Market, party: &Party, id: UserId, password: Option<&str>) -> anyhow::Result<()> {
    let much = CREDIT.times(1_000).unwrap_or(CREDIT);
    let mut new = NewUser {
        id: Some(id),
        account: password.map(|_| party.account.into()),
        password: password.map(str::to_owned),
        limits: Some(autonomy::SpendingLimits { per_call: much, daily: much, ..autonomy::SpendingLimits::default() }),
        acts_alone: true,
        ..NewUser::default()
    };
    match market.open_user(new.clone()).await {
        // Another replica was faster.
        Ok(_) | Err(Refused::Taken("user")) => Ok(()),
        Err(Refused::Taken(_)) => {
            tracing::warn!("another user has the account {:?}; the demo's user cannot log in", party.account);
            (new.account, new.password) = (None, None);
            known(market.open_user(new).await).map(drop)
        }
        Err(refused) => known(Err(refused)),
    }
}

async fn offer(market: &Market, seller: &MarketCaller, id: &CapabilityId) -> anyhow::Result<()> {
    let offer = match market.capability(Some(seller), id).await {
        Ok(offer) => offer,
        Err(Refused::Unknown(What::Capability)) => match market.offer(seller, draft(), Some(id.clone()), None).await {
            Ok(offer) => offer,
            Err(Refused::Taken(_)) => return Ok(()),
            Err(refused) => return known(Err(refused)),
        },
        Err(refused) => return known(Err(refused)),
    };
    if offer.owner != seller.user || offer.status != Status::Draft {
        return Ok(());
    }
    known(market.change_capability(&seller.actor(), id, CapabilityAction::Submit, None).await).map(drop)
}

fn draft() -> CapabilityDraft {
    CapabilityDraft {
        title: Some("OCR of invoices".into()),
        description: Some("Reads an invoice and answers with what stands in it".into()),
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        price_ut: Json::parse("120"),
        tags: vec!["ocr".into(), "invoice".into()],
        ..CapabilityDraft::default()
    }
}

/// A command that buys the capability.
pub fn try_it(base: &str, section: &Value) -> String {
    let text = |name: &str| section[name].as_str().unwrap_or_default();
    let [user, key, _, _] = BUYER.members;
    format!(
        r#"curl -s {base}/a2a -H 'Content-Type: application/json' -H 'X-Api-Key: {}' -H 'X-Platform-User-Id: {}' -d '{{"jsonrpc":"2.0","id":"1","method":"tasks/send","params":{{"capability_id":"{}"}}}}'"#,
        text(key),
        text(user),
        text("capability_id")
    )
}

/// Adds the cause, which only operators see.
fn known<T>(outcome: Result<T, Refused>) -> anyhow::Result<T> {
    outcome.map_err(|refused| match &refused {
        Refused::Fault(fault) => anyhow::anyhow!("{fault} ({})", fault.cause_text()),
        Refused::Rule(_)
        | Refused::Capability(_)
        | Refused::Demand(_)
        | Refused::Fields(_)
        | Refused::Unknown(_)
        | Refused::Who(_)
        | Refused::KeyReused
        | Refused::Taken(_)
        | Refused::TooFast { .. }
        | Refused::NotServed(_) => anyhow::anyhow!("{refused}"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::service::{MarketConfig, OrderRequest as Wish};
    use engine::Engine;
    use market_rules::transaction::Status as Step;

    use super::*;
    use gateway::product::demo_file as demo;

    async fn market() -> Market {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let engine = Engine::builder(store).start().await.unwrap();
        Market::start(engine, MarketConfig::default(), false).await.unwrap()
    }

    /// One start of the demo.
    async fn start(market: &Market, folder: &std::path::Path) -> Value {
        let told = demo::write(folder, "http://127.0.0.1:1", &[(SECTION, section(market).await.unwrap())]).unwrap();
        open(market, &told).await.unwrap();
        told[SECTION].clone()
    }

    async fn buyer(market: &Market, told: &Value) -> MarketCaller {
        let shown = Credentials { api_key: told["api_key"].as_str(), user: told["user_id"].as_str(), bearer: None };
        market.who(shown).await.unwrap()
    }

    #[tokio::test]
    async fn keys_stay_the_same_and_are_drawn_anew_when_the_file_is_lost() {
        let (market, folder) = (market().await, tempfile::tempdir().unwrap());
        let first = start(&market, folder.path()).await;
        for member in ["api_key", "user_id", "seller_api_key", "seller_user_id", "capability_id", "password"] {
            assert!(first[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {first}");
        }
        assert_eq!(start(&market, folder.path()).await, first);

        std::fs::remove_file(folder.path().join(demo::FILE)).unwrap();
        let second = start(&market, folder.path()).await;
        assert_ne!(second["api_key"], first["api_key"]);
        assert_eq!(second["user_id"], first["user_id"]);
        assert!(second["password"].is_null(), "nobody knows it any more");
        // Copies of the old key keep working.
        assert_eq!(buyer(&market, &first).await.user, buyer(&market, &second).await.user);
        let wallet = market.wallet(&buyer(&market, &second).await.user).await.unwrap();
        assert_eq!(wallet.available, CREDIT, "credited once");
    }

    #[tokio::test]
    async fn a_store_that_was_lost_is_filled_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let first = start(&market().await, folder.path()).await;
        let market = market().await;
        assert_eq!(start(&market, folder.path()).await, first);
        let password = first["password"].as_str().unwrap();
        assert_eq!(
            market.log_in(BUYER.account, password, [127, 0, 0, 1].into()).await.unwrap().user.as_str(),
            BUYER.id
        );
    }

    #[tokio::test]
    async fn the_buyers_agent_may_buy_what_is_for_sale() {
        let folder = tempfile::tempdir().unwrap();
        let market = market().await;
        let told = start(&market, folder.path()).await;
        let row = market.order(&buyer(&market, &told).await, Wish::of(CAPABILITY.into()), None).await.unwrap();
        assert_eq!((row.status, row.state()), (Step::PendingFreeze, model::State::Submitted));
        assert_eq!(row.price.to_string(), "120");
        assert!(try_it("http://h", &told).contains(told["api_key"].as_str().unwrap()));
    }
}
