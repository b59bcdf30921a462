//! Tests of logins by device code.

use market_rules::Via;
use model::{Expect, RecordChange};

use super::super::device::{DIGITS, DeviceRow, WAITING, sweep};
use super::super::{Device, DeviceApproval, DeviceState};
use super::*;
use crate::service::MarketEntity;
use crate::service::records::{self, ALL};

fn unknown<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Unknown(MarketEntity::Device))), "{answer:?}");
}

async fn ask(market: &Market) -> Device {
    market.device_asks("cursor").await.unwrap()
}

fn key(state: DeviceState) -> Issued {
    match state {
        DeviceState::Approved(issued) => issued,
        other => panic!("no key: {other:?}"),
    }
}

#[tokio::test]
async fn a_device_gets_its_key_when_its_person_says_yes() {
    let (market, store) = market().await;
    let device = ask(&market).await;
    assert_eq!((device.expires_in_s, device.interval_s, &*device.platform_type), (600, 5, "cursor"));
    assert_eq!(device.device_code.len(), 43);
    assert!(device.user_code.len() == 8 && device.user_code.bytes().all(|digit| DIGITS.contains(&digit)));
    assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Pending);
    assert_eq!(too_fast(market.device_polls(&device.device_code).await), 5);
    pass_s(&market, &store, 4);
    assert_eq!(too_fast(market.device_polls(&device.device_code).await), 1);
    pass_s(&market, &store, 1);
    assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Pending);

    // The person is new; case and spaces of the typed code are ignored.
    let code = format!(" {}-{} ", device.user_code[..4].to_lowercase(), &device.user_code[4..]);
    market.device_answered(&code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await.unwrap();
    let ann = market.log_in("ann", PASSWORD, HERE).await.unwrap().user;
    assert_eq!(store.count(records::KEYS.kind(), &records::joined(&["user", "default", ann.as_str()])).await, 0);
    assert_eq!(too_fast(market.device_polls(&device.device_code).await), 5);
    pass_s(&market, &store, 5);
    let issued = key(market.device_polls(&device.device_code).await.unwrap());
    assert_eq!((issued.user.as_ref(), issued.api_key.len()), (Some(&ann), 43));
    let caller = asks(&market, &issued.api_key, ann.as_str()).await.unwrap();
    assert_eq!((caller.user, caller.via), (ann, Via::Agent));
    assert!(!store.has_seen(&issued.api_key) && !store.has_seen(PASSWORD));

    // The key is returned once, and no record is left.
    unknown(market.device_polls(&device.device_code).await);
    unknown(market.device_answered(&device.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await);
    assert_eq!(store.count(records::DEVICES.kind(), ALL).await, 0);
}

#[tokio::test]
async fn a_person_with_an_account_logs_in_on_the_way() {
    let (market, store) = market().await;
    person(&market, "u_1").await;
    let device = ask(&market).await;
    let answer = |password, said| market.device_answered(&device.user_code, "u_1", password, said, HERE);
    assert_eq!(not_known(answer("wrong horse", DeviceApproval::Yes).await), NotKnown::Password);
    assert_eq!(not_known(answer("wrong horse", DeviceApproval::No).await), NotKnown::Password);
    assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Pending);
    answer(PASSWORD, DeviceApproval::Yes).await.unwrap();
    // An answer is final.
    unknown(answer(PASSWORD, DeviceApproval::No).await);
    pass_s(&market, &store, 5);
    let issued = key(market.device_polls(&device.device_code).await.unwrap());
    assert_eq!(issued.user, Some("u_1".into()));
    asks(&market, &issued.api_key, "u_1").await.unwrap();
}

#[tokio::test]
async fn guesses_at_a_password_count_here_as_well() {
    let (market, _store) = market().await;
    person(&market, "u_1").await;
    let device = ask(&market).await;
    for _ in 0..super::super::attempts::FREE {
        let answer = market.device_answered(&device.user_code, "u_1", "wrong horse", DeviceApproval::Yes, HERE).await;
        assert_eq!(not_known(answer), NotKnown::Password);
    }
    assert_eq!(
        too_fast(market.device_answered(&device.user_code, "u_1", PASSWORD, DeviceApproval::Yes, HERE).await),
        1
    );
    assert_eq!(too_fast(market.log_in("u_1", PASSWORD, HERE).await), 1);
}

#[tokio::test]
async fn a_no_is_a_no_and_registers_nobody() {
    let (market, store) = market().await;
    let device = ask(&market).await;
    market.device_answered(&device.user_code, "ann", PASSWORD, DeviceApproval::No, HERE).await.unwrap();
    for _ in 0..2 {
        assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Denied);
    }
    assert_eq!(not_known(market.log_in("ann", PASSWORD, HERE).await), NotKnown::Password);
    pass_s(&market, &store, 600);
    assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Expired);
}

#[tokio::test]
async fn codes_that_are_nobodys_do_nothing() {
    let (market, store) = market().await;
    let device = ask(&market).await;
    let other = if device.user_code == "AAAAAAAA" { "BBBBBBBB" } else { "AAAAAAAA" };
    let longer = format!("{}A", device.user_code);
    for code in ["", other, &device.user_code[..7], &longer, "0O1IIIII", "ÄÄÄÄ", &device.device_code, "\u{1f}"] {
        unknown(market.device_answered(code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await);
    }
    for code in ["", &device.user_code, &device.device_code[..42], "x"] {
        unknown(market.device_polls(code).await);
    }
    assert!(!store.has_seen("ann"), "somebody was registered for nothing");
    // Devices of another tenant are unknown.
    let elsewhere = market_of(&store, "elsewhere").await;
    unknown(elsewhere.device_polls(&device.device_code).await);
    unknown(elsewhere.device_answered(&device.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await);
    for (account, password, wrong) in [("", PASSWORD, "account"), ("ann", "short", "password")] {
        let answer = market.device_answered(&device.user_code, account, password, DeviceApproval::Yes, HERE).await;
        assert_eq!(fields(answer), [wrong]);
    }
    market.device_answered(&device.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await.unwrap();
}

#[tokio::test]
async fn a_device_that_waits_too_long_is_told_so_and_then_forgotten() {
    let (market, store) = market().await;
    let (late, approved) = (ask(&market).await, ask(&market).await);
    market.device_answered(&approved.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await.unwrap();
    pass_s(&market, &store, 300);
    let young = ask(&market).await;
    pass_s(&market, &store, 299);
    assert_eq!(market.device_polls(&late.device_code).await.unwrap(), DeviceState::Pending);
    pass_s(&market, &store, 1);
    for device in [&late, &approved] {
        assert_eq!(market.device_polls(&device.device_code).await.unwrap(), DeviceState::Expired);
    }
    unknown(market.device_answered(&late.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await);
    assert_eq!(store.count(records::DEVICES.kind(), ALL).await, 3);

    pass_s(&market, &store, 600);
    tokio::time::pause();
    let sweeper = tokio::spawn(sweep(market.clone()));
    while store.count(records::DEVICES.kind(), ALL).await > 1 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    sweeper.abort();
    unknown(market.device_polls(&late.device_code).await);
    assert_eq!(market.device_polls(&young.device_code).await.unwrap(), DeviceState::Expired);
    assert!(market.read(records::DEVICE_CODES, code_key(&late)).await.unwrap().is_none());
    assert!(market.read(records::DEVICE_CODES, code_key(&young)).await.unwrap().is_some());
}

fn code_key(device: &Device) -> Arc<str> {
    super::super::device::code_key("default", &device.user_code)
}

#[tokio::test]
async fn of_two_who_ask_at_once_one_gets_the_key() {
    let (market, store) = market().await;
    let device = ask(&market).await;
    market.device_answered(&device.user_code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await.unwrap();
    let code = &device.device_code;
    let (a, b, c) = tokio::join!(market.device_polls(code), market.device_polls(code), market.device_polls(code));
    assert!(store.conflicts() > 0, "they did not race");
    let (got, not): (Vec<_>, Vec<_>) = [a, b, c].into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), not.len()), (1, 2));
    not.into_iter().for_each(unknown);
    let user = key(got.into_iter().next().unwrap().unwrap()).user.unwrap();
    let list = crate::service::records::joined(&["user", "default", user.as_str()]);
    assert_eq!(store.count(records::KEYS.kind(), &list).await, 1);
}

#[tokio::test]
async fn of_two_who_answer_at_once_one_is_heard() {
    let (market, store) = market().await;
    let device = ask(&market).await;
    let answer = |account| market.device_answered(&device.user_code, account, PASSWORD, DeviceApproval::Yes, HERE);
    let (a, b) = tokio::join!(answer("ann"), answer("bob"));
    let (heard, account) = if a.is_ok() { (b, "ann") } else { (a, "bob") };
    unknown(heard);
    let user = market.log_in(account, PASSWORD, HERE).await.unwrap().user;
    pass_s(&market, &store, 5);
    assert_eq!(key(market.device_polls(&device.device_code).await.unwrap()).user, Some(user));
}

#[tokio::test]
async fn an_impatient_person_is_registered_once() {
    let (market, store) = market().await;
    let (one, two) = (ask(&market).await, ask(&market).await);
    let answer = |device: &Device| {
        let (market, code) = (market.clone(), device.user_code.clone());
        async move { market.device_answered(&code, "ann", PASSWORD, DeviceApproval::Yes, HERE).await }
    };
    let (a, b) = tokio::join!(answer(&one), answer(&two));
    a.unwrap();
    b.unwrap();
    assert!(store.conflicts() > 0, "they did not race");
    let (a, b) = (market.device_polls(&one.device_code).await, market.device_polls(&two.device_code).await);
    assert_eq!(key(a.unwrap()).user, key(b.unwrap()).user);
}

/// A stored device.
fn waits(number: u64, expires_at: model::Time) -> RecordChange {
    let row = DeviceRow {
        tenant: "default".into(),
        platform: "cursor".into(),
        code: None,
        expires_at,
        polled_at: None,
        answer: None,
    };
    row.put(&format!("{number}").into(), Expect::Absent)
}

#[tokio::test]
async fn only_so_many_wait() {
    let (market, store) = market().await;
    let soon = market.now().plus_ms(10_000);
    let mut records: Vec<RecordChange> = (0..2).map(|number| waits(number, soon)).collect();
    records.extend((2..WAITING).map(|number| waits(number, market.now().plus_ms(600_000))));
    market.engine().keep(engine::SideWrites { records, ..Default::default() }).await.unwrap();
    assert_eq!(too_fast(market.device_asks("cursor").await), 10);
    pass_s(&market, &store, 10);
    ask(&market).await;
    ask(&market).await;
    assert_eq!(too_fast(market.device_asks("cursor").await), 590);
}

/// In two processes with separate caches.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn devices_that_ask_at_once_do_not_pass_the_limit() {
    let (here, store) = market().await;
    let there = market_of(&store, "default").await;
    let records = (8..WAITING).map(|number| waits(number, here.now().plus_ms(600_000))).collect();
    here.engine().keep(engine::SideWrites { records, ..Default::default() }).await.unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..32 {
        let market = if n % 2 == 0 { here.clone() } else { there.clone() };
        asked.spawn(async move { market.device_asks("cursor").await });
    }
    let mut made = 0;
    while let Some(one) = asked.join_next().await {
        match one.unwrap() {
            Ok(_) => made += 1,
            refused @ Err(_) => assert!(too_fast(refused) > 0),
        }
    }
    assert_eq!((made, store.count(records::DEVICES.kind(), ALL).await), (8, WAITING));
}

#[tokio::test]
async fn what_a_device_calls_itself_is_one_of_five() {
    let (market, _store) = market().await;
    for known in ["openclaw", "claude_desktop", "cursor", "hermes_agent", "custom_mcp"] {
        assert_eq!(&*market.device_asks(known).await.unwrap().platform_type, known);
    }
    for unknown in ["", "Cursor", "toaster", "\u{0}"] {
        assert_eq!(&*market.device_asks(unknown).await.unwrap().platform_type, "custom_mcp");
    }
}
