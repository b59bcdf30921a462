//! Tests of authentication, on a store in memory whose clock the tests move.

mod devices;
mod keys;
mod logins;
mod sealed;
mod sessions;
mod tapped;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use engine::Engine;
use ledger::UserId;

use super::{Credentials, Issued, NewApiKey, NewUser, User};
use crate::service::{Error, Market, MarketCaller, MarketConfig, NotKnown};
use tapped::Tapped;

/// A market of a tenant.
async fn market_of(store: &Arc<Tapped>, tenant: &str) -> Market {
    let engine = Engine::builder(store.clone()).start().await.unwrap();
    let market =
        Market::start(engine, MarketConfig { tenant: tenant.into(), ..MarketConfig::default() }, false).await.unwrap();
    pass_s(&market, store, 0);
    market
}

/// Lets time pass. A task that was interrupted while it read the clock may be a little behind; the clock never goes
/// back.
fn pass_s(market: &Market, store: &Tapped, seconds: i64) {
    store.pass_s(seconds);
    while market.now() < store.now() {}
}

async fn market() -> (Market, Arc<Tapped>) {
    let store = Tapped::new();
    (market_of(&store, "default").await, store)
}

const PASSWORD: &str = "correct horse";
/// The default client address.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A user with an account of this name, which is also its id.
async fn person(market: &Market, name: &str) -> User {
    let new = NewUser {
        id: Some(name.into()),
        account: Some(name.into()),
        password: Some(PASSWORD.into()),
        ..NewUser::default()
    };
    market.open_user(new).await.unwrap()
}

/// A user without an account, linked to these platforms.
async fn agent(market: &Market, name: &str, platforms: &[&str]) -> User {
    let platforms = platforms.iter().map(|name| Arc::from(*name)).collect();
    market.open_user(NewUser { id: Some(name.into()), platforms, ..NewUser::default() }).await.unwrap()
}

async fn key_of(market: &Market, user: &UserId) -> Issued {
    market.issue_key(NewApiKey::User(user.clone()), None).await.unwrap()
}

async fn asks(market: &Market, key: &str, user: &str) -> Result<MarketCaller, Error> {
    market.who(Credentials { api_key: Some(key), user: Some(user), bearer: None }).await
}

async fn shows(market: &Market, token: &str) -> Result<MarketCaller, Error> {
    market.who(Credentials { bearer: Some(token), ..Credentials::default() }).await
}

/// The reason why the caller was not authenticated.
fn not_known<T>(answer: Result<T, Error>) -> NotKnown {
    match answer {
        Err(Error::Who(why)) => why,
        Err(other) => panic!("refused for another reason: {other:?}"),
        Ok(_) => panic!("it was let through"),
    }
}

/// The wait that the error names.
fn too_fast<T>(answer: Result<T, Error>) -> u64 {
    match answer {
        Err(Error::TooFast { retry_after_s }) => retry_after_s,
        Err(other) => panic!("refused for another reason: {other:?}"),
        Ok(_) => panic!("it was let through"),
    }
}

/// The fields that were wrong.
fn fields<T>(answer: Result<T, Error>) -> Vec<&'static str> {
    match answer {
        Err(Error::Fields(wrong)) => wrong.iter().map(|wrong| wrong.field).collect(),
        Err(other) => panic!("refused for another reason: {other:?}"),
        Ok(_) => panic!("it was let through"),
    }
}
