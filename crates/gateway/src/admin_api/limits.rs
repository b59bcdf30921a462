//! Limits of the whole server, and the parts of them that are used now.

use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};

/// The most callers in a list.
const CALLERS: usize = 50;

/// A number that has a limit.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsedLimit")]
pub(super) struct ApiUsedLimit {
    /// Its key in the config.
    name: String,
    /// `bytes` or `number`.
    unit: String,
    used: u64,
    most: u64,
}

/// A rate of calls.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UsedRate")]
pub(super) struct ApiUsedRate {
    /// Its key in the config.
    name: String,
    per_minute: u32,
    burst: u32,
    /// Callers, tenants or addresses that used part of it lately.
    counted: u64,
    /// Calls that it has refused since the start.
    refused: u64,
}

/// What one caller may do at a time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsedPlaces")]
pub(super) struct ApiUsedPlaces {
    /// Its key in the config.
    name: String,
    /// For each caller.
    most: u32,
    /// Callers that use any, and the number of the one that uses the most.
    callers: u64,
    highest: u32,
    /// Calls that it has refused since the start.
    refused: u64,
}

/// A caller and its calls of today.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DailyCaller")]
pub(super) struct ApiDailyCaller {
    /// Empty for an address.
    tenant: String,
    /// The name of the credential, or the address of callers without one.
    name: String,
    calls: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DailyCalls")]
pub(super) struct ApiDailyCalls {
    /// For each caller in a day of UTC.
    most: u64,
    refused: u64,
    /// Those with the most calls today.
    callers: Vec<ApiDailyCaller>,
}

/// Limits of the process that answers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Limits")]
pub(super) struct ApiUsedLimits {
    limits: Vec<ApiUsedLimit>,
    /// Those of the config.
    rates: Vec<ApiUsedRate>,
    places: Vec<ApiUsedPlaces>,
    /// Null where the config has no such limit.
    daily: Option<ApiDailyCalls>,
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let server = context.server;
    let (engine, refusals) = (&server.engine, &server.metrics.rate_limited);
    let bytes = |name: &str, used: usize, most: usize| ApiUsedLimit {
        name: name.to_owned(),
        unit: "bytes".to_owned(),
        used: used as u64,
        most: most as u64,
    };
    let live = engine.live_memory();
    let figures = engine.figures();
    let mut shown = ApiUsedLimits {
        limits: vec![
            bytes("limits.bodies_mib", server.intake.held(), server.intake.most()),
            bytes("limits.answers_mib", server.answers.held(), server.answers.most()),
            bytes("limits.live_mib", live.held(), live.most()),
            ApiUsedLimit {
                name: "limits.running_turns".to_owned(),
                unit: "number".to_owned(),
                used: figures.turns_running,
                most: engine.limits().running_turns as u64,
            },
        ],
        rates: Vec::new(),
        places: Vec::new(),
        daily: None,
    };
    let Some(throttle) = &server.throttle else { return ok(&shown) };
    for (name, rate, counted) in throttle.rates() {
        shown.rates.push(ApiUsedRate {
            name: format!("limits.rate.{name}"),
            per_minute: rate.per_minute.get(),
            burst: rate.burst.get(),
            counted: counted as u64,
            refused: refusals.number(name),
        });
    }
    for (name, most, (callers, highest)) in throttle.places() {
        shown.places.push(ApiUsedPlaces {
            name: format!("limits.{name}"),
            most,
            callers: callers as u64,
            highest,
            refused: refusals.number(name),
        });
    }
    shown.daily = throttle.daily(CALLERS).map(|(most, callers)| ApiDailyCalls {
        most,
        refused: refusals.number("daily_calls"),
        callers: callers
            .into_iter()
            .map(|one| ApiDailyCaller { tenant: one.tenant.to_string(), name: one.name.to_string(), calls: one.calls })
            .collect(),
    });
    ok(&shown)
}
