//! Webhooks: the progress of each, and redelivery. Addresses are shown as far as their host.

use model::{PushState, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use web::body::Response;

use super::problem::ApiProblem;
use super::routes::USUAL_PAGE;
use super::{ApiContext, ok};
use crate::admin::CoreRequest;

/// The most webhooks of one task that are shown with it.
const OF_TASK: u32 = 200;

pub(super) fn states() -> Vec<&'static str> {
    PushState::ALL.map(PushState::name).into()
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "Delivery")]
pub(super) struct ApiDelivery {
    task: String,
    /// The id of the push config.
    config: String,
    /// Scheme, host and port of its address; null where its config cannot be decrypted.
    endpoint: Option<String>,
    dialect: Option<String>,
    /// `active`, `done` or `dead`.
    state: String,
    /// The number of the next event to deliver.
    next: u64,
    /// Failures of that event in a row.
    attempts: u32,
    /// No attempt before this time.
    due_at: String,
    delivered: u64,
    delivered_at: Option<String>,
    /// The last failure.
    trouble: Option<String>,
    made_at: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deliveries")]
pub(super) struct ApiDeliveries {
    deliveries: Vec<ApiDelivery>,
}

/// Which webhooks of the task are delivered again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Redelivery")]
pub(super) struct ApiRedelivery {
    /// The id of one push config; without it, all of the task.
    #[serde(default)]
    id: Option<String>,
    /// The number of the event to begin at; without it, delivery goes on where it stopped.
    #[serde(default)]
    from: Option<u64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Redelivered")]
pub(super) struct ApiRedelivered {
    /// The own id of the task.
    task: String,
    /// The number of push configs that are delivered again.
    redelivered: u64,
}

pub(super) async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let state = context.http.query_param("state");
    let state = state.and_then(|word| PushState::ALL.into_iter().find(|one| one.name() == word)).map(PushState::code);
    let task = match context.http.query_param("task") {
        Some(task) => Some(context.task_named(task).await?.to_string()),
        None => None,
    };
    let limit = context.number("limit", USUAL_PAGE);
    let found: ApiDeliveries = context.perform_as(CoreRequest::PushList { task, state, limit }).await?;
    ok(&found)
}

/// The webhooks of one task.
pub(super) async fn of_task(context: &ApiContext<'_>, task: TaskId) -> Result<Vec<ApiDelivery>, ApiProblem> {
    let request = CoreRequest::PushList { task: Some(task.to_string()), state: None, limit: OF_TASK };
    let found: ApiDeliveries = context.perform_as(request).await?;
    Ok(found.deliveries)
}

pub(super) async fn redeliver(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let ApiRedelivery { id, from } = context.body()?;
    let task = context.task().await?.to_string();
    let done: ApiRedelivered = context.perform_as(CoreRequest::PushRedeliver { task, id, from }).await?;
    ok(&done)
}
