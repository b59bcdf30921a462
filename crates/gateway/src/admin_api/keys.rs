//! Keys: those that operators made, of the caller's tenant or of all.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok, shown};
use crate::admin::CoreRequest;

/// A key is good for a hundred years at most.
const LONGEST_MS: u64 = 36_525 * 86_400_000;
/// The most scopes of a key, and the longest.
const SCOPES: usize = 100;
const SCOPE: usize = 256;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
#[schemars(rename = "Key")]
pub(super) struct ApiMadeKey {
    id: String,
    name: String,
    tenant: String,
    /// An empty list covers every call to agents, and gives no role here.
    scopes: Vec<String>,
    /// The beginning of its secret, so that its owner can tell which key it is.
    prefix: String,
    /// `valid`, `expired` or `revoked`.
    state: String,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewKey")]
pub(super) struct ApiNewKey {
    #[serde(flatten)]
    key: ApiMadeKey,
    /// Shown once.
    secret: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Keys")]
pub(super) struct ApiKeys {
    keys: Vec<ApiMadeKey>,
}

/// A key to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "KeyWish")]
pub(super) struct ApiKeyWish {
    name: String,
    /// Without it, the caller's own.
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    /// The time until it expires; without it, it does not.
    #[serde(default)]
    expires_in_ms: Option<u64>,
}

pub(super) async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let keys: ApiKeys = context.perform_as(CoreRequest::KeysList).await?;
    ok(&keys)
}

pub(super) async fn create(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let ApiKeyWish { name, tenant, scopes, expires_in_ms } = context.body()?;
    if expires_in_ms.is_some_and(|ms| !(1..=LONGEST_MS).contains(&ms)) {
        return Err(ApiProblem::field("expiresInMs", format!("must be a number from 1 to {LONGEST_MS}")));
    }
    if scopes.len() > SCOPES || scopes.iter().any(|scope| scope.len() > SCOPE) {
        return Err(ApiProblem::field("scopes", format!("must have at most {SCOPES} scopes of {SCOPE} bytes")));
    }
    let tenant = tenant.unwrap_or_else(|| context.caller.known.tenant.to_string());
    let request = CoreRequest::KeysCreate { name, tenant, scopes, policy_scopes: Vec::new(), expires_in_ms };
    let made: ApiNewKey = context.perform_as(request).await?;
    shown(StatusCode::CREATED, &made)
}

pub(super) async fn revoke(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.http.id().to_owned();
    let ApiKeys { keys } = context.perform_as(CoreRequest::KeysList).await?;
    if !keys.iter().any(|key| key.id == id || key.prefix == id) {
        return Err(ApiProblem::missing("there is no such key"));
    }
    let gone: ApiMadeKey = context.perform_as(CoreRequest::KeysRevoke { id }).await?;
    ok(&gone)
}
