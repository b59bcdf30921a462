//! Push notifications, notices to external agents and callbacks to sellers: one classification of every answer, and one
//! breaker for each receiver.

use std::sync::Arc;
use std::time::Duration;

use gateway::webhooks::{HttpWebhookSender, Options, OutboundPolicy, Seal, SystemResolver};
use http::HeaderMap;
use market::service::{Event, MarketConfig, NewExternal, WebhookEdit};
use market_rules::capability::Served;
use market_rules::transaction::TransactionAction;
use model::ports::Future;
use model::ports::webhook::{WebhookBody, WebhookOutcome, WebhookRequest, WebhookSender as _};
use model::{EventId, PushSpec, Seq, TaskId};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use web::outbound::{HttpPost, Post, PostRequest, PostResult};

use crate::common::{Fair, House, Phone, agent_of, offer, until};

const SECRET: &str = "a secret of sixteen";

async fn watches(fair: &Fair, user: &str, url: &str) {
    let new = NewExternal {
        platform_url: Some("https://agents.example.com".into()),
        agent_name: Some("Watcher".into()),
        ..NewExternal::default()
    };
    let made = fair.market.add_external(&agent_of(user), &new, None).await.unwrap();
    let events = Some(vec![Event::TransactionCreated.name().to_owned()]);
    let edit = WebhookEdit { url: Some(url.into()), events, secret: Some(SECRET.into()) };
    fair.market.set_webhook(&agent_of(user), &made.id, &edit, None).await.unwrap();
}

/// The attempts of a market over the network, with a short time limit, and their outcomes.
struct Recorded {
    post: HttpPost,
    /// The market's own permission for every address is not used, so that the policy decides.
    outcomes: Mutex<Vec<(HeaderMap, WebhookOutcome)>>,
}

impl Post for Recorded {
    fn post(&self, request: PostRequest) -> Future<'_, PostResult> {
        Box::pin(async move {
            let headers = request.headers.clone();
            let request = PostRequest {
                any_address: false,
                timeout: TIMEOUT,
                // The same name for all uses.
                receiver: web::outbound::origin(&request.url),
                ..request
            };
            let result = self.post.post(request).await;
            self.outcomes.lock().push((headers, result.outcome.clone()));
            result
        })
    }
}

const TIMEOUT: Duration = Duration::from_millis(700);

fn network(loopback: bool) -> HttpPost {
    HttpPost::new(OutboundPolicy { loopback, ..OutboundPolicy::default() }, Arc::new(SystemResolver))
}

/// The behaviour of a receiver, for every request.
#[derive(Clone, Copy)]
enum Does {
    Answers(&'static str),
    /// It takes the connection and says nothing.
    Nothing,
    /// The port has no listener.
    NotListen,
}

async fn receiver(does: Does) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let answer = match does {
        Does::NotListen => return url,
        Does::Nothing => None,
        Does::Answers(answer) => Some(answer),
    };
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let Some(head) = answer else {
                open.push(socket);
                continue;
            };
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                // Both bodies end with a brace, and no header does.
                while !bytes.ends_with(b"}") {
                    let mut piece = [0; 4_096];
                    match socket.read(&mut piece).await {
                        Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
                        _ => return,
                    }
                }
                let text = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = socket.write_all(text.as_bytes()).await;
            });
        }
    });
    url
}

async fn of_push(url: &str, loopback: bool) -> WebhookOutcome {
    let post = Arc::new(network(loopback));
    let options = Options { post, timeout_ms: TIMEOUT.as_millis() as u64, ..Options::default() };
    let store = Arc::new(stores::memory::MemoryStore::new());
    let sender = HttpWebhookSender::new(store, Seal::new(&[1; 32]).unwrap(), None, options).unwrap();
    let spec = PushSpec {
        url: url.into(),
        token: None,
        scheme: None,
        credentials: None,
        dialect: "a2a_v1".into(),
        shown: None,
        trace: None,
    };
    let task = TaskId(uuid::Uuid::now_v7());
    let change = model::StatusChange { state: model::State::Completed, message: None, metadata: None };
    let event = model::Event { seq: Seq(1), at: model::Time(1), body: model::Body::Status(change) };
    let letter = WebhookRequest {
        id: EventId { task, seq: Seq(1) },
        attempt: 1,
        config: "c".into(),
        tenant: "default".into(),
        context: model::ContextId::from("c"),
        spec: Arc::new(spec),
        news: WebhookBody::Event(Arc::new(event)),
    };
    sender.deliver(letter).await
}

/// The outcomes of the first notice and the first callback.
async fn of_market(url: &str, loopback: bool) -> [WebhookOutcome; 2] {
    let recorded = Arc::new(Recorded { post: network(loopback), outcomes: Mutex::default() });
    let mut config = MarketConfig::default();
    config.capabilities.private_callbacks = true;
    let fair = House::memory().fair_told(config, recorded.clone()).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Callback { url: url.into(), timeout_s: 5 })).await;
    watches(&fair, "b", url).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    let first = |is_notice: bool| {
        let outcomes = recorded.outcomes.lock();
        let mut of_use = outcomes.iter().filter(|(headers, _)| headers.contains_key("x-uuagent-event") == is_notice);
        of_use.next().map(|(_, outcome)| outcome.clone())
    };
    until(async || first(true).is_some() && first(false).is_some()).await;
    [first(true).unwrap(), first(false).unwrap()]
}

#[tokio::test]
async fn an_answer_means_the_same_for_every_use() {
    let failed = |words: &str, retry_after_ms| WebhookOutcome::Failed { why: format!("R {words}"), retry_after_ms };
    let gone = |words: &str| WebhookOutcome::Gone { why: format!("R {words}") };
    let elsewhere = "answered 302: redirects are not followed; register the address it moved to";
    let refused = "is refused: a loopback address is allowed only while the server listens on loopback itself, or when the operator lists it in push.allow";
    let cases = [
        ("2xx", Does::Answers("202 X"), true, WebhookOutcome::Taken),
        ("410", Does::Answers("410 X"), true, gone("answered 410: it wants no more")),
        ("429", Does::Answers("429 X\r\nretry-after: 7"), true, failed("answered 429", Some(7_000))),
        ("503", Does::Answers("503 X"), true, failed("answered 503", None)),
        ("redirect", Does::Answers("302 X\r\nlocation: /other"), true, failed(elsewhere, None)),
        ("refused address", Does::Answers("200 X"), false, gone(refused)),
        ("no connection", Does::NotListen, true, failed("refused the connection", None)),
        ("slow answer", Does::Nothing, true, failed("gave no answer within 700 ms", None)),
    ];
    for (name, does, loopback, expected) in cases {
        let url = receiver(does).await;
        let origin = url.trim_end_matches("/hook");
        let named = |outcome: WebhookOutcome| match outcome {
            WebhookOutcome::Failed { why, retry_after_ms } => {
                WebhookOutcome::Failed { why: why.replace(origin, "R"), retry_after_ms }
            }
            WebhookOutcome::Gone { why } => WebhookOutcome::Gone { why: why.replace(origin, "R") },
            WebhookOutcome::Taken | WebhookOutcome::Untold => outcome,
        };
        let [notice, callback] = of_market(&url, loopback).await;
        for (of_use, outcome) in [("push", of_push(&url, loopback).await), ("notice", notice), ("callback", callback)] {
            assert_eq!(named(outcome), expected, "{name} of a {of_use}");
        }
    }
}

/// Callbacks that fail hold back a notice to the same receiver; it uses up no attempt.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_for_callbacks_is_left_alone_by_notices() {
    let phone = Phone::new(|before, letter| match letter.url.as_str() {
        "https://one.example.com/call" if before < 5 => Phone::says(503, ""),
        _ => Phone::says(200, &json!({"success": true}).to_string()),
    });
    let fair = House::paused_told(MarketConfig::default(), phone.clone()).await;
    fair.has("b", 10_000).await;
    let served = Served::Callback { url: "https://one.example.com/call".into(), timeout_s: 5 };
    let ocr = fair.sells("s", "ocr", offer(served)).await;
    for _ in 0..5 {
        let row = fair.order("b", &ocr).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    }
    until(async || fair.engine().figures().breakers_open == 1).await;
    let before = phone.calls.lock().len();
    watches(&fair, "b", "https://one.example.com/in").await;
    fair.order("b", &ocr).await.unwrap();
    let told = || phone.calls.lock().iter().filter(|(_, letter)| letter.url.ends_with("/in")).count();
    until(async || told() == 1).await;
    let calls = phone.calls.lock();
    // Without the breaker the notice would be sent at once, and a callback after a second.
    let pause = calls[before].0 - calls[before - 1].0;
    assert!(pause >= Duration::from_secs(4), "the receiver is left alone: {pause:?}");
}
