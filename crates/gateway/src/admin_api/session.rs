//! The caller of a request: who it is, and what it may do.

use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::access::ApiRole;
use super::problem::ApiProblem;
use super::routes::{ApiRoute, ROUTES};
use super::{ApiContext, ok};

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(super) struct ApiSession {
    /// The name of the credential.
    caller: String,
    tenant: String,
    role: ApiRole,
    /// It sees every tenant, not only its own.
    all_tenants: bool,
    /// The ids of the operations that it may use.
    operations: Vec<String>,
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let caller = &context.caller;
    let allowed = ROUTES.iter().filter(|route| caller.may(route).is_ok());
    ok(&ApiSession {
        caller: caller.known.name.to_string(),
        tenant: caller.known.tenant.to_string(),
        role: caller.role,
        all_tenants: caller.all_tenants,
        operations: allowed.map(ApiRoute::id).collect(),
    })
}
