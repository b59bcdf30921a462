//! Logins and device authorization: `/auth`, with the page where a person approves a device.

use crate::service::{DeviceApproval, DeviceState, LoginTokens};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::routes::{MarketFuture, MarketRequest};
use super::{credentials, printable};
use web::body::Response;
use web::client_address::network_of;
use web::html::{self, Forms};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Login {
    #[schemars(length(min = 1, max = 200))]
    account: String,
    #[schemars(length(min = 1, max = 1_000))]
    password: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Refresh {
    #[schemars(length(min = 1, max = 4_000))]
    refresh_token: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Logout {
    /// Of the login that is to end, where no access token is shown.
    #[serde(default)]
    #[schemars(length(min = 1, max = 4_000))]
    refresh_token: Option<String>,
    /// Every login of the user ends; for this an access token is shown.
    #[serde(default)]
    everywhere: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PasswordChange {
    #[schemars(length(min = 1, max = 1_000))]
    current_password: String,
    #[schemars(length(min = 8, max = 256))]
    new_password: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoggedOut")]
pub(super) struct ShownLogout {
    #[schemars(extend("enum" = ["logged_out"]))]
    status: &'static str,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DeviceAsks {
    /// `openclaw`, `claude_desktop`, `cursor`, `hermes_agent`, `custom_mcp`; anything else counts as the last.
    #[serde(default)]
    #[schemars(length(max = 100))]
    agent_platform_type: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DevicePolls {
    #[schemars(length(min = 1, max = 200))]
    device_code: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DeviceAnswer {
    #[schemars(length(min = 1, max = 50))]
    user_code: String,
    /// A new account is registered on the way.
    #[schemars(length(min = 1, max = 200))]
    account: String,
    #[schemars(length(min = 1, max = 1_000))]
    password: String,
    #[serde(default)]
    decision: Said,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DeviceDecision")]
enum Said {
    #[default]
    Approve,
    Deny,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tokens")]
pub(super) struct ShownTokens {
    access_token: String,
    refresh_token: String,
    token_type: &'static str,
    /// Seconds.
    expires_in: u64,
    user_id: String,
}

impl From<LoginTokens> for ShownTokens {
    fn from(tokens: LoginTokens) -> ShownTokens {
        ShownTokens {
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
            token_type: "Bearer",
            expires_in: tokens.expires_in_s,
            user_id: tokens.user.to_string(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeviceAuth")]
pub(super) struct ShownDevice {
    device_code: String,
    /// What the person types at `verification_url`.
    user_code: String,
    verification_url: String,
    /// Seconds.
    expires_in: u64,
    /// Seconds between two polls.
    interval: u64,
    agent_platform_type: String,
}

/// The key is shown once.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DevicePoll")]
pub(super) struct ShownPoll {
    #[schemars(extend("enum" = ["pending", "approved", "denied", "expired"]))]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeviceAnswered")]
pub(super) struct ShownAnswer {
    #[schemars(extend("enum" = ["approved", "denied"]))]
    status: &'static str,
}

pub(super) fn login<'a>(ask: &'a MarketRequest<'a>, body: Login) -> MarketFuture<'a, ShownTokens> {
    Box::pin(async move {
        printable("account", Some(&body.account))?;
        Ok(ask.market.log_in(&body.account, &body.password, network_of(ask.http.address)).await?.into())
    })
}

/// The access token of the request.
fn shown<'a>(ask: &'a MarketRequest<'a>) -> Result<&'a str, Error> {
    let shown = credentials(&ask.http.head.headers).bearer.filter(|token| !token.is_empty());
    shown.ok_or_else(|| crate::service::Error::from(crate::service::NotKnown::Missing).into())
}

pub(super) fn logout<'a>(ask: &'a MarketRequest<'a>, body: Logout) -> MarketFuture<'a, ShownLogout> {
    Box::pin(async move {
        match (&body.refresh_token, body.everywhere) {
            (_, true) => ask.market.log_out_everywhere(shown(ask)?).await?,
            (Some(token), false) => ask.market.log_out(token).await?,
            (None, false) => ask.market.log_out(shown(ask)?).await?,
        }
        Ok(ShownLogout { status: "logged_out" })
    })
}

pub(super) fn change_password<'a>(ask: &'a MarketRequest<'a>, body: PasswordChange) -> MarketFuture<'a, ShownTokens> {
    Box::pin(async move {
        let PasswordChange { current_password, new_password } = body;
        let address = network_of(ask.http.address);
        let changed = ask.market.change_password(shown(ask)?, &current_password, new_password, address).await?;
        Ok(changed.into())
    })
}

pub(super) fn refresh<'a>(ask: &'a MarketRequest<'a>, body: Refresh) -> MarketFuture<'a, ShownTokens> {
    Box::pin(async move { Ok(ask.market.refresh(&body.refresh_token).await?.into()) })
}

pub(super) fn device<'a>(ask: &'a MarketRequest<'a>, body: DeviceAsks) -> MarketFuture<'a, ShownDevice> {
    Box::pin(async move {
        let device = ask.market.device_asks(body.agent_platform_type.as_deref().unwrap_or_default()).await?;
        Ok(ShownDevice {
            verification_url: format!("{}/api/v1/auth/device", ask.base()),
            device_code: device.device_code,
            user_code: device.user_code,
            expires_in: device.expires_in_s,
            interval: device.interval_s,
            agent_platform_type: device.platform_type.to_string(),
        })
    })
}

pub(super) fn poll<'a>(ask: &'a MarketRequest<'a>, body: DevicePolls) -> MarketFuture<'a, ShownPoll> {
    Box::pin(async move {
        printable("device_code", Some(&body.device_code))?;
        let bare = |status| ShownPoll { status, api_key: None, user_id: None };
        Ok(match ask.market.device_polls(&body.device_code).await? {
            DeviceState::Pending => bare("pending"),
            DeviceState::Denied => bare("denied"),
            DeviceState::Expired => bare("expired"),
            DeviceState::Approved(issued) => ShownPoll {
                status: "approved",
                api_key: Some(issued.api_key),
                user_id: issued.user.map(|user| user.to_string()),
            },
        })
    })
}

pub(super) fn approve_data<'a>(ask: &'a MarketRequest<'a>, body: DeviceAnswer) -> MarketFuture<'a, ShownAnswer> {
    Box::pin(async move {
        printable("user_code", Some(&body.user_code))?;
        printable("account", Some(&body.account))?;
        let (said, status) = match body.decision {
            Said::Approve => (DeviceApproval::Yes, "approved"),
            Said::Deny => (DeviceApproval::No, "denied"),
        };
        let address = network_of(ask.http.address);
        ask.market.device_answered(&body.user_code, &body.account, &body.password, said, address).await?;
        Ok(ShownAnswer { status })
    })
}

/// The page where a person approves a device.
pub(super) fn page<'a>(_: &'a MarketRequest<'a>) -> MarketFuture<'a, Response> {
    Box::pin(async { Ok(page_of(StatusCode::OK, None, true)) })
}

/// The page with the result of the approval.
pub(super) async fn approve_page(ask: &MarketRequest<'_>, body: Result<DeviceAnswer, Error>) -> Response {
    let done = match body {
        Ok(body) => approve_data(ask, body).await,
        Err(refusal) => Err(refusal),
    };
    match done {
        Ok(ShownAnswer { status: "denied" }) => page_of(StatusCode::OK, Some("The device was turned away."), false),
        Ok(_) => page_of(StatusCode::OK, Some("The device has its key now. You can close this page."), false),
        Err(refusal) => page_of(refusal.status(), Some(&refusal.message), true),
    }
}

fn page_of(status: StatusCode, said: Option<&str>, form: bool) -> Response {
    let said =
        said.map(|said| format!("<p class=\"said\" role=\"status\">{}</p>", html::escaped(said))).unwrap_or_default();
    let form = if form {
        "<p>Type the code that your program shows, and log in. An account that is not there yet is made.</p>\
         <form method=\"post\" action=\"device-auth/approve\">\
         <label>Code<input name=\"user_code\" required maxlength=\"50\" autocomplete=\"off\"></label>\
         <label>Account<input name=\"account\" required maxlength=\"200\" autocomplete=\"username\"></label>\
         <label>Password<input name=\"password\" type=\"password\" required maxlength=\"1000\" \
         autocomplete=\"current-password\"></label>\
         <button name=\"decision\" value=\"approve\">Let it in</button>\
         <button name=\"decision\" value=\"deny\">Turn it away</button></form>"
    } else {
        ""
    };
    let page = html::document("Let a device in", &format!("<h1>Let a device in</h1>{said}{form}"));
    html::response(status, page, Forms::Here)
}
