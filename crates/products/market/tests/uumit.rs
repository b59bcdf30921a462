//! UUMit's wire format: every example of its documentation, as requests and responses, and all errors.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::sync::Arc;

use dialects::framing::jsonrpc;
use market::uumit::errors::{Error, Line};
use market::uumit::{card, decode, encode};
use market_rules::transaction::{Deliverable, PurchaseOrder, TransactionAction, TransactionRules};
use market_rules::{
    Actor, CapabilityId, Error as Refusal, MarketState as Book, Transaction, UserId, Ut, Via, autonomy, capability,
    ledger,
};
use model::{Fault, Json, Kind, Limits, State, Time};
use serde_json::Value;

const TENANT: &str = "default";
const PLATFORM: &str = "the platform";
/// 2026-04-09T08:00:00Z
const NOW: Time = Time(1_775_721_600_000);

fn offer(id: &str, served: capability::Served) -> market_rules::Capability {
    let draft = capability::CapabilityDraft {
        title: Some("OCR of invoices".into()),
        description: Some("Reads an invoice".into()),
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        price_ut: Json::parse("120"),
        tags: vec!["ocr".into(), "invoice".into()],
        ..Default::default()
    };
    let mut terms = draft.check(&capability::CapabilityRules::default()).unwrap();
    terms.served = served;
    let mut offer =
        market_rules::Capability::new(&TENANT.into(), CapabilityId::from(id), UserId::from("660f9500"), terms, NOW);
    offer.status = capability::Status::Active;
    offer
}

struct Shop {
    book: Book,
    row: Transaction,
}

/// A purchase for 120 by an agent with the limit `alone`.
fn bought(alone: &str, context: Option<&str>) -> Shop {
    let (tenant, buyer): (Arc<str>, UserId) = (TENANT.into(), "550e8400".into());
    let mut book = Book::default();
    let credit = Ut::parse("1000").unwrap();
    book.post(&ledger::LedgerEntry::recharge(&tenant, &buyer, credit, "welcome", None, NOW).unwrap()).unwrap();
    let offer = offer("cap_ocr_invoice_v1", capability::Served::Person);
    book.put_capability(offer.clone());
    let order = PurchaseOrder {
        id: "task_01jqxyz0000000000000000000".parse().unwrap(),
        tenant,
        buyer,
        via: Via::Agent,
        booked_hours: None,
        context: context.map(Into::into),
        demand: None,
        input: None,
        limits: autonomy::SpendingLimits { per_call: Ut::parse(alone).unwrap(), ..Default::default() },
        spent: Ut::ZERO,
        confirmed: None,
        sold: market_rules::Sales::default(),
    };
    let row = book.order(order, &offer.id, NOW, &TransactionRules::default()).unwrap().transaction;
    Shop { book, row }
}

impl Shop {
    fn act(&mut self, actor: &str, action: TransactionAction) -> &Transaction {
        let actor = if actor == PLATFORM { Actor::Platform } else { Actor::person(TENANT, &actor.into()) };
        let now = Time(self.row.updated_at.0 + 1_000);
        self.row = self.book.act(self.row.id, &actor, action, now, &TransactionRules::default()).unwrap().transaction;
        &self.row
    }

    fn delivered(&mut self, files: Vec<Deliverable>) {
        self.act("550e8400", TransactionAction::Freeze);
        self.act("660f9500", TransactionAction::Accept);
        let result = Json::parse(r#"{"total":"99.50"}"#);
        self.act("660f9500", TransactionAction::Deliver { result, deliverables: files });
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn request(line: &str) -> String {
    let request = jsonrpc::read(line).unwrap();
    match decode::decode(&request.method, request.params, &Limits::default()) {
        Ok(decoded) => format!("{decoded:?}"),
        Err(fault) => text(Error::of_fault(&fault, -32602).encode(&request.id)),
    }
}

#[test]
fn requests() {
    let mut out = String::new();
    for line in [
        // Examples of the documentation.
        r#"{ "jsonrpc": "2.0", "method": "tasks/send", "params": { "capability_id": "cap_ocr_invoice_v1", "booked_hours": null }, "id": "1"}"#,
        r#"{"jsonrpc":"2.0","id":"1","method":"tasks/send","params":{"capability_id":"cap_ocr_invoice_v1"}}"#,
        r#"{ "jsonrpc": "2.0", "method": "tasks/get", "params": { "id": "task_01jqxyz" }, "id": "2"}"#,
        r#"{ "jsonrpc": "2.0", "method": "tasks/cancel", "params": { "id": "task_01jqxyz" }, "id": "3"}"#,
        r#"{ "jsonrpc": "2.0", "method": "tasks/sendSubscribe", "params": { "id": "task_01jqxyz" }, "id": "sub-001"}"#,
        r#"{ "jsonrpc": "2.0", "method": "tasks/send", "params": {}, "id": "req-550e8400-e29b-41d4-a716-446655440000"}"#,
        // Every spelling of an id.
        r#"{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"id":"task_01jqxyz0000000000000000000"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tasks/cancel","params":{"id":"tx_01jqxyz0000000000000000000","idempotency_key":"k"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tasks/sendSubscribe","params":{"id":"01jqxyz0000000000000000000"}}"#,
        // Further members that clients send.
        r#"{"jsonrpc":"2.0","id":5,"method":"tasks/send","params":{"id":"x","sessionId":"s","capability_id":"c","booked_hours":3,"context_id":"ctx","demand_id":"d","idempotency_key":"k","confirm_token":"t","message":{"role":"user","parts":[{"type":"text","text":"a \"b\""},{"text":"c"}]},"metadata":{"targetAgentId":"z","uuagent":{"idempotency_key":"other"}}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tasks/send","params":{"capability_id":"c","metadata":{"uuagent":{"idempotency_key":"k","x":1}},"message":{"parts":[{"type":"text","text":"a"},{"type":"data","data":{"b":1}}]}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tasks/send","params":{"capability_id":"c","message":"read this"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tasks/send","params":{"capability_id":"c","input":{"url":"https://a.example/i.pdf"},"message":null}}"#,
        // Invalid requests.
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send"}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send","params":{"capability_id":""}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send","params":{"capability_id":7}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send","params":{"capability_id":"c","booked_hours":0}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send","params":{"capability_id":"c","booked_hours":1.5}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/send","params":{"capability_id":"c","metadata":{"uuagent":{"idempotency_key":1}}}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/get","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/sendSubscribe"}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/cancel","params":{"id":""}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tasks/pushNotification/set","params":{"id":"task_1"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"message/send","params":{}}"#,
    ] {
        writeln!(out, "{line}\n  {}\n", request(line)).unwrap();
    }
    insta::assert_snapshot!("requests", out);
}

#[test]
fn answers() {
    let id = jsonrpc::Id::of(&"1".into()).unwrap();
    let mut out = String::new();
    let mut show = |what: &str, bytes: Vec<u8>| {
        let line = text(bytes);
        serde_json::from_str::<Value>(&line).unwrap();
        writeln!(out, "# {what}\n{line}\n").unwrap();
    };
    let mut shop = bought("1000", Some("ctx_abc"));
    show("sent", encode::sent(&id, &shop.row));
    show("submitted", encode::got(&id, &shop.row));
    shop.act("550e8400", TransactionAction::Freeze);
    show("frozen", encode::got(&id, &shop.row));
    shop.act("660f9500", TransactionAction::Accept);
    show("working", encode::got(&id, &shop.row));
    let file = |n: &str| Deliverable {
        deliverable_id: format!("del_{n}").into(),
        access_id: format!("acc_{n}").into(),
        file_name: format!("invoice \"{n}\".json").into(),
    };
    let result = Json::parse(r#"{"total":"99.50"}"#);
    shop.act("660f9500", TransactionAction::Deliver { result, deliverables: vec![file("1"), file("2")] });
    show("delivered", encode::got(&id, &shop.row));
    shop.act("550e8400", TransactionAction::Confirm);
    show("settled, with two files", encode::got(&id, &shop.row));

    let mut shop = bought("1000", None);
    shop.delivered(Vec::new());
    shop.act("550e8400", TransactionAction::Confirm);
    show("settled, without files", encode::got(&id, &shop.row));

    let mut shop = bought("1000", None);
    shop.act("550e8400", TransactionAction::Cancel);
    show("cancelled by its buyer, the answer to that", encode::canceled(&id, &shop.row));
    show("cancelled by its buyer", encode::got(&id, &shop.row));

    let mut shop = bought("1000", None);
    shop.act("550e8400", TransactionAction::Freeze);
    shop.act("660f9500", TransactionAction::Reject { reason: Some("no time".into()) });
    show("rejected by its seller", encode::got(&id, &shop.row));

    let mut shop = bought("1000", None);
    shop.act("550e8400", TransactionAction::Freeze);
    shop.act("660f9500", TransactionAction::Accept);
    shop.act(PLATFORM, TransactionAction::Fail { reason: None });
    show("failed", encode::got(&id, &shop.row));

    let mut shop = bought("100", None);
    show("sent, above what the agent may spend", encode::sent(&id, &shop.row));
    show("waits for a person's yes", encode::got(&id, &shop.row));
    shop.act("550e8400", TransactionAction::Approve(None));
    show("a person said yes", encode::got(&id, &shop.row));
    insta::assert_snapshot!("answers", out);
}

#[test]
fn every_state_has_one_of_the_six_words() {
    let words = [
        (State::Submitted, "submitted"),
        (State::Working, "working"),
        (State::InputRequired, "input-required"),
        (State::AuthRequired, "input-required"),
        (State::Completed, "completed"),
        (State::Failed, "failed"),
        (State::Canceled, "canceled"),
        (State::Rejected, "canceled"),
    ];
    for (state, word) in words {
        assert_eq!(encode::status(state), word);
    }
}

#[test]
fn frames() {
    let id = jsonrpc::Id::of(&"sub-001".into()).unwrap();
    let mut shop = bought("1000", None);
    let mut out = Vec::new();
    shop.act("550e8400", TransactionAction::Freeze);
    shop.act("660f9500", TransactionAction::Accept);
    encode::task_frame(&mut out, &id, &shop.row);
    let stranger = Error::of_refusal(&Refusal::NotParty, -32602, NOW);
    for error in [Error::no_task(), stranger] {
        encode::error_frame(&mut out, &id, &error.in_stream().unwrap());
    }
    out.extend_from_slice(encode::HEARTBEAT);
    let out = text(out);
    // The documentation has these three verbatim.
    for literal in [
        "event: error\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"sub-001\",\"error\":{\"code\":-32004,\"message\":\"Task not found\",\"data\":{\"error_type\":\"not_found\"}}}\n\n",
        "event: error\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"sub-001\",\"error\":{\"code\":-32003,\"message\":\"Permission denied\",\"data\":{\"error_type\":\"permission_denied\"}}}\n\n",
        "event: heartbeat\ndata: {\"ok\": true}\n\n",
    ] {
        assert!(out.contains(literal), "{out}");
    }
    insta::assert_snapshot!("frames", out);
}

#[test]
fn faults() {
    let id = jsonrpc::Id::of(&"1".into()).unwrap();
    let mut out = String::new();
    let mut show = |what: String, error: &Error| {
        let (http, line) = (error.http, text(error.encode(&id)));
        let retry = error.retry_after_s.map_or(String::new(), |s| format!(", retry after {s} s"));
        writeln!(out, "# {what}: {http}{retry}\n{line}\n").unwrap();
    };
    for kind in Kind::ALL {
        show(format!("{kind:?}"), &Error::of_fault(&Fault::new(kind, "what is wrong"), -32602));
    }
    show(
        "Unavailable, for a while".into(),
        &Error::of_fault(&Fault::new(Kind::Unavailable, "full").retry_after(2), -32602),
    );
    use market_rules::transaction::{Role, Status, Verb};
    let again_at = Time(NOW.0 + 1_500);
    let field = capability::FieldError::new("booked_hours", "is required for a price per hour");
    let refusals = [
        Refusal::NotParty,
        Refusal::WrongActor { verb: Verb::Cancel, role: Role::Seller },
        Refusal::WrongState { verb: Verb::Cancel, status: Status::Settled },
        Refusal::WrongState { verb: Verb::Cancel, status: Status::Accepted },
        Refusal::ConfirmationPending,
        Refusal::NothingPending,
        Refusal::Token(autonomy::TokenRefused::Expired),
        Refusal::Insufficient { needed: Ut::parse("120").unwrap(), available: Ut::parse("7.5").unwrap() },
        Refusal::OwnCapability,
        Refusal::NotOnSale { capability: "cap_1".into(), status: capability::Status::Offline },
        Refusal::Quota { per: market_rules::error::Per::Minute, limit: 3, again_at },
        Refusal::Invalid(field),
        Refusal::NotDue,
        Refusal::Changed,
    ];
    for refusal in &refusals {
        show(format!("{refusal:?}"), &Error::of_refusal(refusal, -32602, NOW));
    }
    show("a code of the operator's".into(), &Error::of_refusal(&refusals[2], -32010, NOW));
    insta::assert_snapshot!("faults", out);
}

/// Only documented errors are sent inside a stream.
#[test]
fn a_stream_tells_of_two_errors_only() {
    for line in Line::ALL {
        let told = Error::new(line, "x").in_stream();
        let expected = match line {
            Line::TaskNotFound | Line::NotFoundInStream => Some(-32004),
            Line::PermissionDenied => Some(-32003),
            _ => None,
        };
        assert_eq!(told.map(|error| error.code()), expected, "{line:?}");
    }
}

#[test]
fn cards() {
    let callback = capability::Served::Callback { url: "https://seller.example/hook".into(), timeout_s: 30 };
    let offers = [offer("cap_ocr_invoice_v1", callback), offer("cap_by_hand", capability::Served::Person)];
    let mut out = String::new();
    for bytes in [
        card::platform("https://a.example/uumit/a2a", &offers),
        card::platform("https://a.example/uumit/a2a", &[]),
        card::seller("https://a.example/uumit/a2a", &"660f9500".into(), &offers[..1]),
    ] {
        let card: Value = serde_json::from_slice(&bytes).unwrap();
        writeln!(out, "{}\n", serde_json::to_string_pretty(&card).unwrap()).unwrap();
    }
    insta::assert_snapshot!("cards", out);
}
