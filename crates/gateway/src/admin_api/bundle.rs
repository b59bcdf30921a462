//! A task as a file for a bug report.

use http::HeaderValue;
use http::header::CONTENT_DISPOSITION;
use model::Fault;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use web::body::{Response, reserve};

use super::ApiContext;
use super::agents::{ApiLimits, limits};
use super::deliveries::{self, ApiDelivery};
use super::problem::ApiProblem;
use super::tasks::{ApiTaskRow, read};
use crate::admin::bundle::{self, Bundle, BundleContent};

pub(super) fn contents() -> Vec<&'static str> {
    vec!["whole", "none"]
}

/// A task for a bug report, which `rialto task import` stores elsewhere.
#[derive(Serialize)]
struct BundleFile {
    #[serde(flatten)]
    bundle: Bundle,
    summary: ApiTaskRow,
    agent: BundledAgent,
    deliveries: Vec<ApiDelivery>,
}

/// What holds for the tasks of the agent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BundledAgent")]
struct BundledAgent {
    name: String,
    /// It accepts messages.
    is_served: bool,
    restart: Option<String>,
    streaming: Option<bool>,
    has_workers: bool,
    limits: ApiLimits,
}

/// The schema of [`BundleFile`].
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Bundle")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ApiBundle {
    format: String,
    version: u32,
    release: String,
    exported_at: String,
    /// `whole` or `none`.
    content: String,
    id: String,
    /// Every event as a pair of its time in milliseconds and its stored form.
    log: Vec<Vec<Value>>,
    summary: ApiTaskRow,
    agent: BundledAgent,
    deliveries: Vec<ApiDelivery>,
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let server = context.server;
    let task = read(context).await?;
    let content = match context.http.query_param("content") {
        Some("none") => BundleContent::None,
        _ => BundleContent::Whole,
    };
    // The log and its text: content is escaped, and every event has names and times.
    let events = usize::try_from(task.seq().0).unwrap_or(usize::MAX);
    let log = task.weight().saturating_mul(2).saturating_add(events.saturating_mul(512));
    let share = reserve(&server.answers, 2 * log.min(bundle::MOST))?;
    let profile = server.engine.profile(&task.agent);
    let mut summary = ApiTaskRow::of(&task);
    if content == BundleContent::None {
        summary.hide_message();
    }
    let file = BundleFile {
        bundle: bundle::export(&context.admin(), task.id, content).await?,
        summary,
        agent: BundledAgent {
            name: task.agent.to_string(),
            is_served: profile.is_some(),
            restart: profile.as_ref().map(|profile| super::agents::restart(profile.restart).to_owned()),
            streaming: profile.as_ref().map(|profile| profile.streaming),
            has_workers: server.engine.desk(&task.agent).is_some(),
            limits: limits(server.engine.limits()),
        },
        deliveries: deliveries::of_task(context, task.id).await?,
    };
    let text = serde_json::to_vec(&file).map_err(Fault::internal)?;
    drop((file, share));
    let mut response = context.counted_json(text)?;
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"rialto-task-{}.json\"", task.id)) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}
