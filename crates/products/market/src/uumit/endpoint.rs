//! UUMit's JSON-RPC endpoint: purchases as tasks, at `/uumit/a2a` and, for requests that are recognised as the
//! market's, at `/a2a`.
//!
//! This module authenticates the caller, calls the market and builds the HTTP response; [`crate::uumit`] has the wire
//! format. Closing a subscription does not affect the purchase.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::service::{Credentials, Error as ServiceError, Filter, MarketEntity, NotKnown, Once, OrderRequest, Paging};
use crate::uumit::errors::{Error, Line};
use crate::uumit::{self, UumitCancel, UumitRequest, UumitSend, card, decode, encode};
use bytes::Bytes;
use dialects::framing::jsonrpc::{self, Id, OwnedId, Unreadable};
use dialects::framing::scan;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use market_rules::TransactionId;
use market_rules::transaction::TransactionAction;
use model::{Fault, Kind};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use gateway::fronts::{A2A_DIALECT, RequestLog};

use crate::PLATFORM_USER;
use crate::{MarketService, MarketSettings};
use gateway::GatewayVersion;
use web::body::{Response, ResponseBody};
use web::concurrency::ConcurrencyPermit;
use web::credentials;
use web::headers::idempotency_key;
use web::response;
use web::sse::{EventSource, EventStream, Flow, as_events};

/// Maximum number of skills on the platform's card.
const SKILLS: u32 = 100;

pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    let body = body.and_then(|body| match scan::scan(&body, server.engine.limits().json_depth) {
        Ok(_) => Ok(body),
        Err(fault) => Err(fault),
    });
    let refuse = |fault: &Fault, id: &Id<'_>, log: &mut RequestLog| {
        log.dialect = uumit::NAME;
        log.fault(fault);
        // No purchase is involved yet, so the configured code does not apply.
        let mut response = respond(&Error::of_fault(fault, Line::InvalidParams.code()), id);
        // An incomplete body is an HTTP error.
        if fault.kind == Kind::InvalidRequest && fault.cause.is_some() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    };
    let body = match body {
        Ok(body) => body,
        Err(fault) => {
            let id = log.rpc_id.take().unwrap_or(OwnedId::NULL);
            return refuse(&fault, &id, log);
        }
    };
    // The scan has checked that the body is UTF-8.
    match jsonrpc::read(std::str::from_utf8(&body).unwrap_or_default()) {
        Ok(request) => answer_to(server, head, &request, log).await,
        Err(Unreadable { id, fault, .. }) => refuse(&fault, &id, log),
    }
}

/// Answers a parsed request.
pub(crate) async fn answer_to(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    request: &jsonrpc::RpcRequest<'_>,
    log: &mut RequestLog,
) -> Response {
    log.dialect = uumit::NAME;
    log.agent = Some(crate::service::AGENT.into());
    let Some(uumit) = MarketService::settings(server) else {
        let fault = Fault::new(Kind::MethodNotFound, "there is no market here");
        return respond(&Error::of_fault(&fault, Line::InvalidParams.code()), &request.id);
    };
    let mut response = match call(server, uumit, head, request, log).await {
        Ok(response) => response,
        Err(error) => {
            log.fault.get_or_insert_with(|| error.told().to_owned());
            respond(&error, &request.id)
        }
    };
    // A notification gets no body, but the HTTP status of an error.
    if request.is_notification {
        *response.body_mut() = ResponseBody::empty();
        response.headers_mut().remove(CONTENT_TYPE);
        if response.status() == StatusCode::OK {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
    }
    response
}

async fn call(
    server: &Arc<GatewayVersion>,
    uumit: &MarketSettings,
    head: &request::Parts,
    request: &jsonrpc::RpcRequest<'_>,
    log: &mut RequestLog,
) -> Result<Response, Error> {
    let fail = |fault: &Fault, log: &mut RequestLog| {
        log.fault(fault);
        Error::of_fault(fault, uumit.invalid_state_code)
    };
    decode::is_method(&request.method).map_err(|fault| fail(&fault, log))?;
    let caller = who(server, uumit, &head.headers, log).await?;
    // The market's request rate does not apply here; it counts REST requests only.
    let limits = server.engine.limits();
    let wanted = decode::decode(&request.method, request.params, limits).map_err(|fault| fail(&fault, log))?;
    log.operation = wanted.name();
    let (market, id) = (&uumit.market, &request.id);
    let refuse = |refused: ServiceError, log: &mut RequestLog| error_of(uumit, &refused, log);
    match wanted {
        UumitRequest::Send(send) => {
            let once = once(&head.headers, limits.id_bytes, &send.idempotency_key, print_of(&send));
            let once = once.map_err(|fault| fail(&fault, log))?;
            let row = market.order(&caller, wish(*send), once).await.map_err(|refused| refuse(refused, log))?;
            Ok(json(encode::sent(id, &row)))
        }
        UumitRequest::Get { id: None } => Err(Error::no_task()),
        UumitRequest::Get { id: Some(transaction) } => {
            let row = market.transaction(&caller.actor(), transaction).await.map_err(|refused| refuse(refused, log))?;
            Ok(json(encode::got(id, &row)))
        }
        UumitRequest::Cancel(UumitCancel { id: None, .. }) => Err(Error::no_task()),
        UumitRequest::Cancel(UumitCancel { id: Some(transaction), idempotency_key }) => {
            let print = print(&[b"cancel", transaction.to_string().as_bytes()]);
            let once =
                once(&head.headers, limits.id_bytes, &idempotency_key, print).map_err(|fault| fail(&fault, log))?;
            let once = once.map(|once| (&caller, once));
            let row = market.act(&caller.actor(), transaction, TransactionAction::Cancel, once).await;
            Ok(json(encode::canceled(id, &row.map_err(|refused| refuse(refused, log))?)))
        }
        // A notification has no response to stream.
        UumitRequest::Subscribe { .. } if request.is_notification => Ok(json(Vec::new())),
        UumitRequest::Subscribe { id: transaction } => {
            let guest = guest(&caller);
            let throttle = server.throttle.as_ref();
            let seat = throttle.map(|throttle| throttle.stream(&guest, log.address)).transpose();
            let seat = seat.map_err(|fault| fail(&fault, log))?.flatten();
            match subscribe(uumit, &caller, transaction).await {
                Ok(follow) => Ok(follow_up(server, uumit, follow, id.to_owned(), seat)),
                Err(refused) => {
                    let error = refuse(refused, log);
                    match error.in_stream() {
                        Some(said) => Ok(refused_in_stream(&said, id)),
                        None => Err(error),
                    }
                }
            }
        }
    }
}

/// Authenticates the caller by a key with its user, or by a token, and applies the limits of calls.
async fn who(
    server: &GatewayVersion,
    uumit: &MarketSettings,
    headers: &HeaderMap,
    log: &mut RequestLog,
) -> Result<crate::service::MarketCaller, Error> {
    let throttle = server.throttle.as_ref();
    let fail = |fault: Fault, log: &mut RequestLog| {
        log.fault(&fault);
        Error::of_fault(&fault, uumit.invalid_state_code)
    };
    let caller = match uumit.market.who(credentials(headers)).await {
        Ok(caller) => caller,
        Err(refused) => {
            let guessed = matches!(refused, ServiceError::Who(NotKnown::Key | NotKnown::NotLinked | NotKnown::Token));
            if let (Some(throttle), true) = (throttle, guessed) {
                throttle.failed(log.address).map_err(|fault| fail(fault, log))?;
            }
            return Err(error_of(uumit, &refused, log));
        }
    };
    log.caller = Some(caller.user.0.clone());
    if let Some(throttle) = throttle {
        throttle.admit(&guest(&caller), log.address).map_err(|fault| fail(fault, log))?;
    }
    Ok(caller)
}

/// Credentials in the headers. A value that is not text counts as an unknown credential.
pub(crate) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let api_key = credentials::api_key(headers).map(|key| key.unwrap_or_default());
    let user = web::headers::text(headers, &PLATFORM_USER).map(|user| user.unwrap_or_default());
    let bearer = credentials::bearer(headers).filter(|token| !token.is_empty());
    Credentials { api_key, user, bearer }
}

/// A caller of the market, as limits count callers.
pub(crate) fn guest(caller: &crate::service::MarketCaller) -> model::Caller {
    model::Caller {
        tenant: caller.tenant.clone(),
        name: caller.user.0.clone(),
        authenticated: true,
        scopes: Arc::default(),
    }
}

fn wish(send: UumitSend) -> OrderRequest {
    OrderRequest {
        capability: send.capability,
        booked_hours: send.booked_hours,
        context: send.context,
        demand: send.demand.map(Into::into),
        input: send.input,
        confirm_token: send.confirm_token,
    }
}

/// The idempotency key, from the params or the header.
fn once(headers: &HeaderMap, most: usize, said: &Option<String>, print: [u8; 32]) -> Result<Option<Once>, Fault> {
    let header = idempotency_key(headers).map(|key| key.unwrap_or_default().to_owned());
    let Some(key) = said.clone().or(header) else { return Ok(None) };
    if key.is_empty() || key.len() > most {
        let message = format!("an idempotency key is 1 to {most} printable characters");
        return Err(Fault::params("idempotency_key", message));
    }
    Ok(Some(Once { key, print }))
}

/// The fingerprint of an order: all members except the idempotency key.
fn print_of(send: &UumitSend) -> [u8; 32] {
    let UumitSend { capability, booked_hours, context, demand, idempotency_key: _, input, confirm_token } = send;
    let hours = booked_hours.map(|hours| hours.to_string());
    let said = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), |text| format!("+{text}"));
    let members = [
        said(hours.as_deref()),
        said(context.as_ref().map(|context| context.as_str())),
        said(demand.as_deref()),
        said(input.as_ref().map(|input| input.text())),
        said(confirm_token.as_deref()),
    ];
    let mut parts: Vec<&[u8]> = vec![b"send", capability.as_str().as_bytes()];
    parts.extend(members.iter().map(|member| member.as_bytes()));
    print(&parts)
}

/// Each part is prefixed with its length, so that two different requests never have the same bytes.
fn print(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn error_of(uumit: &MarketSettings, refused: &ServiceError, log: &mut RequestLog) -> Error {
    let said = |line| Error::new(line, refused.to_string());
    match refused {
        ServiceError::Rule(rule) => Error::of_refusal(rule, uumit.invalid_state_code, uumit.market.now()),
        ServiceError::Unknown(MarketEntity::Transaction) => Error::no_task(),
        ServiceError::Unknown(
            MarketEntity::Capability
            | MarketEntity::Demand
            | MarketEntity::External
            | MarketEntity::User
            | MarketEntity::Device
            | MarketEntity::File,
        )
        | ServiceError::Capability(_)
        | ServiceError::Demand(_)
        | ServiceError::Fields(_)
        | ServiceError::Taken(_) => said(Line::InvalidParams),
        ServiceError::Who(_) => said(Line::Authentication),
        ServiceError::KeyReused => said(Line::InvalidParams).typed("idempotency_conflict"),
        ServiceError::TooFast { retry_after_s } => {
            Error::too_often(refused.to_string(), u32::try_from(*retry_after_s).unwrap_or(u32::MAX))
        }
        ServiceError::NotServed(_) => said(Line::Internal),
        ServiceError::Fault(fault) => {
            log.fault(fault);
            Error::of_fault(fault, uumit.invalid_state_code)
        }
    }
}

async fn subscribe(
    uumit: &MarketSettings,
    caller: &crate::service::MarketCaller,
    transaction: Option<TransactionId>,
) -> Result<crate::service::PurchaseFeed, ServiceError> {
    let id = transaction.ok_or(ServiceError::Unknown(MarketEntity::Transaction))?;
    uumit.market.follow(&caller.actor(), id).await
}

/// The event stream of a subscription, until the purchase or the window ends.
struct Feed {
    follow: crate::service::PurchaseFeed,
    id: OwnedId,
    invalid_state: i32,
    /// The end of the window.
    until: Instant,
    begun: bool,
    /// The newest frame. A step that UUMit's states do not show would repeat it.
    shown: Vec<u8>,
}

impl EventSource for Feed {
    /// `Elapsed` is the end of the window, `None` the end of the subscription.
    type Item = Result<Option<Result<market_rules::Transaction, ServiceError>>, Elapsed>;

    async fn next(&mut self) -> Option<Self::Item> {
        // The first state is sent, however short the window is.
        let next = match self.begun {
            false => Ok(self.follow.next().await),
            true => tokio::time::timeout_at(self.until, self.follow.next()).await,
        };
        self.begun = true;
        Some(next)
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        let Some(next) = item else { return Ok(Flow::Ends) };
        let mut frame = Vec::new();
        let flow = self.write_frame(next, &mut frame);
        if flow == Flow::Ends || frame != self.shown {
            piece.extend_from_slice(&frame);
            self.shown = frame;
        }
        Ok(flow)
    }
}

impl Feed {
    fn write_frame(
        &self,
        next: Result<Option<Result<market_rules::Transaction, ServiceError>>, Elapsed>,
        frame: &mut Vec<u8>,
    ) -> Flow {
        match next {
            Ok(Some(Ok(row))) => {
                encode::task_frame(frame, &self.id, &row);
                if row.status.is_terminal() { Flow::Ends } else { Flow::Continues }
            }
            Ok(Some(Err(refused))) => {
                tracing::warn!("a subscription failed: {refused}");
                let error = match &refused {
                    ServiceError::Fault(fault) => Error::of_fault(fault, self.invalid_state),
                    refused => Error::new(Line::Internal, refused.to_string()),
                };
                encode::error_frame(frame, &self.id, &error);
                Flow::Ends
            }
            // The window has ended, or the server stops; the purchase goes on.
            Ok(None) | Err(_) => {
                frame.extend_from_slice(encode::HEARTBEAT);
                Flow::Ends
            }
        }
    }
}

fn follow_up(
    server: &GatewayVersion,
    uumit: &MarketSettings,
    follow: crate::service::PurchaseFeed,
    id: OwnedId,
    seat: Option<ConcurrencyPermit>,
) -> Response {
    let feed = Feed {
        follow,
        id,
        invalid_state: uumit.invalid_state_code,
        until: Instant::now() + Duration::from_millis(uumit.window_ms),
        begun: false,
        shown: Vec::new(),
    };
    sign(EventStream::new(feed, server.metrics.streams.clone()).permits([seat, None]).respond())
}

/// An error that UUMit reports inside the stream.
fn refused_in_stream(error: &Error, id: &Id<'_>) -> Response {
    let mut piece = Vec::new();
    encode::error_frame(&mut piece, id, error);
    sign(as_events(Response::new(Bytes::from(piece).into())))
}

fn respond(error: &Error, id: &Id<'_>) -> Response {
    let mut response = json(error.encode(id));
    *response.status_mut() = StatusCode::from_u16(error.http).unwrap_or(StatusCode::OK);
    if let Some(seconds) = error.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn json(body: Vec<u8>) -> Response {
    sign(response::json(Bytes::from(body)))
}

fn sign(mut response: Response) -> Response {
    response.headers_mut().insert(A2A_DIALECT.clone(), HeaderValue::from_static(uumit::NAME));
    response
}

/// The platform's card, with the newest capabilities on the market.
pub(crate) async fn card(server: &Arc<GatewayVersion>, head: &request::Parts, log: &mut RequestLog) -> Response {
    log.operation = "card";
    log.dialect = uumit::NAME;
    let Some(uumit) = MarketService::settings(server) else {
        return gateway::fronts::rest::nothing_at(head.uri.path(), head, log);
    };
    match uumit.market.on_sale(&Filter::default(), Paging { page: 1, size: SKILLS }).await {
        Ok(page) => {
            let mut response = json(card::platform(&endpoint(server, head), &page.items));
            gateway::cards::cacheable(response.headers_mut());
            response
        }
        Err(refused) => {
            let error = error_of(uumit, &refused, log);
            log.fault.get_or_insert_with(|| error.told().to_owned());
            let mut response = respond(&error, &OwnedId::NULL);
            if error.http == 200 {
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            response
        }
    }
}

/// The JSON-RPC address in cards: the one that the market does not share.
pub(super) fn endpoint(server: &GatewayVersion, head: &request::Parts) -> String {
    format!("{}/uumit/a2a", server.cards.base_url(&server.settings, head))
}
