//! Large files by their signed address.

use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode, request};
use model::Fault;
use web::body::{Response, counted};
use web::file_response::{FileFacts, head_only, is_known, unchanged, whole};
use web::request_log::RequestLog;
use web::response::text;

use crate::GatewayVersion;
use crate::links::{self, LinkError};

/// Answers with a large file by its address; `below` is the rest of the path after `/files/`.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    below: &str,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Response {
    log.operation = "file";
    let again = "read the task again for a new one";
    let fail = |log: &mut RequestLog, fault: &Fault| {
        log.fault(fault);
        let status = super::status_of(fault.kind).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = text(status, format!("{fault}\n"));
        if let Some(seconds) = fault.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    };
    let claim = match server.links.read(below, head.uri.query().unwrap_or_default()).await {
        Ok(claim) => claim,
        Err(LinkError::Expired) => {
            return text(StatusCode::GONE, format!("this address has expired; {again}\n"));
        }
        Err(LinkError::Signature) => {
            let words = format!("this address was not made here, or not like this; {again}\n");
            return text(StatusCode::FORBIDDEN, words);
        }
        Err(LinkError::Key(fault)) => return fail(log, &fault),
    };
    let hash = links::hex(&claim.hash);
    let mut facts =
        FileFacts { name: claim.name.as_deref(), media_type: claim.media_type.as_deref(), hash: &hash, len: 0 };
    if is_known(&head.headers, &hash) {
        return unchanged(&facts);
    }
    match server.engine.stored(&claim.tenant.into(), claim.hash).await {
        Ok(Some(bytes)) => {
            facts.len = bytes.len() as u64;
            if head.method == Method::HEAD {
                return head_only(&facts);
            }
            match counted(&server.answers, bytes) {
                Ok(bytes) => whole(head, &facts, bytes),
                Err(fault) => fail(log, &fault),
            }
        }
        Ok(None) => text(StatusCode::NOT_FOUND, "this file is no longer kept: its task was removed\n"),
        Err(fault) => fail(log, &fault),
    }
}
