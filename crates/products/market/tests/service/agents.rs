//! Purchases that agents of this server serve.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use market::service::MarketConfig;
use market_rules::capability::Served;
use market_rules::transaction::{Status, TransactionAction};
use model::ports::agent::{AgentEvent, ArtifactChunk, EndState, Restart, Turn};
use model::{Content, Json, Part, State};
use parking_lot::Mutex;
use serde_json::json;

use crate::common::{Fair, acting, adds_up, balance, done, echo, frozen, offer, on_both_stores, until};

/// The inputs and the events of turns.
type Seen = Arc<Mutex<Vec<(Vec<Part>, String)>>>;

fn piece(key: &str, name: Option<&str>, parts: Vec<Part>) -> AgentEvent {
    AgentEvent::Artifact(ArtifactChunk {
        key: key.into(),
        name: name.map(Into::into),
        parts,
        ..ArtifactChunk::default()
    })
}

/// An agent that follows the instructions of its message.
fn worker(seen: &Seen) -> Arc<dyn model::ports::agent::Agent> {
    let seen = seen.clone();
    acting("worker", Restart::Fail, move |turn: Turn| {
        let message = turn.messages[0].message.clone();
        let words = message.text();
        seen.lock().push((message.parts.clone(), turn.context.to_string()));
        match words.as_str() {
            "fail" => done(vec![], EndState::Failed, "out of paper"),
            "reject" => done(vec![], EndState::Rejected, "not my line"),
            "ask" => done(vec![], EndState::InputRequired, "which page?"),
            "say" => done(vec![], EndState::Completed, "only words"),
            "much" => done(vec![piece("a", None, vec![Part::text("x".repeat(300_000))])], EndState::Completed, ""),
            "files" => {
                let named = |name: &str| Part { filename: Some(name.into()), ..Part::new(Content::Raw("PDF".into())) };
                let url = Part::new(Content::Url("https://example.com/x".into()));
                let parts = vec![Part::text("two files"), named("a.pdf"), url];
                done(vec![piece("a", Some("bill"), parts)], EndState::Completed, "")
            }
            "hang" => {
                let cancelled = turn.cancelled.clone();
                stream::once(async move {
                    cancelled.await;
                    AgentEvent::End(model::ports::agent::TurnEnd { state: EndState::Canceled, words: None })
                })
                .boxed()
            }
            _ => {
                let total = Json::parse(r#"{"total":"99.50","n":12345678901234567890}"#).unwrap();
                let parts = vec![Part::text("one"), Part::data(total)];
                done(vec![piece("a", None, parts), piece("b", None, vec![Part::text("two")])], EndState::Completed, "")
            }
        }
    })
}

async fn fair(house: &mut crate::common::House, seen: &Seen) -> (Fair, market_rules::CapabilityId) {
    let fair = house.fair(vec![worker(seen), echo()], MarketConfig::default()).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Agent("worker".into()))).await;
    fair.has("b", 10_000).await;
    (fair, ocr)
}

#[tokio::test]
async fn what_an_agent_makes_is_what_is_delivered() {
    on_both_stores(async |mut house| {
        let seen = Seen::default();
        let (fair, ocr) = fair(&mut house, &seen).await;
        let row = fair.order_with("b", &ocr, &json!({"text": "read it", "page": 2})).await;
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(row.id, Status::Delivered).await;
        assert_eq!(
            row.result.unwrap().to_value(),
            json!({
                "text": "one\ntwo",
                "artifacts": [
                    {"artifact_id": "a", "parts": [
                        {"type": "text", "text": "one"},
                        {"type": "data", "data": {"total": "99.50", "n": 12_345_678_901_234_567_890_u64}},
                    ]},
                    {"artifact_id": "b", "parts": [{"type": "text", "text": "two"}]},
                ],
            })
        );
        fair.act("b", row.id, TransactionAction::Confirm).await.unwrap();
        assert_eq!((balance(&fair, "s").await, frozen(&fair, "b").await), (10_800, 0));
        // The agent's input, once.
        let seen = seen.lock().clone();
        assert_eq!((seen.len(), &seen[0].1), (1, &row.id.tx()));
        let Content::Data(facts) = &seen[0].0[0].content else { panic!("{seen:?}") };
        let facts = facts.to_value();
        assert_eq!(facts["input"], json!({"text": "read it", "page": 2}));
        assert_eq!((&facts["capability_id"], &facts["transaction_id"]), (&json!("ocr"), &json!(row.id.tx())));
        assert_eq!(seen[0].0[1].as_text(), Some("read it"));
        // Its task is the seller's, and names the purchase.
        let place = model::CallScope::tenant(
            model::Caller { tenant: "default".into(), name: "s".into(), authenticated: true, scopes: Arc::default() },
            "worker",
            "uumit",
        );
        let tasks = fair.engine().list(&place, &model::List::default()).await.unwrap().tasks;
        assert_eq!((tasks.len(), tasks[0].state(), &*tasks[0].owner), (1, State::Completed, "s"));
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn an_echo_can_be_sold() {
    on_both_stores(async |mut house| {
        let fair = house.fair(vec![echo()], MarketConfig::default()).await;
        let said = fair.sells("s", "echo", offer(Served::Agent("echo".into()))).await;
        fair.has("b", 10_000).await;
        let row = fair.order_with("b", &said, &json!("say this")).await;
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(row.id, Status::Delivered).await;
        let result = row.result.unwrap().to_value();
        assert!(result["text"].as_str().unwrap().contains("say this"), "{result}");
    })
    .await;
}

#[tokio::test]
async fn files_are_deliverables_and_words_alone_are_a_result() {
    on_both_stores(async |mut house| {
        let seen = Seen::default();
        let (fair, ocr) = fair(&mut house, &seen).await;
        let files = fair.order_with("b", &ocr, &json!("files")).await;
        fair.act("b", files.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(files.id, Status::Delivered).await;
        let names: Vec<_> = row.deliverables.iter().map(|file| &*file.file_name).collect();
        assert_eq!(names, ["a.pdf", "file-2"]);
        assert_ne!(row.deliverables[0].access_id, row.deliverables[1].access_id);
        let result = row.result.unwrap().to_value();
        assert_eq!(result["text"], "two files");
        let parts = &result["artifacts"][0]["parts"];
        assert_eq!((&parts[1]["file_name"], &parts[2]["url"]), (&json!("a.pdf"), &json!("https://example.com/x")));
        assert_eq!(parts[1]["access_id"], *row.deliverables[0].access_id);

        let words = fair.order_with("b", &ocr, &json!({"prompt": "say"})).await;
        fair.act("b", words.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(words.id, Status::Delivered).await;
        assert_eq!(row.result.unwrap().to_value(), json!({"text": "only words", "artifacts": []}));
    })
    .await;
}

#[tokio::test]
async fn what_an_agent_does_not_do_is_paid_back() {
    on_both_stores(async |mut house| {
        let seen = Seen::default();
        let (fair, ocr) = fair(&mut house, &seen).await;
        for (input, reason) in [
            ("fail", "the agent failed: out of paper"),
            ("reject", "the agent rejected it: not my line"),
            ("ask", "the agent asked for more input, which a purchase cannot give: which page?"),
            ("much", "the agent's result is too large to be delivered: it may have 262144 bytes"),
        ] {
            let row = fair.order_with("b", &ocr, &json!(input)).await;
            fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
            let row = fair.comes_to(row.id, Status::Failed).await;
            assert_eq!(row.reason.as_deref(), Some(reason));
            assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (1_000_000, 0));
        }
        // An agent that was removed.
        let gone = fair.sells("s", "gone", offer(Served::Agent("nobody".into()))).await;
        let row = fair.order("b", &gone).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(row.id, Status::Failed).await;
        assert_eq!(row.reason.as_deref(), Some("the agent nobody that serves this is no longer here"));
        // A turn that asks for input fails the purchase.
        until(async || {
            let states = fair.engine().health().await.unwrap().states;
            !states.iter().any(|(state, count)| *state == State::InputRequired && *count > 0)
        })
        .await;
        adds_up(&fair).await;
    })
    .await;
}

/// The purchase ends while its agent works: the agent is stopped.
#[tokio::test]
async fn an_agent_whose_purchase_is_over_is_stopped() {
    on_both_stores(async |mut house| {
        let seen = Seen::default();
        let (fair, ocr) = fair(&mut house, &seen).await;
        let row = fair.order_with("b", &ocr, &json!("hang")).await;
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        until(async || seen.lock().len() == 1).await;
        assert_eq!(fair.row(row.id).await.status, Status::Accepted);
        fair.market
            .act(&market_rules::Actor::Platform, row.id, TransactionAction::Fail { reason: None }, None)
            .await
            .unwrap();
        until(async || {
            let states = fair.engine().health().await.unwrap().states;
            states.iter().any(|(state, count)| *state == State::Canceled && *count == 1)
        })
        .await;
        assert_eq!(fair.engine().health().await.unwrap().running, 0);
        adds_up(&fair).await;
    })
    .await;
}
