//! An admitted request: its path, query, body and idempotency key.

use std::sync::Arc;

use crate::service::{Error as ServiceError, Once, Shop, ShopEntity, WorkspaceCaller};
use dialects::framing::query;
use http::request;
use serde::de::DeserializeOwned;
use shop_rules::{Site, Slug};
use url::Url;

use super::error::{Error, KEY_REQUIRED};
use super::routes::{ShopKeyPolicy, ShopRoute};
use gateway::GatewayVersion;
use web::context::{NotAnObject, RequestContext, object_text, read_object};
use web::fault_codes::FaultCode;
use web::headers::{idempotency_key, request_fingerprint};

/// Longest idempotency key.
const MAX_KEY: usize = 255;
/// Longest parameter of a query.
const MAX_PARAM: usize = 500;

pub(super) struct ShopRequest<'a> {
    server: &'a Arc<GatewayVersion>,
    pub(super) shop: &'a Shop,
    pub(super) http: RequestContext<'a>,
    pub(super) caller: Option<WorkspaceCaller>,
    /// The body: the text of an object.
    text: &'a str,
    pub(super) once: Option<Once>,
}

impl<'a> ShopRequest<'a> {
    /// Reads query, body and idempotency key. The query of `http` is empty before.
    pub(super) fn new(
        server: &'a Arc<GatewayVersion>,
        shop: &'a Shop,
        mut http: RequestContext<'a>,
        route: &ShopRoute,
        caller: Option<WorkspaceCaller>,
    ) -> Result<ShopRequest<'a>, Error> {
        let head = http.head;
        for pair in query::pairs(head.uri.query().unwrap_or_default()) {
            let (name, value) = pair?;
            if http.query_param(&name).is_some() {
                return Err(Error::field(name, "is in the query more than once"));
            }
            http.query.push((name, value));
        }
        let text = read(server, head, http.body)?;
        let once = once(head, route.key_policy, text)?;
        Ok(ShopRequest { server, shop, http, caller, text, once })
    }

    /// A parameter of the query, if it is not empty.
    pub(super) fn param(&self, name: &str) -> Result<Option<&str>, Error> {
        match self.http.query_param(name).filter(|value| !value.is_empty()) {
            Some(value) if value.len() > MAX_PARAM || value.chars().any(char::is_control) => {
                Err(Error::field(name, format!("must have at most {MAX_PARAM} printable characters")))
            }
            found => Ok(found),
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, Error> {
        let Some(value) = self.param(name)? else { return Ok(None) };
        // The parser accepts `+5`, but in a query `+` usually means a space.
        let number =
            value.parse::<i64>().ok().filter(|number| (least..=most).contains(number) && !value.starts_with('+'));
        number.map(Some).ok_or_else(|| Error::field(name, format!("must be a whole number from {least} to {most}")))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.param(name)? {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(Error::field(name, "must be true or false")),
        }
    }

    /// The page size.
    pub(super) fn limit(&self) -> Result<u32, Error> {
        Ok(self.number("limit", 1, 100)?.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(20))
    }

    pub(super) fn body<B: DeserializeOwned>(&self) -> Result<B, Error> {
        read_object(self.text).map_err(|error| Error::field(error.member, error.message))
    }

    /// The site with this slug, or the site of the request's host; checked against the caller's workspace.
    pub(super) async fn site(&self, said: Option<&str>) -> Result<Site, Error> {
        let site = match said {
            Some(said) => {
                // A text that is not a slug names no site.
                let slug = Slug::check(said).map_err(|_| ServiceError::Unknown(ShopEntity::Site))?;
                self.shop.site(&slug).await?
            }
            None => {
                let host = Url::parse(&self.base()).ok().and_then(|url| url.host_str().map(str::to_owned));
                let site = self.shop.site_of_host(&host.unwrap_or_default()).await?;
                site.ok_or_else(|| Error::field("site_slug", "is missing: say which store you mean"))?
            }
        };
        self.may_see(&site.workspace)?;
        Ok(site)
    }

    /// Checks that the caller's credential, if there is one, is of this workspace.
    pub(super) fn may_see(&self, workspace: &shop_rules::WorkspaceId) -> Result<(), Error> {
        match &self.caller {
            Some(caller) if caller.workspace != *workspace => Err(ServiceError::Workspace.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// The base URL of the request.
    pub(super) fn base(&self) -> String {
        self.server.cards.base_url(&self.server.settings, self.http.head)
    }

    /// An address of this server as an absolute URL.
    pub(super) fn absolute(&self, url: &str) -> String {
        if url.starts_with('/') { format!("{}{url}", self.base()) } else { url.to_owned() }
    }
}

/// The body as the text of a JSON object; an empty body is an empty object.
fn read<'a>(server: &GatewayVersion, head: &request::Parts, body: &'a [u8]) -> Result<&'a str, Error> {
    if body.is_empty() {
        return Ok("{}");
    }
    object_text(head, body, server.engine.limits().json_depth).map_err(|error| match error {
        NotAnObject::MediaType(fault) => Error::new(FaultCode::MEDIA_TYPE, fault.message),
        NotAnObject::Unreadable(fault) => fault.into(),
        NotAnObject::OtherValue => Error::field("body", "must be a JSON object"),
    })
}

/// The idempotency key of a request, with a fingerprint of the request.
fn once(head: &request::Parts, key_policy: ShopKeyPolicy, text: &str) -> Result<Option<Once>, Error> {
    let said = match key_policy {
        ShopKeyPolicy::Never => return Ok(None),
        ShopKeyPolicy::May | ShopKeyPolicy::Must => idempotency_key(&head.headers),
    };
    let Some(said) = said else {
        return match key_policy {
            ShopKeyPolicy::Must => Err(Error::new(
                KEY_REQUIRED,
                "send an Idempotency-Key with this request: a new one for each purchase, the same one for a repeat",
            )),
            ShopKeyPolicy::Never | ShopKeyPolicy::May => Ok(None),
        };
    };
    let key = said.unwrap_or_default();
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Error::field("Idempotency-Key", format!("must have 1 to {MAX_KEY} printable ASCII characters")));
    }
    let print =
        request_fingerprint([head.method.as_str(), head.uri.path(), head.uri.query().unwrap_or_default(), text]);
    Ok(Some(Once { key: key.to_owned(), print }))
}
