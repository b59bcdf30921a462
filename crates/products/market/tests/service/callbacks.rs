//! Purchases that a seller's endpoint serves.

use hmac::{Hmac, KeyInit as _, Mac as _};
use market::service::MarketConfig;
use market_rules::capability::Served;
use market_rules::transaction::{Status, TransactionAction};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::common::{House, Phone, SellerSocket, adds_up, balance, deliver, frozen, offer, on_both_stores, until};

fn config() -> MarketConfig {
    let mut config = MarketConfig { callback_secret: Some("shh".into()), ..MarketConfig::default() };
    config.capabilities.private_callbacks = true;
    config
}

fn served(url: &str) -> Served {
    Served::Callback { url: url.into(), timeout_s: 5 }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    &headers.iter().find(|(known, _)| known == name).unwrap().1
}

#[tokio::test]
async fn an_endpoint_is_called_with_a_signature_until_it_answers() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), config()).await;
        let post = SellerSocket::open(vec![
            (500, "oops".into()),
            (200, json!({"success": true, "result": {"total": 7}}).to_string()),
        ])
        .await;
        let ocr = fair.sells("s", "ocr", offer(served(&post.url))).await;
        fair.has("b", 1_000).await;
        let row = fair.order_with("b", &ocr, &json!({"file": "a.pdf"})).await;
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(row.id, Status::Delivered).await;
        assert_eq!(row.result.unwrap().to_value(), json!({"total": 7}));
        let got = post.got.lock().clone();
        assert_eq!(got.len(), 2);
        for (headers, body) in &got {
            let (stamp, request) = (header(headers, "x-uuagent-timestamp"), header(headers, "x-uuagent-request-id"));
            let mut mac = Hmac::<Sha256>::new_from_slice(b"shh").unwrap();
            mac.update(format!("{stamp}.{request}.{body}").as_bytes());
            let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(header(headers, "x-uuagent-signature"), expected);
            assert_eq!(header(headers, "content-type"), "application/json");
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["transaction_id"], row.id.tx());
            assert_eq!((&body["capability_id"], &body["input"]), (&json!("ocr"), &json!({"file": "a.pdf"})));
            assert_eq!(body["idempotency_key"], request);
            assert!(body.get("event_type").is_none());
        }
        assert_eq!(header(&got[0].0, "x-uuagent-request-id"), header(&got[1].0, "x-uuagent-request-id"));
        fair.act("b", row.id, TransactionAction::Confirm).await.unwrap();
        // Nothing is left of the attempts.
        until(async || {
            let kept = fair.engine().store().record("market/calls".into(), row.id.to_string().into()).await;
            kept.unwrap().is_none()
        })
        .await;
        assert_eq!(balance(&fair, "s").await, 10_800);
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_says_no_is_believed() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), config()).await;
        fair.has("b", 1_000).await;
        for (n, (status, body, reason)) in [
            (200, json!({"success": false, "error": "no ink"}), "no ink"),
            (404, json!({}), "the seller's endpoint refused it with HTTP 404"),
        ]
        .into_iter()
        .enumerate()
        {
            let post = SellerSocket::open(vec![(status, body.to_string())]).await;
            let ocr = fair.sells("s", &format!("ocr{n}"), offer(served(&post.url))).await;
            let row = fair.order("b", &ocr).await.unwrap();
            fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
            let row = fair.comes_to(row.id, Status::Failed).await;
            assert_eq!(row.reason.as_deref(), Some(reason));
            assert_eq!(post.got.lock().len(), 1);
        }
        assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
        adds_up(&fair).await;
    })
    .await;
}

/// Private addresses are not called unless the operator permits it.
#[tokio::test(start_paused = true)]
async fn a_private_address_is_not_called() {
    let post = SellerSocket::open(vec![(200, json!({"success": true}).to_string())]).await;
    let fair = House::paused(MarketConfig::default(), None).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(served(&post.url))).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    let row = fair.comes_to(row.id, Status::Failed).await;
    let reason = row.reason.unwrap();
    let words = "the seller's endpoint cannot be called: it is refused: a loopback address is allowed only";
    assert!(reason.starts_with(words), "{reason}");
    assert!(post.got.lock().is_empty());
}

/// Ten times, with longer and longer pauses; then the buyer gets the money back.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_is_tried_ten_times() {
    let phone = Phone::new(|_, _| Err("cannot be reached".into()));
    let fair = House::paused(config(), Some(phone.clone())).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(served("https://example.com"))).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    let row = fair.comes_to(row.id, Status::Failed).await;
    assert_eq!(row.reason.as_deref(), Some("the seller's endpoint failed 10 times: it cannot be reached"));
    let calls = phone.calls.lock().clone();
    let pauses: Vec<u64> = calls.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis() as u64).collect();
    // The last two pauses are those of the breaker, which has opened after the fifth failure.
    let least = [800, 1_600, 3_200, 6_400, 12_800, 25_600, 48_000, 80_000, 160_000];
    let most = [1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 72_000, 80_000, 160_000];
    assert_eq!(pauses.len(), least.len());
    for (pause, (least, most)) in pauses.iter().zip(least.iter().zip(most)) {
        // A millisecond more or less is a matter of rounding.
        assert!((least - 1..most + 6_000).contains(pause), "{pauses:?}");
    }
    assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
    assert_eq!(fair.engine().health().await.unwrap().timers, 0);
    adds_up(&fair).await;
}

/// The deadline comes before the tenth attempt.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_for_too_long_has_not_delivered() {
    let phone = Phone::new(|_, _| Phone::says(503, ""));
    let mut config = config();
    config.purchases.deliver_ms = 20_000;
    let fair = House::paused(config, Some(phone.clone())).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(served("https://example.com"))).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    let row = fair.comes_to(row.id, Status::Failed).await;
    assert_eq!(row.reason.as_deref(), Some("the seller did not deliver in time"));
    assert_eq!(phone.calls.lock().len(), 5);
    adds_up(&fair).await;
}

/// The seller of an asynchronous capability is notified once and acts through REST.
#[tokio::test(start_paused = true)]
async fn a_seller_that_takes_its_time_is_told_and_acts_through_rest() {
    let phone = Phone::new(|before, _| if before == 0 { Phone::says(502, "") } else { Phone::says(200, "thanks") });
    let fair = House::paused(config(), Some(phone.clone())).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells_async("s", "ocr", offer(served("https://example.com"))).await;
    let row = fair.order_with("b", &ocr, &json!({"page": 1})).await;
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    until(async || phone.calls.lock().len() == 2).await;
    let body: Value = serde_json::from_slice(&phone.calls.lock()[1].1.body).unwrap();
    assert_eq!((&body["event_type"], &body["transaction_id"]), (&json!("task.created"), &json!(row.id.tx())));
    assert_eq!((&body["price_ut"], &body["input"]), (&json!("120"), &json!({"page": 1})));
    // No step is made in its name, and it is not called again.
    tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    assert_eq!((fair.row(row.id).await.status, phone.calls.lock().len()), (Status::Frozen, 2));
    fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    assert_eq!((fair.row(row.id).await.status, phone.calls.lock().len()), (Status::Accepted, 2));
    fair.act("s", row.id, deliver(&json!({"ok": true}))).await.unwrap();
    fair.act("b", row.id, TransactionAction::Confirm).await.unwrap();
    adds_up(&fair).await;
}
