//! Refusals: problem documents of RFC 9457.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, request};
use model::{Fault, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;
use web::fault_codes::FaultCode;
use web::request_log::RequestLog;
use web::response::Rejection;

use super::{BASE, RequestId};
use crate::auth;

pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal.
#[derive(Debug)]
pub struct ApiProblem {
    code: FaultCode,
    detail: String,
    field: Option<String>,
    allow: Option<String>,
    retry_after_s: Option<u32>,
    challenge: Option<Box<HeaderValue>>,
}

/// A problem document.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemDocument<'a> {
    /// The kind of problem: `urn:rialto:problem:` and a word that programs branch on.
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    /// For people.
    detail: &'a str,
    /// The id of the request, as in `X-Request-Id` and in the server's log.
    instance: &'a str,
    /// The parameter, header or member that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl ApiProblem {
    fn new(code: FaultCode, detail: impl Into<String>) -> ApiProblem {
        ApiProblem { code, detail: detail.into(), field: None, allow: None, retry_after_s: None, challenge: None }
    }

    /// A parameter, header or member is wrong; `says` is a sentence without its subject.
    pub fn field(field: impl Into<String>, says: impl AsRef<str>) -> ApiProblem {
        let field = field.into();
        let detail = format!("{field} {}", says.as_ref());
        ApiProblem { field: Some(field), ..ApiProblem::new(FaultCode::INVALID, detail) }
    }

    pub fn forbidden(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(FaultCode::FORBIDDEN, detail)
    }

    pub fn missing(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(FaultCode::NOT_FOUND, detail)
    }

    pub(super) fn unavailable(detail: &'static str) -> ApiProblem {
        ApiProblem::new(FaultCode::UNAVAILABLE, detail)
    }

    /// The request is understood and cannot be carried out as it is.
    pub fn unprocessable(detail: String) -> ApiProblem {
        ApiProblem::new(FaultCode::new(422, "unprocessable"), detail)
    }

    /// Another server gave no answer.
    pub(super) fn no_answer(detail: String) -> ApiProblem {
        ApiProblem::new(FaultCode::new(502, "no_answer"), detail)
    }

    /// The same for a path without a route.
    pub(super) fn nothing_at(path: &str) -> ApiProblem {
        let path: String = path.chars().take(128).collect();
        ApiProblem::missing(format!("there is nothing at {BASE}{path}; see {BASE}/openapi.json"))
    }

    pub(super) fn method(allow: String) -> ApiProblem {
        let detail = format!("this address answers to {allow} only");
        ApiProblem { allow: Some(allow), ..ApiProblem::new(FaultCode::METHOD, detail) }
    }

    pub(super) fn of_fault(fault: &Fault) -> ApiProblem {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request to the admin API failed: {fault}");
        }
        let code = match fault.kind {
            // An invalid escape or an unreadable body: the table answers for paths and methods.
            Kind::MethodNotFound | Kind::VerbNotAllowed => FaultCode::INVALID,
            kind => FaultCode::of(kind),
        };
        ApiProblem {
            field: fault.field.clone(),
            retry_after_s: fault.retry_after_s,
            challenge: Some(Box::new(auth::challenge(fault))),
            ..ApiProblem::new(code, fault.message.clone())
        }
    }

    pub(super) fn respond(self, head: &request::Parts, log: &mut RequestLog) -> Response {
        let status = self.code.http();
        let document = ProblemDocument {
            kind: format!("urn:rialto:problem:{}", self.code.word),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &self.detail,
            instance: head.extensions.get::<RequestId>().map_or("", |id| &id.0),
            field: self.field.as_deref(),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let plain = || HeaderValue::from_static("Bearer realm=\"a2a\"");
        let rejection = Rejection::new(status, self.detail, body)
            .allow(self.allow.as_deref())
            .retry_after(self.retry_after_s)
            .challenge(|| self.challenge.map_or_else(plain, |challenge| *challenge));
        let mut response = rejection.respond(log);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
    }
}

impl From<Fault> for ApiProblem {
    fn from(fault: Fault) -> ApiProblem {
        ApiProblem::of_fault(&fault)
    }
}
