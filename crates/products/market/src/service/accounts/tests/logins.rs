//! Tests of logins by password.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use market_rules::Via;
use serde_json::{Value, json};

use super::super::attempts::FREE;
use super::super::login::{TOGETHER, WAITING};
use super::*;

#[tokio::test]
async fn a_login_is_good_for_as_long_as_it_says() {
    let (market, store) = market().await;
    person(&market, "u_1").await;
    let tokens = market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    assert_eq!((tokens.user.as_str(), tokens.expires_in_s), ("u_1", 3_600));
    let caller = shows(&market, &tokens.access_token).await.unwrap();
    assert_eq!((caller.user.as_str(), caller.via), ("u_1", Via::Person));
    // An access token is no refresh token, and the other way round.
    assert_eq!(not_known(shows(&market, &tokens.refresh_token).await), NotKnown::Token);
    assert_eq!(not_known(market.refresh(&tokens.access_token).await), NotKnown::Token);

    pass_s(&market, &store, 3_599);
    shows(&market, &tokens.access_token).await.unwrap();
    pass_s(&market, &store, 1);
    assert_eq!(not_known(shows(&market, &tokens.access_token).await), NotKnown::Token);
    let anew = market.refresh(&tokens.refresh_token).await.unwrap();
    assert_eq!(shows(&market, &anew.access_token).await.unwrap().user, "u_1".into());
    assert_ne!((&anew.access_token, &anew.refresh_token), (&tokens.access_token, &tokens.refresh_token));

    pass_s(&market, &store, 30 * 86_400 - 3_600);
    let again = market.refresh(&anew.refresh_token).await.unwrap();
    pass_s(&market, &store, 30 * 86_400);
    assert_eq!(not_known(market.refresh(&again.refresh_token).await), NotKnown::Token);
}

#[tokio::test]
async fn no_other_token_is_good() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let now = market.now().0 / 1_000;
    let good = json!({"sub": "u_1", "tenant": "default", "typ": "access", "iat": now, "exp": now + 60});
    let made = |alg: Algorithm, key: &[u8], claims: &Value| {
        jsonwebtoken::encode(&Header::new(alg), claims, &EncodingKey::from_secret(key)).unwrap()
    };
    let own = &market.shared.secrets.login[..];
    let with = |member: &str, value: Value| {
        let mut claims = good.clone();
        claims[member] = value;
        claims
    };
    shows(&market, &made(Algorithm::HS256, own, &good)).await.unwrap();

    let token = made(Algorithm::HS256, own, &good);
    let (head, rest) = token.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    // {"alg":"none","typ":"JWT"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let bad = [
        made(Algorithm::HS384, own, &good),
        made(Algorithm::HS512, own, &good),
        made(Algorithm::HS256, &[0; 32], &good),
        made(Algorithm::HS256, &market.shared.secrets.callback, &good),
        made(Algorithm::HS256, own, &with("sub", json!("u_2"))),
        made(Algorithm::HS256, own, &with("sub", json!("u_1\u{1f}"))),
        made(Algorithm::HS256, own, &with("tenant", json!("another"))),
        made(Algorithm::HS256, own, &with("typ", json!("refresh"))),
        made(Algorithm::HS256, own, &with("typ", json!("other"))),
        made(Algorithm::HS256, own, &with("exp", json!(now))),
        made(Algorithm::HS256, own, &with("exp", json!("never"))),
        made(Algorithm::HS256, own, &json!({"sub": "u_1", "tenant": "default", "typ": "access", "iat": now})),
        made(Algorithm::HS256, own, &with("more", json!("x".repeat(4_000)))),
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        format!("{head}.{body}."),
        format!("{head}.{body}"),
        "not a token".into(),
        "..".into(),
    ];
    for bad in bad {
        assert_eq!(not_known(shows(&market, &bad).await), NotKnown::Token, "{bad}");
    }
    assert_eq!(not_known(shows(&market, " ").await), NotKnown::Missing);
}

#[tokio::test]
async fn account_and_password_belong_together() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let mute = NewUser { id: Some("u_2".into()), account: Some("mute".into()), ..NewUser::default() };
    market.open_user(mute).await.unwrap();
    for (account, password) in [
        ("u_1", "wrong horse"),
        ("u_1", "correct hors"),
        ("u_1", ""),
        ("U_1", PASSWORD),
        ("nobody", PASSWORD),
        ("", PASSWORD),
        ("u_1\u{1f}", PASSWORD),
        ("mute", PASSWORD),
        ("mute", ""),
    ] {
        assert_eq!(
            not_known(market.log_in(account, password, HERE).await),
            NotKnown::Password,
            "{account:?} {password:?}"
        );
    }
    market.log_in("u_1", PASSWORD, HERE).await.unwrap();
}

#[tokio::test]
async fn each_wrong_password_makes_its_address_wait_longer_whether_the_account_is_there_or_not() {
    let (market, store) = market().await;
    person(&market, "u_1").await;
    person(&market, "u_2").await;
    for account in ["u_1", "nobody"] {
        for _ in 0..FREE {
            assert_eq!(not_known(market.log_in(account, "wrong horse", HERE).await), NotKnown::Password);
        }
        assert_eq!(too_fast(market.log_in(account, PASSWORD, HERE).await), 1);
    }
    market.log_in("u_2", PASSWORD, HERE).await.unwrap();
    for wait in [1, 2, 4] {
        assert_eq!(too_fast(market.log_in("u_1", PASSWORD, HERE).await), wait);
        pass_s(&market, &store, wait as i64);
        assert_eq!(not_known(market.log_in("u_1", "wrong horse", HERE).await), NotKnown::Password);
    }
    pass_s(&market, &store, 8);
    market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    // A login resets the count.
    for _ in 0..2 {
        for _ in 0..FREE - 1 {
            assert_eq!(not_known(market.log_in("u_1", "wrong horse", HERE).await), NotKnown::Password);
        }
        market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    }
}

#[tokio::test]
async fn wrong_passwords_by_others_do_not_lock_a_login_out() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    for guess in 0..3 * FREE {
        let answer = market.log_in("u_1", "wrong horse", ELSEWHERE).await;
        assert_eq!(matches!(answer, Err(Error::TooFast { .. })), guess >= FREE, "{guess}: {answer:?}");
    }
    market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    assert_eq!(too_fast(market.log_in("u_1", PASSWORD, ELSEWHERE).await), 1, "there it has to wait");
}

#[tokio::test]
async fn guesses_at_once_are_counted_before_they_are_answered() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let guesses = (0..FREE * 2).map(|_| market.log_in("u_1", "wrong horse", HERE));
    let answers = futures_util::future::join_all(guesses).await;
    let looked_at = answers.iter().filter(|answer| matches!(answer, Err(Error::Who(NotKnown::Password)))).count();
    assert_eq!(looked_at, FREE as usize);
}

#[tokio::test]
async fn only_so_many_wait_at_the_door() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let most = u32::try_from(TOGETHER + WAITING).unwrap();
    let full = market.shared.door.all.clone().try_acquire_many_owned(most).unwrap();
    assert_eq!(too_fast(market.log_in("u_1", PASSWORD, HERE).await), 1);
    let new = NewUser { account: Some("a".into()), password: Some(PASSWORD.into()), ..NewUser::default() };
    assert_eq!(too_fast(market.open_user(new.clone()).await), 1);
    // Keys are still accepted.
    let key = key_of(&market, &"u_1".into()).await.api_key;
    asks(&market, &key, "u_1").await.unwrap();
    drop(full);
    // A throttled attempt does not count.
    for _ in 0..FREE {
        market.log_in("u_1", PASSWORD, HERE).await.unwrap();
    }
    market.open_user(new).await.unwrap();
    assert_eq!(market.shared.door.all.available_permits(), TOGETHER + WAITING);
    assert_eq!(market.shared.door.together.available_permits(), TOGETHER);
}
