//! The end of logins.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use super::super::sessions::LOGINS;
use super::*;
use crate::service::LoginTokens;
use crate::service::records;

async fn log_in(market: &Market, user: &str) -> LoginTokens {
    market.log_in(user, PASSWORD, HERE).await.unwrap()
}

async fn is_good(market: &Market, tokens: &LoginTokens) -> bool {
    shows(market, &tokens.access_token).await.is_ok()
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_ends_its_login_when_it_is_shown_again() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let (other, first) = (log_in(&market, "u_1").await, log_in(&market, "u_1").await);
    let second = market.refresh(&first.refresh_token).await.unwrap();
    assert!(is_good(&market, &first).await && is_good(&market, &second).await);
    assert_eq!(not_known(market.refresh(&first.refresh_token).await), NotKnown::Token);
    assert!(!is_good(&market, &first).await && !is_good(&market, &second).await, "one of the two had stolen it");
    assert_eq!(not_known(market.refresh(&second.refresh_token).await), NotKnown::Token);
    assert!(is_good(&market, &other).await, "another login of the same user goes on");
    market.refresh(&other.refresh_token).await.unwrap();
}

#[tokio::test]
async fn two_who_use_a_refresh_token_together_do_not_both_get_one() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let tokens = log_in(&market, "u_1").await;
    let all = futures_util::future::join_all((0..4).map(|_| market.refresh(&tokens.refresh_token))).await;
    let good: Vec<LoginTokens> = all.into_iter().flatten().collect();
    assert!(good.len() <= 1);
    for tokens in good {
        assert!(!is_good(&market, &tokens).await, "a second use ends it");
    }
}

#[tokio::test]
async fn logging_out_ends_one_login_or_all_of_a_user() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    person(&market, "u_2").await;
    let theirs = log_in(&market, "u_2").await;
    let [a, b, c] = [log_in(&market, "u_1").await, log_in(&market, "u_1").await, log_in(&market, "u_1").await];
    market.log_out(&a.access_token).await.unwrap();
    market.log_out(&a.access_token).await.unwrap();
    market.log_out(&b.refresh_token).await.unwrap();
    for over in [&a, &b] {
        assert!(!is_good(&market, over).await);
        assert_eq!(not_known(market.refresh(&over.refresh_token).await), NotKnown::Token);
        assert_eq!(not_known(market.log_out_everywhere(&over.access_token).await), NotKnown::Token);
    }
    assert!(is_good(&market, &c).await);
    assert_eq!(not_known(market.log_out("nonsense").await), NotKnown::Token);
    let d = log_in(&market, "u_1").await;
    market.log_out_everywhere(&c.access_token).await.unwrap();
    for over in [&c, &d] {
        assert!(!is_good(&market, over).await);
        assert_eq!(not_known(market.refresh(&over.refresh_token).await), NotKnown::Token);
    }
    assert!(is_good(&market, &theirs).await);
    assert!(is_good(&market, &log_in(&market, "u_1").await).await);
}

#[tokio::test]
async fn another_password_ends_every_login_but_its_own() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let (here, there) = (log_in(&market, "u_1").await, log_in(&market, "u_1").await);
    let change = |token: &str, current: &str, new: &str| {
        let (market, token, current, new) = (market.clone(), token.to_owned(), current.to_owned(), new.to_owned());
        async move { market.change_password(&token, &current, new, HERE).await }
    };
    assert_eq!(not_known(change(&here.access_token, "wrong horse", "another horse").await), NotKnown::Password);
    assert_eq!(not_known(change(&here.refresh_token, PASSWORD, "another horse").await), NotKnown::Token);
    assert_eq!(fields(change(&here.access_token, PASSWORD, "short").await), ["new_password"]);
    assert!(is_good(&market, &there).await);
    let anew = change(&here.access_token, PASSWORD, "another horse").await.unwrap();
    for over in [&here, &there] {
        assert!(!is_good(&market, over).await);
        assert_eq!(not_known(market.refresh(&over.refresh_token).await), NotKnown::Token);
    }
    assert!(is_good(&market, &anew).await);
    market.refresh(&anew.refresh_token).await.unwrap();
    assert_eq!(not_known(market.log_in("u_1", PASSWORD, HERE).await), NotKnown::Password);
    market.log_in("u_1", "another horse", HERE).await.unwrap();
}

/// Before logins were kept, tokens named none.
#[tokio::test]
async fn older_tokens_are_good_until_they_expire_once_and_until_all_logins_end() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let now = market.now().0 / 1_000;
    let older = |typ: &str, exp: i64| {
        let claims = json!({"sub": "u_1", "tenant": "default", "typ": typ, "iat": now, "exp": now + exp});
        let key = EncodingKey::from_secret(&market.shared.secrets.login);
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()
    };
    shows(&market, &older("access", 60)).await.unwrap();
    let refresh = older("refresh", 60);
    let tokens = market.refresh(&refresh).await.unwrap();
    assert!(is_good(&market, &tokens).await);
    assert_eq!(not_known(market.refresh(&refresh).await), NotKnown::Token);
    assert!(!is_good(&market, &tokens).await, "the second use ends what the first gave");
    let tokens = log_in(&market, "u_1").await;
    market.log_out_everywhere(&tokens.access_token).await.unwrap();
    assert_eq!(not_known(shows(&market, &older("access", 60)).await), NotKnown::Token);
    assert_eq!(not_known(market.refresh(&older("refresh", 61)).await), NotKnown::Token);
}

#[tokio::test]
async fn a_user_has_the_newest_logins_only_and_no_token_is_kept() {
    let (market, store) = market().await;
    let user = person(&market, "u_1").await;
    let first = market.begin_login(&user).await.unwrap();
    let mut last = first.clone();
    for _ in 0..LOGINS {
        pass_s(&market, &store, 1);
        last = market.begin_login(&user).await.unwrap();
    }
    assert!(!is_good(&market, &first).await && is_good(&market, &last).await);
    let list = records::joined(&["user", "default", "u_1"]);
    assert_eq!(store.count(records::LOGINS.kind(), &list).await, LOGINS);
    for token in [&last.access_token, &last.refresh_token] {
        assert!(!store.has_seen(token) && !store.has_seen(token.rsplit_once('.').unwrap().1));
    }
}
