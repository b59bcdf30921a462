//! Tests of keys.

use ledger::Ut;
use market_rules::{Via, autonomy};
use model::Kind;
use model::ports::store::Upkeep as _;
use proptest::prelude::*;

use super::super::LoginTokens;
use super::super::users::{account_key, is_id, is_name};
use super::*;
use crate::service::records;
use crate::service::{MarketEntity, Paging};

#[tokio::test]
async fn whoever_is_first_makes_the_keys_of_all() {
    let store = Tapped::new();
    let (a, b, c) =
        tokio::join!(market_of(&store, "default"), market_of(&store, "default"), market_of(&store, "default"));
    assert!(store.conflicts() > 0, "they did not race");
    let later = market_of(&store, "default").await;
    person(&a, "u_1").await;
    let token = a.log_in("u_1", PASSWORD, HERE).await.unwrap().access_token;
    for other in [&b, &c, &later] {
        assert_eq!(other.shared.secrets.callback, a.shared.secrets.callback);
        assert_eq!(shows(other, &token).await.unwrap().user, UserId::from("u_1"));
    }
    let drawn = &a.shared.secrets;
    assert_ne!(drawn.login, drawn.callback);
    assert_ne!(market().await.0.shared.secrets.login, drawn.login, "every store has its own");
}

#[tokio::test]
async fn a_key_acts_for_its_user_and_for_nobody_else() {
    let (market, _store) = market().await;
    agent(&market, "u_1", &[]).await;
    agent(&market, "u_2", &["p"]).await;
    let Issued { api_key: key, user } = key_of(&market, &"u_1".into()).await;
    assert_eq!((user, key.len(), &key[..3]), (Some("u_1".into()), 46, "uk_"));
    let caller = asks(&market, &key, "u_1").await.unwrap();
    let limits = market.config().limits;
    assert_eq!(caller, MarketCaller { tenant: "default".into(), user: "u_1".into(), via: Via::Agent, limits });

    let by = |api_key, user| market.who(Credentials { api_key, user, bearer: None });
    assert_eq!(not_known(by(None, None).await), NotKnown::Missing);
    assert_eq!(not_known(by(None, Some("u_1")).await), NotKnown::Missing);
    assert_eq!(not_known(by(Some(""), Some("u_1")).await), NotKnown::Missing);
    assert_eq!(not_known(by(Some(" "), Some("u_1")).await), NotKnown::Missing);
    assert_eq!(not_known(by(Some(&key), None).await), NotKnown::NoUser);
    assert_eq!(not_known(by(Some(&key), Some("")).await), NotKnown::NoUser);
    assert_eq!(not_known(by(Some("uk_nobody's"), Some("u_1")).await), NotKnown::Key);
    assert_eq!(not_known(by(Some(&key[..45]), Some("u_1")).await), NotKnown::Key);
    for other in ["u_2", "u_3", "U_1", "u_1\u{1f}", "é"] {
        assert_eq!(not_known(by(Some(&key), Some(other)).await), NotKnown::NotLinked, "{other:?}");
    }
}

#[tokio::test]
async fn a_platforms_key_acts_for_whoever_is_linked_to_it() {
    let (market, _store) = market().await;
    agent(&market, "u_1", &["p", "q"]).await;
    agent(&market, "u_2", &["q"]).await;
    let Issued { api_key: key, user } = market.issue_key(NewApiKey::Platform("p".into()), None).await.unwrap();
    assert_eq!((user, key.len(), &key[..3]), (None, 46, "pk_"));
    assert_eq!(asks(&market, &key, "u_1").await.unwrap().user, "u_1".into());
    assert_eq!(not_known(asks(&market, &key, "u_2").await), NotKnown::NotLinked);
    assert_eq!(not_known(asks(&market, &key, "u_3").await), NotKnown::NotLinked);
    // The platform itself is no user.
    assert_eq!(not_known(asks(&market, &key, "p").await), NotKnown::NotLinked);

    let linked = market.link(&"u_2".into(), "p").await.unwrap();
    assert_eq!(linked.platforms, ["p".into(), "q".into()]);
    assert_eq!(market.link(&"u_2".into(), "p").await.unwrap(), linked);
    assert_eq!(asks(&market, &key, "u_2").await.unwrap().user, "u_2".into());
    assert!(matches!(market.link(&"u_3".into(), "p").await, Err(Error::Unknown(MarketEntity::User))));
    assert_eq!(fields(market.link(&"u_2".into(), "p\n").await), ["platform"]);
    for number in 2..64 {
        market.link(&"u_2".into(), &format!("p{number}")).await.unwrap();
    }
    assert_eq!(fields(market.link(&"u_2".into(), "one more").await), ["platforms"]);
}

#[tokio::test]
async fn links_made_at_once_are_all_there() {
    let (market, store) = market().await;
    agent(&market, "u_1", &[]).await;
    let id = UserId::from("u_1");
    let (a, b, c) = tokio::join!(market.link(&id, "a"), market.link(&id, "b"), market.link(&id, "c"));
    for linked in [a, b, c] {
        linked.unwrap();
    }
    assert!(store.conflicts() > 0, "they did not race");
    assert_eq!(market.user(&id).await.unwrap().unwrap().platforms, ["a".into(), "b".into(), "c".into()]);
}

#[tokio::test]
async fn another_tenant_knows_neither_key_nor_user_nor_token() {
    let store = Tapped::new();
    let (a, b) = (market_of(&store, "a").await, market_of(&store, "b").await);
    person(&a, "u_1").await;
    let (key, tokens) = (key_of(&a, &"u_1".into()).await.api_key, a.log_in("u_1", PASSWORD, HERE).await.unwrap());
    assert!(b.user(&"u_1".into()).await.unwrap().is_none());
    assert_eq!(not_known(b.log_in("u_1", PASSWORD, HERE).await), NotKnown::Password);
    // Even where there is a user of the same name.
    person(&b, "u_1").await;
    assert_eq!(not_known(asks(&b, &key, "u_1").await), NotKnown::Key);
    assert_eq!(not_known(shows(&b, &tokens.access_token).await), NotKnown::Token);
    assert_eq!(not_known(b.refresh(&tokens.refresh_token).await), NotKnown::Token);
    assert_eq!(&*asks(&a, &key, "u_1").await.unwrap().tenant, "a");
}

#[tokio::test]
async fn a_key_wins_over_a_token() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    agent(&market, "u_2", &[]).await;
    let token = market.log_in("u_1", PASSWORD, HERE).await.unwrap().access_token;
    let key = key_of(&market, &"u_2".into()).await.api_key;
    let by = |api_key, user| market.who(Credentials { api_key, user, bearer: Some(&token) });
    let caller = by(Some(&key), Some("u_2")).await.unwrap();
    assert_eq!((caller.user, caller.via), ("u_2".into(), Via::Agent));
    // An invalid key does not fall back to the token.
    assert_eq!(not_known(by(Some("uk_x"), Some("u_2")).await), NotKnown::Key);
    assert_eq!(not_known(by(Some(&key), None).await), NotKnown::NoUser);
    assert_eq!(not_known(by(Some(&key), Some("u_1")).await), NotKnown::NotLinked);
    // Without a key, or with an empty one, the token decides, whatever the user header names.
    for empty in [None, Some("")] {
        let caller = by(empty, Some("u_2")).await.unwrap();
        assert_eq!((caller.user, caller.via), ("u_1".into(), Via::Person));
    }
}

#[tokio::test]
async fn limits_are_ones_own_or_the_markets() {
    let (market, _store) = market().await;
    let own = autonomy::SpendingLimits {
        per_call: Ut::from_hundredths(7),
        daily: Ut::from_hundredths(70),
        ..Default::default()
    };
    let new = NewUser { id: Some("u_1".into()), limits: Some(own), ..NewUser::default() };
    market.open_user(new).await.unwrap();
    agent(&market, "u_2", &[]).await;
    let (one, two) = (key_of(&market, &"u_1".into()).await.api_key, key_of(&market, &"u_2".into()).await.api_key);
    let markets = autonomy::SpendingLimits { per_call: Ut::from_hundredths(1), ..Default::default() };
    market.set_config(MarketConfig { limits: markets, ..MarketConfig::default() });
    assert_eq!(asks(&market, &one, "u_1").await.unwrap().limits, own);
    assert_eq!(asks(&market, &two, "u_2").await.unwrap().limits, markets);
}

#[tokio::test]
async fn a_chosen_secret_is_one_key_however_often_it_is_asked_for() {
    let (market, _store) = market().await;
    agent(&market, "u_1", &["p"]).await;
    agent(&market, "u_2", &["p"]).await;
    let chosen = "uk_demo_buyer_0000";
    let issue = |key: NewApiKey| market.issue_key(key, Some(chosen));
    let first = issue(NewApiKey::User("u_1".into())).await.unwrap();
    assert_eq!(first.api_key, chosen);
    assert_eq!(issue(NewApiKey::User("u_1".into())).await.unwrap(), first);
    for other in [NewApiKey::User("u_2".into()), NewApiKey::Platform("p".into())] {
        assert!(matches!(issue(other).await, Err(Error::Taken("key"))));
    }
    assert_eq!(asks(&market, chosen, "u_1").await.unwrap().user, "u_1".into());
    assert_eq!(not_known(asks(&market, chosen, "u_2").await), NotKnown::NotLinked);

    for bad in ["", "short", "with space in it here", "wïth letters nobody sends", &"x".repeat(257)] {
        assert_eq!(fields(market.issue_key(NewApiKey::User("u_1".into()), Some(bad)).await), ["api_key"], "{bad:?}");
    }
    let nobodys = market.issue_key(NewApiKey::User("u_3".into()), None).await;
    assert!(matches!(nobodys, Err(Error::Unknown(MarketEntity::User))));
    assert_eq!(fields(market.issue_key(NewApiKey::Platform("".into()), None).await), ["platform"]);
}

#[tokio::test]
async fn a_user_is_there_once_and_a_refused_one_not_at_all() {
    let (market, _store) = market().await;
    let made = person(&market, "u_1").await;
    assert_eq!(market.user(&made.id).await.unwrap(), Some(made.clone()));
    let open = |id: &str, account: &str, password: &str| {
        market.open_user(NewUser {
            id: Some(id.into()),
            account: Some(account.into()),
            password: Some(password.into()),
            ..NewUser::default()
        })
    };
    assert!(matches!(open("u_1", "another", PASSWORD).await, Err(Error::Taken("user"))));
    assert!(matches!(open("u_2", "u_1", PASSWORD).await, Err(Error::Taken("account"))));
    assert_eq!(market.user(&"u_2".into()).await.unwrap(), None);
    // The other name did not become an account either.
    assert_eq!(not_known(market.log_in("another", PASSWORD, HERE).await), NotKnown::Password);

    for bad in ["", "two words", "a/b", "a\u{1f}b", "é", &"x".repeat(129)] {
        assert_eq!(fields(open(bad, "a", PASSWORD).await), ["user_id"], "{bad:?}");
    }
    for bad in ["", " a", "a\n", "a\u{1f}b", "\u{7f}", &"é".repeat(129)] {
        assert_eq!(fields(open("u_3", bad, PASSWORD).await), ["account"], "{bad:?}");
    }
    for bad in ["", "1234567", &"é".repeat(257)] {
        assert_eq!(fields(open("u_3", "a", bad).await), ["password"], "{bad:?}");
    }
    assert_eq!(fields(open("", "", "").await), ["user_id", "account", "password"]);
    let without = NewUser { password: Some(PASSWORD.into()), ..NewUser::default() };
    assert_eq!(fields(market.open_user(without).await), ["account"]);
    open("u_3", &"é".repeat(128), &"é".repeat(256)).await.unwrap();
    open("u_4", "an account with spaces", "12345678").await.unwrap();

    let drawn = market.open_user(NewUser::default()).await.unwrap();
    assert_eq!(drawn.id.as_str().parse::<uuid::Uuid>().unwrap().get_version_num(), 4);
    let page = market.users(Paging { page: 1, size: 3 }).await.unwrap();
    assert_eq!((page.total, page.items.len(), page.more), (4, 3, true));
}

#[tokio::test]
async fn nothing_secret_is_in_a_record_or_in_a_log() {
    let (market, store) = market().await;
    let user = person(&market, "u_1").await;
    let issued = key_of(&market, &user.id).await;
    let tokens = market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    let device = market.device_asks("cursor").await.unwrap();
    assert!(store.has_seen("u_1") && store.has_seen("$argon2id$") && store.has_seen(&device.user_code));
    let new = NewUser { password: Some(PASSWORD.into()), ..NewUser::default() };
    let shown = Credentials { api_key: Some(&issued.api_key), user: None, bearer: Some(&tokens.access_token) };
    let printed = format!("{market:?} {user:?} {issued:?} {tokens:?} {device:?} {new:?} {shown:?}");
    let LoginTokens { access_token, refresh_token, .. } = &tokens;
    for secret in [PASSWORD, &issued.api_key, &issued.api_key[3..], access_token, refresh_token, &device.device_code] {
        assert!(!store.has_seen(secret), "{secret} is in the store");
        assert!(!printed.contains(secret), "{secret} is printed: {printed}");
    }
    assert!(!printed.contains("$argon2id$"));
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_not_an_unknown_key() {
    let (market, store) = market().await;
    agent(&market, "u_1", &[]).await;
    let key = key_of(&market, &"u_1".into()).await.api_key;
    store.close().await;
    match asks(&market, &key, "u_1").await {
        Err(Error::Fault(fault)) => assert_eq!(fault.kind, Kind::Unavailable),
        other => panic!("{other:?}"),
    }
}

/// Valid and invalid names.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c\u{1f}]{0,4}", "[a-z@:._-]{1,8}", any::<String>()]
}

proptest! {
    /// No two accepted names share a record.
    #[test]
    fn no_two_share_a_record(a in (text(), text(), text()), b in (text(), text(), text())) {
        let key = |(tenant, user, account): &(String, String, String)| {
            let user = is_id(user).then(|| records::user_key(tenant, &user.as_str().into()));
            let account = is_name(account).then(|| account_key(tenant, account));
            is_name(tenant).then_some((user, account))
        };
        if let (Some(one), Some(other)) = (key(&a), key(&b)) {
            if let (Some(one), Some(other)) = (&one.0, &other.0) {
                prop_assert_eq!(one == other, (&a.0, &a.1) == (&b.0, &b.1));
            }
            if let (Some(one), Some(other)) = (&one.1, &other.1) {
                prop_assert_eq!(one == other, (&a.0, &a.2) == (&b.0, &b.2));
            }
        }
        let print = super::super::secrets::print;
        prop_assert_eq!(print(&a.2) == print(&b.2), a.2 == b.2);
        prop_assert!(!print(&a.2).contains(char::is_control));
    }
}
