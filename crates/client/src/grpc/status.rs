//! How a call ended: by the status in its trailers, by HTTP's where the answer is not of gRPC, or by its connection.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dialects::proto_peer::refusal;
use dialects::seen::ErrorSeen;
use dialects::wire::Operation;
use model::Kind;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use url::Url;

use super::frames::unreadable;
use crate::error::{Error, FailureStage};
use crate::http;

/// Binary metadata comes with and without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The status in the trailers, or in the head of an answer that has no messages; nothing if there is none.
pub(super) fn of(headers: &HeaderMap, operation: Operation) -> Option<Result<(), ErrorSeen>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Text that is no number has the code of unknown errors.
    let code = text("grpc-status")?.trim().parse::<i64>().unwrap_or(2);
    if code == 0 {
        return Some(Ok(()));
    }
    let message = headers.get("grpc-message").map(|value| unescaped(value.as_bytes())).unwrap_or_default();
    let details = text("grpc-status-details-bin").and_then(|text| BASE64.decode(text.trim()).ok()).unwrap_or_default();
    Some(Err(refusal(code, &message, &details, operation)))
}

/// Refuses an answer by its head: one that is only a status, or is not of gRPC.
pub(super) fn check_head(status: u16, headers: &HeaderMap, operation: Operation) -> Result<(), Error> {
    if let Some(Err(error)) = of(headers, operation) {
        return Err(Error::refused(error));
    }
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_grpc = media.trim_start().to_ascii_lowercase().starts_with("application/grpc");
    if status == 200 && is_grpc {
        return Ok(());
    }
    if status == 200 {
        return Err(unreadable(format!("the answer is not gRPC but {media:?}")));
    }
    let kind = match status {
        401 => Some(Kind::Unauthenticated),
        403 => Some(Kind::Forbidden),
        404 | 405 => Some(Kind::MethodNotFound),
        413 => Some(Kind::TooLarge),
        415 => Some(Kind::MediaType),
        429 => Some(Kind::RateLimited),
        408 | 502 | 503 | 504 => Some(Kind::Unavailable),
        _ => None,
    };
    let message = format!("HTTP {status} instead of an answer of gRPC");
    Err(Error::refused(ErrorSeen { code: i64::from(status), message, reason: None, kind }))
}

/// `%XX` as bytes.
fn unescaped(text: &[u8]) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.first_chunk::<2>().filter(|_| byte == b'%');
        let digits = pair.filter(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An error of the connection before the head of an answer. A server that has never answered in gRPC may speak another
/// protocol, which breaks the connection in many ways; the call was taken in none of them.
pub(super) fn on_the_way(error: reqwest::Error, base: &Url, place: &str, answered_before: bool) -> Error {
    let error = http::on_the_way(error, place);
    let about_tls =
        |message: &str| ["certificate", "Certificate", "UnknownIssuer"].iter().any(|word| message.contains(word));
    let is_tcp = |message: &str| {
        ["refused", "timed out", "lookup", "unreachable", "route"].iter().any(|word| message.contains(word))
    };
    let says_enough = about_tls(&error.message) || is_tcp(&error.message);
    if answered_before || says_enough || error.stage == FailureStage::Unaskable {
        return error;
    }
    let other = match base.scheme() {
        "https" => "HTTP/2 over TLS; without TLS its address is grpc://",
        _ => "HTTP/2 without TLS; with TLS its address is grpcs://",
    };
    let message = format!("{}. Perhaps the server does not speak {other}", error.message);
    Error::new(FailureStage::Unreachable, error.kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_words_come_back_and_half_an_escape_stays() {
        for (text, plain) in [
            ("not%20here", "not here"),
            ("%C3%A9", "é"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%+1", "%+1"),
            ("", ""),
        ] {
            assert_eq!(unescaped(text.as_bytes()), plain);
        }
    }
}
