//! The commands of the `rialto` program, for operators on other machines: one object in the form of the admin socket, whose
//! member `do` names the command, and the same answer. Each command has its own role ([`AdminRequest::access`]), which is
//! checked before it is performed.

use http::StatusCode;
use model::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use web::body::{Response, reserve, with_reserved};
use web::response::private_json;

use super::ApiContext;
use super::problem::ApiProblem;
use crate::admin::AdminRequest;

/// A command. Its other members are its arguments.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Command")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ApiCommand {
    /// The name of the command, such as `task_list`.
    #[serde(rename = "do")]
    name: String,
    #[serde(flatten)]
    arguments: Map<String, Value>,
}

pub(super) async fn perform(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let request = AdminRequest::read(context.body_text()?, context.door.products).map_err(|error| {
        let says = error.to_string();
        // The position in the text does not help a client that sent an object.
        let says = says.split(" at line ").next().unwrap_or_default();
        ApiProblem::field("body", format!("is no command of this server: {says}"))
    })?;
    let name = request.name();
    let access = request.access().ok_or_else(|| {
        ApiProblem::forbidden(format!("{name} is for the machine of the server alone: run the command there"))
    })?;
    context.caller.covers(access)?;
    tracing::info!(command = name, by = &*context.caller.known.name, "admin command");
    let done = serde_json::to_vec(&context.perform(request).await?).map_err(Fault::internal)?;
    let share = reserve(&context.server.answers, done.len())?;
    Ok(private_json(StatusCode::OK, with_reserved(done.into(), share)))
}
