//! HTTP statuses and code words of faults, for errors of REST endpoints. A product that differs for some kinds says so beside
//! its own codes; the dialects of A2A have tables of their own.

use http::StatusCode;
use model::Kind;

/// An HTTP status, and a word that programs branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCode {
    pub status: u16,
    pub word: &'static str,
}

impl FaultCode {
    pub const INVALID: FaultCode = FaultCode::new(400, "invalid_request");
    pub const UNAUTHORIZED: FaultCode = FaultCode::new(401, "unauthorized");
    pub const PAYMENT_REQUIRED: FaultCode = FaultCode::new(402, "payment_required");
    pub const FORBIDDEN: FaultCode = FaultCode::new(403, "forbidden");
    pub const NOT_FOUND: FaultCode = FaultCode::new(404, "not_found");
    pub const METHOD: FaultCode = FaultCode::new(405, "method_not_allowed");
    pub const CONFLICT: FaultCode = FaultCode::new(409, "conflict");
    pub const KEY_REUSED: FaultCode = FaultCode::new(409, "idempotency_conflict");
    pub const TOO_LARGE: FaultCode = FaultCode::new(413, "too_large");
    pub const MEDIA_TYPE: FaultCode = FaultCode::new(415, "unsupported_media_type");
    pub const RATE_LIMITED: FaultCode = FaultCode::new(429, "rate_limited");
    pub const INTERNAL: FaultCode = FaultCode::new(500, "internal_error");
    pub const UNAVAILABLE: FaultCode = FaultCode::new(503, "unavailable");

    pub const fn new(status: u16, word: &'static str) -> FaultCode {
        FaultCode { status, word }
    }

    pub fn http(self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub const fn of(kind: Kind) -> FaultCode {
        match kind {
            Kind::Parse
            | Kind::InvalidRequest
            | Kind::InvalidParams
            | Kind::PushNotSupported
            | Kind::Unsupported
            | Kind::ExtendedCardNotConfigured
            | Kind::ExtensionRequired
            | Kind::VersionNotSupported => FaultCode::INVALID,
            Kind::Unauthenticated => FaultCode::UNAUTHORIZED,
            Kind::InsufficientBalance | Kind::BudgetExceeded => FaultCode::PAYMENT_REQUIRED,
            Kind::Forbidden => FaultCode::FORBIDDEN,
            Kind::MethodNotFound | Kind::TaskNotFound => FaultCode::NOT_FOUND,
            Kind::VerbNotAllowed => FaultCode::METHOD,
            Kind::TaskNotCancelable | Kind::TaskSettled => FaultCode::CONFLICT,
            Kind::KeyReused => FaultCode::KEY_REUSED,
            Kind::TooLarge => FaultCode::TOO_LARGE,
            Kind::MediaType | Kind::ContentType => FaultCode::MEDIA_TYPE,
            Kind::RateLimited => FaultCode::RATE_LIMITED,
            Kind::InvalidAgentResponse | Kind::Internal => FaultCode::INTERNAL,
            Kind::Unavailable => FaultCode::UNAVAILABLE,
        }
    }
}
