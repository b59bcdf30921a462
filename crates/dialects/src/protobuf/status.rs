//! The codes of gRPC, and `google.rpc.Status` with the details of a fault.

use model::{Fault, Kind};

use super::reader::Fields;
use super::writer::ProtoWriter;
use crate::framing::shortened;

/// The domain of reasons in `ErrorInfo`.
pub const DOMAIN: &str = "a2a-protocol.org";

/// Bytes of a message.
const MOST_MESSAGE: usize = 800;

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// A status code of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RpcCode {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl RpcCode {
    pub const ALL: [RpcCode; 17] = [
        RpcCode::Ok,
        RpcCode::Cancelled,
        RpcCode::Unknown,
        RpcCode::InvalidArgument,
        RpcCode::DeadlineExceeded,
        RpcCode::NotFound,
        RpcCode::AlreadyExists,
        RpcCode::PermissionDenied,
        RpcCode::ResourceExhausted,
        RpcCode::FailedPrecondition,
        RpcCode::Aborted,
        RpcCode::OutOfRange,
        RpcCode::Unimplemented,
        RpcCode::Internal,
        RpcCode::Unavailable,
        RpcCode::DataLoss,
        RpcCode::Unauthenticated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RpcCode::Ok => "OK",
            RpcCode::Cancelled => "CANCELLED",
            RpcCode::Unknown => "UNKNOWN",
            RpcCode::InvalidArgument => "INVALID_ARGUMENT",
            RpcCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            RpcCode::NotFound => "NOT_FOUND",
            RpcCode::AlreadyExists => "ALREADY_EXISTS",
            RpcCode::PermissionDenied => "PERMISSION_DENIED",
            RpcCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
            RpcCode::FailedPrecondition => "FAILED_PRECONDITION",
            RpcCode::Aborted => "ABORTED",
            RpcCode::OutOfRange => "OUT_OF_RANGE",
            RpcCode::Unimplemented => "UNIMPLEMENTED",
            RpcCode::Internal => "INTERNAL",
            RpcCode::Unavailable => "UNAVAILABLE",
            RpcCode::DataLoss => "DATA_LOSS",
            RpcCode::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The code of a number; `Unknown` for a number that is no code.
    pub fn of(number: i64) -> RpcCode {
        RpcCode::ALL.into_iter().find(|code| *code as i64 == number).unwrap_or(RpcCode::Unknown)
    }
}

/// The end of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcStatus {
    pub code: RpcCode,
    pub message: String,
    /// An encoded `google.rpc.Status`, for the metadata `grpc-status-details-bin`.
    pub details: Vec<u8>,
}

impl RpcStatus {
    /// The status of a fault. `reason` is the word of its kind, for `ErrorInfo`; `message` is that of the fault, or begins
    /// with the name of the error. It stands in the trailers three times, and clients refuse trailers above 8 KiB.
    pub fn new(code: RpcCode, reason: Option<&str>, message: &str, fault: &Fault) -> RpcStatus {
        let message = shortened(message, MOST_MESSAGE);
        let details = details(code, reason, &message, fault);
        RpcStatus { code, message, details }
    }
}

/// A `google.rpc.Status`.
fn details(code: RpcCode, reason: Option<&str>, message: &str, fault: &Fault) -> Vec<u8> {
    let mut w = ProtoWriter::with_capacity(message.len() + 256);
    w.int(1, code as i64);
    w.string(2, message);
    if let Some(reason) = reason {
        any(&mut w, ERROR_INFO, |w| {
            w.string(1, reason);
            w.string(2, DOMAIN);
            for (name, value) in &fault.facts {
                w.message(3, |w| {
                    w.string(1, name);
                    w.string(2, &shortened(value, MOST_MESSAGE));
                });
            }
        });
    }
    if fault.kind == Kind::InvalidParams {
        any(&mut w, BAD_REQUEST, |w| {
            w.message(1, |w| {
                w.optional(1, fault.field.as_deref());
                w.string(2, message);
            });
        });
    }
    if let Some(seconds) = fault.retry_after_s {
        any(&mut w, RETRY_INFO, |w| w.message(1, |w| w.int(1, i64::from(seconds))));
    }
    w.finish()
}

/// A detail: a `google.protobuf.Any`.
fn any(w: &mut ProtoWriter<'_>, kind: &'static str, write: impl FnOnce(&mut ProtoWriter<'_>)) {
    w.message(3, |w| {
        w.string(1, kind);
        w.message(2, write);
    });
}

/// The reason in the `ErrorInfo` of an encoded `google.rpc.Status`, if it has one.
pub fn reason_of(details: &[u8]) -> Option<String> {
    let mut fields = Fields::new(details);
    while let Some((number, value)) = fields.next_field().ok()? {
        if number != 3 {
            continue;
        }
        let (mut kind, mut detail) = (None, None);
        let mut any = value.message().ok()?;
        while let Some((number, value)) = any.next_field().ok()? {
            match number {
                1 => kind = value.string("type_url").ok(),
                2 => detail = value.message().ok(),
                _ => {}
            }
        }
        let (Some(kind), Some(mut detail)) = (kind, detail) else { continue };
        if !kind.ends_with("/google.rpc.ErrorInfo") {
            continue;
        }
        while let Some((number, value)) = detail.next_field().ok()? {
            if number == 1 {
                return value.string("reason").ok();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for code in RpcCode::ALL {
            assert_eq!(RpcCode::of(code as i64), code);
        }
        assert_eq!(RpcCode::of(17), RpcCode::Unknown);
    }

    #[test]
    fn the_reason_is_found_among_other_details() {
        let fault = Fault::params("message.parts[0]", "no content").fact("taskId", "t").retry_after(3);
        let status = RpcStatus::new(RpcCode::InvalidArgument, Some("INVALID_PARAMS"), &fault.message, &fault);
        assert_eq!(reason_of(&status.details).as_deref(), Some("INVALID_PARAMS"));
        let status = RpcStatus::new(RpcCode::InvalidArgument, None, &fault.message, &fault);
        assert_eq!(reason_of(&status.details), None);
        assert_eq!(reason_of(b"\xff"), None);
    }
}
