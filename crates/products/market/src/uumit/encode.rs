//! Encodes a purchase as a task of UUMit: the status is a plain string with five members beside it and, once settled, a
//! summary and the files.

use market_rules::Transaction;
use market_rules::autonomy::Confirmation;
use market_rules::transaction::{Deliverable, Status};
use model::{EventId, State, Time};

use super::errors::Error;
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id};
use dialects::framing::sse;

/// The last event of a subscription whose window has ended; the client subscribes again.
pub const HEARTBEAT: &[u8] = b"event: heartbeat\ndata: {\"ok\": true}\n\n";

/// The name of a state. UUMit has no names for rejected and auth-required.
pub fn status(state: State) -> &'static str {
    match state {
        State::Submitted => "submitted",
        State::Working => "working",
        State::InputRequired | State::AuthRequired => "input-required",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Canceled | State::Rejected => "canceled",
    }
}

/// The answer to `tasks/send`.
pub fn sent(id: &Id<'_>, row: &Transaction) -> Vec<u8> {
    result(id, |w| {
        w.begin_object();
        head(w, row);
        seconds(w.key("created_at"), row.created_at);
        w.end_object();
    })
}

/// The answer to `tasks/get`.
pub fn got(id: &Id<'_>, row: &Transaction) -> Vec<u8> {
    result(id, |w| task(w, row))
}

/// The answer to `tasks/cancel`.
pub fn canceled(id: &Id<'_>, row: &Transaction) -> Vec<u8> {
    result(id, |w| {
        w.begin_object();
        head(w, row);
        w.end_object();
    })
}

/// One event of a subscription: the purchase as it is now.
pub fn task_frame(out: &mut Vec<u8>, id: &Id<'_>, row: &Transaction) {
    sse::write_frame(out, None::<EventId>, Some("task"), &[&got(id, row)]);
}

/// The error event that ends a subscription.
pub fn error_frame(out: &mut Vec<u8>, id: &Id<'_>, error: &Error) {
    sse::write_frame(out, None::<EventId>, Some("error"), &[&error.encode(id)]);
}

fn result(id: &Id<'_>, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = jsonrpc::begin_result(id, 512);
    write(&mut w);
    jsonrpc::end_result(&mut w);
    w.finish().as_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default()
}

fn head(w: &mut Writer, row: &Transaction) {
    w.key("id").plain(&row.id.task());
    w.key("status").plain(status(row.state()));
}

/// A purchase as a task.
pub fn task(w: &mut Writer, row: &Transaction) {
    w.begin_object();
    head(w, row);
    w.key("metadata").begin_object();
    let context = row.context.as_ref().map(|context| context.as_str());
    nullable(w.key("context_id"), context);
    w.key("buyer_user_id").string(row.buyer.as_str());
    w.key("seller_user_id").string(row.seller.as_str());
    w.key("transaction_type").plain(row.pricing_model.name());
    w.key("autonomy_confirmation");
    match &row.autonomy {
        Some(record) => confirmation(w, record),
        None => w.null(),
    }
    w.end_object();
    if row.status == Status::Settled {
        w.key("artifacts").begin_array();
        artifact(w, "transaction_summary", |w| summary(w, row));
        for file in &row.deliverables {
            artifact(w, &file.file_name, |w| deliverable(w, file));
        }
        w.end_array();
    }
    w.end_object();
}

/// The record of a confirmation that was or is needed.
pub fn confirmation(w: &mut Writer, record: &Confirmation) {
    w.begin_object();
    w.key("required").bool(record.required);
    w.key("status").plain(record.status.name());
    w.key("risk_level").plain(record.risk_level.name());
    w.key("estimated_cost_ut").display(record.estimated_cost);
    nullable(w.key("confirmed_by"), record.confirmed_by.as_ref().map(|user| user.as_str()));
    w.key("confirmed_at");
    match record.confirmed_at {
        Some(at) => seconds(w, at),
        None => w.null(),
    }
    w.end_object();
}

/// A time in UUMit's form, in whole seconds: `2026-04-09T08:00:00Z`.
fn seconds(w: &mut Writer, time: Time) {
    let text = time.to_string();
    let whole = text.split_once('.').map(|(whole, _)| format!("{whole}Z"));
    w.string(&whole.unwrap_or(text));
}

fn artifact(w: &mut Writer, name: &str, data: impl FnOnce(&mut Writer)) {
    w.begin_object();
    w.key("name").string(name);
    w.key("parts").begin_array();
    w.begin_object();
    w.key("type").plain("data");
    data(w.key("data"));
    w.end_object();
    w.end_array();
    w.end_object();
}

fn summary(w: &mut Writer, row: &Transaction) {
    w.begin_object();
    w.key("uuagent_transaction_id").plain(&row.id.tx());
    w.key("uuagent_capability_id").string(row.capability.as_str());
    w.key("price_ut").display(row.price);
    w.key("commission_ut").display(row.commission);
    w.key("internal_status").plain(row.status.name());
    w.key("decision_source").plain(row.decision_source.name());
    w.end_object();
}

/// A delivered file, by the ids for its download.
pub fn deliverable(w: &mut Writer, file: &Deliverable) {
    w.begin_object();
    w.key("deliverable_id").string(&file.deliverable_id);
    w.key("access_id").string(&file.access_id);
    w.key("file_name").string(&file.file_name);
    w.end_object();
}

fn nullable(w: &mut Writer, text: Option<&str>) {
    match text {
        Some(text) => w.string(text),
        None => w.null(),
    }
}
