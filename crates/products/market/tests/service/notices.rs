//! External agents and their webhooks.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use market::service::{Error, Event, External, MarketConfig, MarketEntity, NewExternal, Once, Paging, WebhookEdit};
use market_rules::capability::{self, Served};
use market_rules::transaction::TransactionAction;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::common::{Fair, House, Letter, Phone, agent_of, deliver, offer, on_both_stores, until, until_by};

const SECRET: &str = "a secret of sixteen";
const URL: &str = "https://hooks.example.com/in";
const PAGE: Paging = Paging { page: 1, size: 100 };

fn new() -> NewExternal {
    NewExternal {
        platform_url: Some("https://agents.example.com".into()),
        agent_name: Some("Watcher".into()),
        ..NewExternal::default()
    }
}

fn hook(events: &[Event]) -> WebhookEdit {
    let names = events.iter().map(|event| event.name().to_owned()).collect();
    WebhookEdit { url: Some(URL.into()), events: Some(names), secret: Some(SECRET.into()) }
}

async fn watches(fair: &Fair, user: &str, events: &[Event]) -> External {
    let made = fair.market.add_external(&agent_of(user), &new(), None).await.unwrap();
    fair.market.set_webhook(&agent_of(user), &made.id, &hook(events), None).await.unwrap()
}

fn header<'a>(letter: &'a Letter, name: &str) -> &'a str {
    letter.headers[name].to_str().unwrap()
}

fn body(letter: &Letter) -> Value {
    serde_json::from_slice(&letter.body).unwrap()
}

/// Ids of delivered events by agent, unordered.
fn told(phone: &Phone) -> Vec<(String, String)> {
    let calls = phone.calls.lock();
    let mut told: Vec<_> = calls
        .iter()
        .map(|(_, letter)| body(letter))
        .map(|body| (body["external_agent_id"].as_str().unwrap().into(), body["event_id"].as_str().unwrap().into()))
        .collect();
    told.sort();
    told
}

async fn is_quiet(fair: &Fair, agents: &[&External]) -> bool {
    for agent in agents {
        if fair.market.deliveries(agent).await.unwrap().waiting > 0 {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn both_parties_hear_of_each_step_they_want_to_hear_of() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(204, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        fair.has("b", 10_000).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let buyers = watches(&fair, "b", &[Event::TransactionDelivered, Event::OrderCompleted]).await;
        let sellers = watches(&fair, "s", Event::ALL).await;
        let strangers = watches(&fair, "x", Event::ALL).await;
        let row = fair.order("b", &ocr).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
        fair.act("s", row.id, deliver(&json!({"total": 7}))).await.unwrap();
        fair.act("b", row.id, TransactionAction::Confirm).await.unwrap();
        let other = fair.order("b", &ocr).await.unwrap();
        fair.act("b", other.id, TransactionAction::Cancel).await.unwrap();
        until(async || is_quiet(&fair, &[&buyers, &sellers, &strangers]).await).await;

        let id = |row: &market_rules::Transaction, version: u64, name: &str| format!("evt_{}.{version}.{name}", row.id);
        let mut expected = vec![
            (&buyers, id(&row, 4, "transaction.delivered")),
            (&buyers, id(&row, 5, "order.completed")),
            (&sellers, id(&row, 1, "transaction.created")),
            (&sellers, id(&row, 2, "transaction.frozen")),
            (&sellers, id(&row, 3, "transaction.accepted")),
            (&sellers, id(&row, 4, "transaction.delivered")),
            (&sellers, id(&row, 5, "transaction.settled")),
            (&sellers, id(&row, 5, "order.completed")),
            (&sellers, id(&other, 1, "transaction.created")),
            (&sellers, id(&other, 2, "transaction.cancelled")),
        ];
        expected.sort_by_key(|(agent, id)| (agent.id.clone(), id.clone()));
        let expected: Vec<_> = expected.into_iter().map(|(agent, id)| (agent.id.to_string(), id)).collect();
        assert_eq!(told(&phone), expected, "each once, to nobody else");

        for (_, letter) in phone.calls.lock().iter() {
            assert_eq!((&*letter.url, letter.any_address), (URL, false));
            let (stamp, request) = (header(letter, "x-uuagent-timestamp"), header(letter, "x-uuagent-request-id"));
            let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
            mac.update(format!("{stamp}.{request}.").as_bytes());
            mac.update(&letter.body);
            let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(header(letter, "x-uuagent-signature"), signature);
            let body = body(letter);
            assert_eq!(header(letter, "x-uuagent-event"), body["event_type"]);
            assert_eq!((&body["event_id"], &body["idempotency_key"]), (&json!(request), &json!(request)));
            let of = &body["data"];
            assert_eq!((&of["buyer_user_id"], &of["seller_user_id"]), (&json!("b"), &json!("s")));
            let role = if body["external_agent_id"] == *buyers.id { "buyer" } else { "seller" };
            assert_eq!((&of["role"], &of["price_ut"]), (&json!(role), &json!("120")));
        }
        let calls = phone.calls.lock();
        let delivered = calls.iter().map(|(_, letter)| body(letter)).find(|body| body["sequence"] == 4).unwrap();
        assert_eq!(delivered["data"]["status"], "delivered", "as it was then");
        assert_eq!(delivered["data"]["transaction_id"], row.id.tx());
    })
    .await;
}

#[tokio::test]
async fn sellers_hear_of_what_becomes_of_their_capabilities() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(200, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        let (market, caller) = (&fair.market, agent_of("s"));
        let agent = watches(&fair, "s", Event::ALL).await;
        let one = market.offer(&caller, offer(Served::Person), None, None).await.unwrap();
        let actor = caller.actor();
        for action in [
            capability::CapabilityAction::Submit,
            capability::CapabilityAction::Offline,
            capability::CapabilityAction::Online,
        ] {
            market.change_capability(&actor, &one.id, action, None).await.unwrap();
        }
        let dearer = capability::CapabilityDraft { price_ut: model::Json::parse("130"), ..Default::default() };
        market.edit_capability(&caller, &one.id, dearer, None).await.unwrap();
        market.change_capability(&actor, &one.id, capability::CapabilityAction::Remove, None).await.unwrap();
        until(async || is_quiet(&fair, &[&agent]).await).await;
        let calls = phone.calls.lock();
        let mut said: Vec<(u64, String, String)> = calls
            .iter()
            .map(|(_, letter)| body(letter))
            .map(|body| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (body["sequence"].as_u64().unwrap(), text(&body["event_type"]), text(&body["data"]["status"]))
            })
            .collect();
        said.sort();
        let expected = [
            (1, "capability.created", "draft"),
            (2, "capability.active", "active"),
            (3, "capability.offline", "offline"),
            (4, "capability.active", "active"),
            (5, "capability.updated", "active"),
            (6, "capability.removed", "removed"),
        ];
        let expected = expected.map(|(version, event, status)| (version, event.to_owned(), status.to_owned()));
        assert_eq!(said, expected);
    })
    .await;
}

/// A crash between commit and delivery, or between delivery and its record, loses no notice.
#[tokio::test]
async fn a_webhook_is_told_by_the_next_process() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(500, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        fair.has("b", 10_000).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let agent = watches(&fair, "s", &[Event::TransactionCreated, Event::TransactionFrozen]).await;
        let row = fair.order("b", &ocr).await.unwrap();
        until(async || !phone.calls.lock().is_empty()).await;
        house.kill().await;
        // An operator's process makes the next step, and delivers no notice.
        let fair = house.fair_offline(Vec::new()).await;
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        assert_eq!(fair.market.deliveries(&agent).await.unwrap().waiting, 2);
        house.kill().await;
        let before = body(&phone.calls.lock()[0].1);
        let phone = Phone::new(|_, _| Phone::says(200, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        until(async || is_quiet(&fair, &[&agent]).await).await;
        let calls = phone.calls.lock();
        let said: Vec<Value> = calls.iter().map(|(_, letter)| body(letter)).collect();
        assert_eq!(said.len(), 2);
        assert!(said.contains(&before), "the very same as before, id and all");
        assert!(said.iter().any(|body| body["event_type"] == "transaction.frozen"));
    })
    .await;
}

/// A step that does not happen has no notice.
#[tokio::test]
async fn what_is_refused_is_not_told() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(200, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let agent = watches(&fair, "s", Event::ALL).await;
        fair.order("b", &ocr).await.unwrap_err();
        fair.has("b", 200).await;
        let (one, two) = (fair.order("b", &ocr).await.unwrap(), fair.order("b", &ocr).await.unwrap());
        fair.act("b", one.id, TransactionAction::Freeze).await.unwrap();
        fair.act("b", two.id, TransactionAction::Freeze).await.unwrap_err();
        until(async || is_quiet(&fair, &[&agent]).await).await;
        assert_eq!(told(&phone).len(), 3, "two orders and one freeze: {:?}", told(&phone));
    })
    .await;
}

/// With several processes, one delivers each notice.
#[tokio::test]
async fn of_many_processes_one_delivers() {
    let mut house = House::memory();
    let phone = Phone::new(|_, _| Phone::says(200, ""));
    let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(house.another(MarketConfig::default(), phone.clone()).await);
    }
    fair.has("b", 100_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let agent = watches(&fair, "s", &[Event::TransactionCreated]).await;
    for n in 0..40 {
        others[n % 3].order("b", &ocr).await.unwrap();
    }
    until(async || is_quiet(&fair, &[&agent]).await).await;
    let all = told(&phone);
    let mut different = all.clone();
    different.dedup();
    assert_eq!((all.len(), different.len()), (40, 40));
}

/// Fifteen attempts with growing delays; then the notice is lost, shown as lost, and can be redelivered.
#[tokio::test(start_paused = true)]
async fn what_is_never_taken_is_lost_in_the_open() {
    let phone = Phone::new(|before, _| match before {
        0..15 => Err("cannot be reached".into()),
        15 => Phone::says(410, ""),
        _ => Phone::says(200, ""),
    });
    let fair = House::paused_told(MarketConfig::default(), phone.clone()).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let agent = watches(&fair, "s", &[Event::TransactionCreated]).await;
    let row = fair.order("b", &ocr).await.unwrap();
    let lost = async || fair.market.deliveries(&agent).await.unwrap();
    // A short interval would make these hours of paused time slow.
    until_by(std::time::Duration::from_secs(60), async || lost().await.lost == 1).await;
    let pauses: Vec<u64> = {
        let calls = phone.calls.lock();
        calls.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis() as u64).collect()
    };
    let least = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600].map(|s| s * 1_000_u64);
    assert_eq!(pauses.len(), least.len());
    for (pause, least) in pauses.iter().zip(least) {
        // From 80 to 120 percent, and the time until the next look.
        assert!((least * 8 / 10 - 1..least * 12 / 10 + 6_000).contains(pause), "{pauses:?}");
    }
    let seen = lost().await;
    assert_eq!((seen.waiting, seen.last_lost.len()), (0, 1));
    let one = &seen.last_lost[0];
    assert_eq!((one.attempts, one.reason.as_deref()), (15, Some("https://hooks.example.com cannot be reached")));
    assert_eq!(*one.id, *format!("evt_{}.1.transaction.created", row.id));
    // Once more: an endpoint that answers 410 is not called again.
    assert_eq!(fair.market.redeliver(&agent_of("s"), &agent.id).await.unwrap(), 1);
    until(async || lost().await.lost == 1).await;
    assert_eq!(phone.calls.lock().len(), 16);
    assert_eq!(fair.market.redeliver(&agent_of("s"), &agent.id).await.unwrap(), 1);
    until(async || lost().await == market::service::Deliveries::default()).await;
    assert_eq!(phone.calls.lock().len(), 17);
    let refused = fair.market.redeliver(&agent_of("b"), &agent.id).await.unwrap_err();
    assert!(matches!(refused, Error::Unknown(MarketEntity::External)), "{refused}");
}

/// Events above the limit of pending notices are dropped; the purchase goes on.
#[tokio::test]
async fn so_many_wait_and_no_more() {
    let mut house = House::memory();
    let fair = house.fair_told(MarketConfig::default(), Phone::new(|_, _| Phone::says(200, ""))).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let agent = watches(&fair, "s", &[Event::TransactionCreated]).await;
    house.kill().await;
    let fair = house.fair_offline(Vec::new()).await;
    for _ in 0..1_003 {
        fair.order("b", &ocr).await.unwrap();
    }
    assert_eq!(fair.market.deliveries(&agent).await.unwrap().waiting, 1_000);
}

/// Lost notices are limited in number and expire.
#[tokio::test(start_paused = true)]
async fn nothing_piles_up() {
    let phone = Phone::new(|_, _| Phone::says(410, ""));
    let fair = House::paused_told(MarketConfig::default(), phone.clone()).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let agent = watches(&fair, "s", &[Event::TransactionCreated]).await;
    for _ in 0..130 {
        fair.order("b", &ocr).await.unwrap();
    }
    until(async || is_quiet(&fair, &[&agent]).await && phone.calls.lock().len() == 130).await;
    let lost = fair.market.deliveries(&agent).await.unwrap().lost;
    assert!((100..104).contains(&lost), "{lost}");
    tokio::time::sleep(std::time::Duration::from_secs(8 * 86_400)).await;
    assert_eq!(fair.market.deliveries(&agent).await.unwrap().lost, 0);
}

#[tokio::test]
async fn whoever_is_gone_hears_nothing() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(503, ""));
        let fair = house.fair_told(MarketConfig::default(), phone.clone()).await;
        fair.has("b", 10_000).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let (gone, mute) = (watches(&fair, "s", Event::ALL).await, watches(&fair, "s", Event::ALL).await);
        fair.order("b", &ocr).await.unwrap();
        until(async || phone.calls.lock().len() >= 2).await;
        fair.market.remove_external(&agent_of("s"), &gone.id, None).await.unwrap();
        fair.market.remove_webhook(&agent_of("s"), &mute.id, None).await.unwrap();
        until(async || is_quiet(&fair, &[&gone, &mute]).await).await;
        let before = phone.calls.lock().len();
        fair.order("b", &ocr).await.unwrap();
        assert!(is_quiet(&fair, &[&gone, &mute]).await, "nobody is to be told");
        assert_eq!(phone.calls.lock().len(), before);
    })
    .await;
}

#[tokio::test]
async fn an_external_agent_is_its_owners_alone_and_its_secret_nobodys() {
    on_both_stores(async |mut house| {
        let phone: Arc<Phone> = Phone::new(|_, _| Phone::says(200, ""));
        let fair = house.fair_told(MarketConfig::default(), phone).await;
        let (market, s) = (&fair.market, agent_of("s"));
        let once = |key: &str| Once { key: key.to_owned(), print: [1; 32] };
        let made = market.add_external(&s, &new(), Some(once("a"))).await.unwrap();
        assert_eq!(market.add_external(&s, &new(), Some(once("a"))).await.unwrap(), made, "the same again");
        assert_eq!((&*made.auth_type, market.webhook(&made)), ("none", None));
        let fields = |refused: Error| match refused {
            Error::Fields(fields) => fields.iter().map(|field| field.field).collect::<Vec<_>>(),
            other => panic!("{other}"),
        };
        let empty = market.add_external(&s, &NewExternal::default(), None).await.unwrap_err();
        assert_eq!(fields(empty), ["platform_url", "agent_name"]);
        let ftp = NewExternal { platform_url: Some("ftp://x.example.com".into()), ..new() };
        assert_eq!(fields(market.add_external(&s, &ftp, None).await.unwrap_err()), ["platform_url"]);

        let nothing = market.set_webhook(&s, &made.id, &WebhookEdit::default(), None).await.unwrap_err();
        assert_eq!(fields(nothing), ["webhook_url", "webhook_secret"]);
        let bad = WebhookEdit {
            url: Some("http://10.0.0.1/".into()),
            events: Some(vec!["transaction.created".into(), "moon.full".into()]),
            secret: Some("short".into()),
        };
        let bad = market.set_webhook(&s, &made.id, &bad, None).await.unwrap_err();
        assert_eq!(fields(bad), ["webhook_url", "webhook_secret", "webhook_events"]);
        let set = market.set_webhook(&s, &made.id, &hook(&[Event::OrderCompleted]), Some(once("w"))).await.unwrap();
        assert_eq!(
            market.set_webhook(&s, &made.id, &hook(&[Event::OrderCompleted]), Some(once("w"))).await.unwrap(),
            set
        );
        let shown = market.webhook(&set).unwrap();
        assert_eq!((shown.url.as_deref(), &shown.events[..]), (Some(URL), &[Event::OrderCompleted][..]));
        // An absent field stays as it is.
        let elsewhere = WebhookEdit { url: Some("https://other.example.com".into()), ..WebhookEdit::default() };
        let moved = market.set_webhook(&s, &made.id, &elsewhere, None).await.unwrap();
        let shown = market.webhook(&moved).unwrap();
        assert_eq!((shown.url.as_deref(), shown.events.len()), (Some("https://other.example.com"), 1));

        // Neither the address nor the secret is readable in the store or in stored results of requests.
        let store = fair.engine().store();
        for (kind, key) in
            [("market/external", format!("default\u{1f}{}", made.id)), ("market/hooks", "default\u{1f}s".into())]
        {
            let row = store.record(kind.into(), key.into()).await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&row.body).into_owned();
            assert!(!text.contains(SECRET) && !text.contains("other.example.com"), "{text}");
        }
        let remembered = model::RecordQuery {
            kind: "market/once".into(),
            list: "all".into(),
            after: None,
            skip: 0,
            limit: 10,
            count: false,
        };
        for (record, _) in store.records(remembered).await.unwrap().records {
            let text = String::from_utf8_lossy(&record.body).into_owned();
            assert!(!text.contains(SECRET) && !text.contains("hooks.example.com"), "{text}");
        }
        assert!(!format!("{moved:?}{:?}", hook(&[])).contains(SECRET));

        // Other users' agents are unknown.
        let b = agent_of("b");
        assert!(matches!(market.external(&b, &made.id).await, Err(Error::Unknown(MarketEntity::External))));
        let taken = market.set_webhook(&b, &made.id, &hook(Event::ALL), None).await;
        assert!(matches!(taken, Err(Error::Unknown(MarketEntity::External))));
        assert!(matches!(
            market.remove_external(&b, &made.id, None).await,
            Err(Error::Unknown(MarketEntity::External))
        ));
        assert_eq!(market.externals(&b, PAGE).await.unwrap().total, 0);
        assert_eq!(market.externals(&s, PAGE).await.unwrap().items, [moved]);

        market.remove_external(&s, &made.id, Some(once("r"))).await.unwrap();
        market.remove_external(&s, &made.id, Some(once("r"))).await.unwrap();
        assert!(matches!(
            market.remove_external(&s, &made.id, None).await,
            Err(Error::Unknown(MarketEntity::External))
        ));
        for _ in 0..20 {
            market.add_external(&s, &new(), None).await.unwrap();
        }
        let refused = market.add_external(&s, &new(), None).await.unwrap_err();
        assert!(refused.to_string().contains("remove one first"), "{refused}");
    })
    .await;
}

/// Without a seal, secrets are refused.
#[tokio::test]
async fn without_a_seal_there_are_no_webhooks() {
    let mut house = House::memory();
    let fair = house.fair(Vec::new(), MarketConfig::default()).await;
    let made = fair.market.add_external(&agent_of("s"), &new(), None).await.unwrap();
    let refused = fair.market.set_webhook(&agent_of("s"), &made.id, &hook(Event::ALL), None).await.unwrap_err();
    assert!(refused.to_string().contains("push.enabled"), "{refused}");
}
