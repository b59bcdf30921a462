//! The operations of the client, one method each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dialects::card_read::{self, CardSeen};
use dialects::peer::{Peer, PeerForm, PeerRequest, RequestOptions};
use dialects::proto_peer::ProtoPeer;
use dialects::seen::{PageSeen, Seen, TaskSeen};
use model::{Call, Cancel, Fault, Get, Json, Kind, List, PushCall, PushConfig, Send, Subscribe};
use reqwest::Response;
use url::Url;
use uuid::Uuid;

use crate::discover::RemoteInterface;
use crate::error::{Error, FailureStage};
use crate::events::Events;
use crate::grpc::{GrpcClient, RpcCall, RpcEvents, RpcLimits};
use crate::http::{self, OutgoingRequest};
use crate::options::Options;
use crate::{Client, Inner};

const JSON: &str = "application/json, application/a2a+json";
const EVENTS: &str = "text/event-stream, application/json;q=0.5";

/// Header values besides those that the protocol generation sets itself.
#[derive(Default)]
struct Beside {
    headers: Vec<(&'static str, String)>,
    extensions: Vec<String>,
}

impl Beside {
    fn of(send: &Send) -> Beside {
        let mut headers = Vec::new();
        if let Some(idempotency) = &send.idempotency {
            headers.push(("Idempotency-Key", idempotency.key.clone()));
        }
        if let Some(trace) = &send.trace {
            headers.push(("traceparent", trace.clone()));
        }
        Beside { headers, extensions: send.extensions.clone() }
    }
}

impl Client {
    /// Sends a message and waits as the send says; the answer is a task or a message.
    pub async fn send(&self, send: &Send) -> Result<Seen, Error> {
        let call = Call::Send(Box::new(with_id(send)));
        self.ask(&call, Beside::of(send)).await?.sent()
    }

    /// Sends a message and streams. A server that does not stream gives a single answer.
    pub async fn stream(&self, send: &Send) -> Result<Events, Error> {
        self.listen(&Call::Stream(Box::new(with_id(send))), Beside::of(send)).await
    }

    /// The current task, with at most `history` of its newest messages; `None` for all.
    pub async fn get(&self, task: &str, history: Option<u32>) -> Result<TaskSeen, Error> {
        let call = Call::Get(Get { task: task.to_owned(), history });
        self.ask(&call, Beside::default()).await?.task()
    }

    pub async fn cancel(&self, task: &str, metadata: Option<Json>) -> Result<TaskSeen, Error> {
        let call = Call::Cancel(Cancel { task: task.to_owned(), metadata });
        self.ask(&call, Beside::default()).await?.task()
    }

    /// Subscribes to an existing task. With the id of the last received event, a server that supports it resumes after
    /// it.
    pub async fn subscribe(&self, task: &str, last_event_id: Option<&str>) -> Result<Events, Error> {
        let mut beside = Beside::default();
        if let Some(id) = last_event_id {
            beside.headers.push(("Last-Event-ID", id.to_owned()));
        }
        self.listen(&Call::Subscribe(Subscribe { task: task.to_owned() }), beside).await
    }

    /// Like [`Client::subscribe`], but falls back to a get if the task accepts no more subscribers or the server does
    /// not stream: then the current task is the only event.
    pub async fn follow(&self, task: &str, last_event_id: Option<&str>) -> Result<Events, Error> {
        let refused = match self.subscribe(task, last_event_id).await {
            Ok(mut events) => match events.next().await {
                Some(Ok(first)) => return Ok(events.after(first)),
                // An empty stream, from servers that send only future events.
                None => return self.get(task, Some(0)).await.map(|task| Events::once(Seen::Task(task))),
                Some(Err(error)) => error,
            },
            Err(error) => error,
        };
        let looks_instead = match refused.kind {
            Kind::TaskSettled | Kind::Unsupported | Kind::InvalidParams | Kind::MethodNotFound => true,
            Kind::Parse
            | Kind::InvalidRequest
            | Kind::VerbNotAllowed
            | Kind::TooLarge
            | Kind::MediaType
            | Kind::TaskNotFound
            | Kind::TaskNotCancelable
            | Kind::PushNotSupported
            | Kind::ContentType
            | Kind::InvalidAgentResponse
            | Kind::ExtendedCardNotConfigured
            | Kind::ExtensionRequired
            | Kind::VersionNotSupported
            | Kind::Unauthenticated
            | Kind::Forbidden
            | Kind::RateLimited
            | Kind::InsufficientBalance
            | Kind::BudgetExceeded
            | Kind::KeyReused
            | Kind::Unavailable
            | Kind::Internal => false,
        };
        if refused.stage == FailureStage::Refused && looks_instead {
            return self.get(task, Some(0)).await.map(|task| Events::once(Seen::Task(task)));
        }
        Err(refused)
    }

    /// A page of the tasks visible to this client.
    pub async fn list(&self, list: &List) -> Result<PageSeen, Error> {
        self.ask(&Call::List(list.clone()), Beside::default()).await?.page()
    }

    /// Registers a webhook for a task's progress; `config.task` names the task.
    pub async fn push_create(&self, config: &PushConfig) -> Result<PushConfig, Error> {
        self.ask(&Call::Push(PushCall::Create(config.clone())), Beside::default()).await?.push_config()
    }

    pub async fn push_get(&self, task: &str, id: &str) -> Result<PushConfig, Error> {
        let call = Call::Push(PushCall::Get { task: task.to_owned(), id: id.to_owned() });
        self.ask(&call, Beside::default()).await?.push_config()
    }

    /// The configs of a task, and the token of the next page if there is one.
    pub async fn push_list(
        &self,
        task: &str,
        page_token: Option<&str>,
    ) -> Result<(Vec<PushConfig>, Option<String>), Error> {
        let page_token = page_token.map(str::to_owned);
        let call = Call::Push(PushCall::List { task: task.to_owned(), page_size: None, page_token });
        self.ask(&call, Beside::default()).await?.push_configs()
    }

    pub async fn push_delete(&self, task: &str, id: &str) -> Result<(), Error> {
        let call = Call::Push(PushCall::Delete { task: task.to_owned(), id: id.to_owned() });
        self.ask(&call, Beside::default()).await.map(drop)
    }

    /// The card for authenticated callers.
    pub async fn extended_card(&self) -> Result<CardSeen, Error> {
        self.ask(&Call::ExtendedCard, Beside::default()).await?.card()
    }

    /// Calls and waits for the complete answer.
    async fn ask(&self, call: &Call, beside: Beside) -> Result<Answer, Error> {
        let target = self.discover().await?;
        let mut form = target.peer();
        loop {
            match self.inner.ask_in(&target, form, call, &beside).await {
                Ok(answer) => {
                    target.understood();
                    return Ok(answer);
                }
                Err(error) => form = target.next_after(form, error)?,
            }
        }
    }

    async fn listen(&self, call: &Call, beside: Beside) -> Result<Events, Error> {
        let target = self.discover().await?;
        let mut form = target.peer();
        loop {
            let events = match form {
                PeerForm::Json(peer) => self.inner.listen_once(&target, peer, call, &beside).await,
                PeerForm::Proto(peer) => self.inner.listen_over_grpc(&target, peer, call, &beside).await,
            };
            match events {
                Ok(events) => return Ok(events),
                Err(error) => form = target.next_after(form, error)?,
            }
        }
    }
}

/// An answer, and the form to read it by.
enum Answer {
    Json(&'static dyn Peer, String),
    Proto(&'static ProtoPeer, Bytes),
}

impl Answer {
    fn sent(&self) -> Result<Seen, Error> {
        readable(match self {
            Answer::Json(peer, text) => peer.read_sent(text),
            Answer::Proto(peer, message) => peer.read_sent(message),
        })
    }

    fn task(&self) -> Result<TaskSeen, Error> {
        readable(match self {
            Answer::Json(peer, text) => peer.read_task(text),
            Answer::Proto(peer, message) => peer.read_task(message),
        })
    }

    fn page(&self) -> Result<PageSeen, Error> {
        readable(match self {
            Answer::Json(peer, text) => peer.page(text),
            Answer::Proto(peer, message) => peer.page(message),
        })
    }

    fn push_config(&self) -> Result<PushConfig, Error> {
        readable(match self {
            Answer::Json(peer, text) => peer.push_config(text),
            Answer::Proto(peer, message) => peer.push_config(message),
        })
    }

    fn push_configs(&self) -> Result<(Vec<PushConfig>, Option<String>), Error> {
        readable(match self {
            Answer::Json(peer, text) => peer.push_configs(text),
            Answer::Proto(peer, message) => peer.push_configs(message),
        })
    }

    fn card(&self) -> Result<CardSeen, Error> {
        readable(match self {
            Answer::Json(_, text) => card_read::read(text),
            Answer::Proto(peer, message) => peer.card(message),
        })
    }
}

fn readable<T>(read: Result<T, Fault>) -> Result<T, Error> {
    read.map_err(|fault| Error::unreadable(&fault))
}

impl Inner {
    async fn ask_in(
        &self,
        target: &Arc<RemoteInterface>,
        form: PeerForm,
        call: &Call,
        beside: &Beside,
    ) -> Result<Answer, Error> {
        match form {
            PeerForm::Json(peer) => {
                self.ask_once(target, peer, call, beside).await.map(|text| Answer::Json(peer, text))
            }
            PeerForm::Proto(peer) => {
                let call = self.call_over_grpc(target, peer, call, beside).await?;
                Ok(Answer::Proto(peer, call.only_message().await?))
            }
        }
    }

    /// The card that an endpoint of gRPC tells of itself.
    pub(crate) async fn card_over_grpc(&self, target: &RemoteInterface) -> Result<CardSeen, Error> {
        let PeerForm::Proto(peer) = target.peer() else { return Err(Error::broken("no form of gRPC")) };
        let call = self.call_over_grpc(target, peer, &Call::ExtendedCard, &Beside::default()).await?;
        Answer::Proto(peer, call.only_message().await?).card()
    }

    async fn listen_over_grpc(
        &self,
        target: &Arc<RemoteInterface>,
        peer: &'static ProtoPeer,
        call: &Call,
        beside: &Beside,
    ) -> Result<Events, Error> {
        let call = self.call_over_grpc(target, peer, call, beside).await?;
        Ok(Events::rpc(RpcEvents::new(call, peer, target.clone())))
    }

    async fn call_over_grpc(
        &self,
        target: &RemoteInterface,
        peer: &'static ProtoPeer,
        call: &Call,
        beside: &Beside,
    ) -> Result<RpcCall, Error> {
        let asking = RequestOptions { tenant: target.tenant.as_deref(), extensions: &beside.extensions, id: 0 };
        let request = peer.ask(call, &asking).map_err(|fault| Error::unaskable(&fault))?;
        let Options { timeouts, body_bytes, event_bytes, .. } = &self.options;
        let limits = RpcLimits {
            first_byte: timeouts.first_byte,
            idle: timeouts.idle,
            message_bytes: if request.operation.is_stream() { *event_bytes } else { *body_bytes },
        };
        RpcCall::open(self.grpc(&target.url)?, &target.url, request, &beside.headers, limits).await
    }

    /// The HTTP client for gRPC at this URL, made when it is first needed.
    fn grpc(&self, url: &Url) -> Result<&GrpcClient, Error> {
        let slot = &self.grpc[usize::from(url.scheme() == "https")];
        if slot.get().is_none() {
            let _ = slot.set(GrpcClient::new(http::build_grpc(&self.options, url)?));
        }
        slot.get().ok_or_else(|| Error::broken("the HTTP client was not kept"))
    }

    async fn ask_once(
        &self,
        target: &Arc<RemoteInterface>,
        peer: &'static dyn Peer,
        call: &Call,
        beside: &Beside,
    ) -> Result<String, Error> {
        let (response, ask) = self.send(target, peer, call, beside, JSON).await?;
        let (status, idle) = (response.status().as_u16(), self.options.timeouts.idle);
        if http::is_events(&response) && (200..300).contains(&status) {
            let events = Events::open(response, peer, ask.operation, target.clone(), idle, self.options.event_bytes);
            return events.first_value().await;
        }
        let body = http::body(response, self.options.body_bytes, idle).await?;
        let text = String::from_utf8_lossy(&body);
        peer.result(status, &text, ask.operation).map(str::to_owned).map_err(Error::refused)
    }

    async fn listen_once(
        &self,
        target: &Arc<RemoteInterface>,
        peer: &'static dyn Peer,
        call: &Call,
        beside: &Beside,
    ) -> Result<Events, Error> {
        let (response, ask) = self.send(target, peer, call, beside, EVENTS).await?;
        let (status, idle) = (response.status().as_u16(), self.options.timeouts.idle);
        if http::is_events(&response) && (200..300).contains(&status) {
            return Ok(Events::open(response, peer, ask.operation, target.clone(), idle, self.options.event_bytes));
        }
        let body = http::body(response, self.options.body_bytes, idle).await?;
        let text = String::from_utf8_lossy(&body);
        let result = peer.result(status, &text, ask.operation).map_err(Error::refused)?;
        let seen = peer.read_sent(result).map_err(|fault| Error::unreadable(&fault))?;
        target.understood();
        Ok(Events::once(seen))
    }

    /// Sends a call, and again with the other HTTP method if the first is not allowed.
    async fn send(
        &self,
        target: &RemoteInterface,
        peer: &'static dyn Peer,
        call: &Call,
        beside: &Beside,
        accept: &'static str,
    ) -> Result<(Response, PeerRequest), Error> {
        let id = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let asking = RequestOptions { tenant: target.tenant.as_deref(), extensions: &beside.extensions, id };
        let ask = peer.ask(call, &asking).map_err(|fault| Error::unaskable(&fault))?;
        let url = below(&target.url, &ask);
        let request = |verb: &'static str| OutgoingRequest {
            verb,
            url: url.clone(),
            accept,
            headers: ask.headers.iter().chain(&beside.headers).cloned().collect(),
            body: ask.body.clone().filter(|_| verb != "GET"),
        };
        let patience = self.options.timeouts.first_byte;
        let response = http::send(&self.http, request(ask.verb), patience).await?;
        match ask.or_verb {
            Some(other) if matches!(response.status().as_u16(), 404 | 405 | 501) => {
                let again = http::send(&self.http, request(other), patience).await?;
                // If both are refused, the first refusal says more.
                if again.status().as_u16() == 405 { Ok((response, ask)) } else { Ok((again, ask)) }
            }
            Some(_) | None => Ok((response, ask)),
        }
    }
}

/// The URL of a request below its interface.
fn below(base: &Url, ask: &PeerRequest) -> Url {
    let mut url = base.clone();
    if !ask.path.is_empty() {
        let base = base.path().trim_end_matches('/');
        // Some 0.3 cards name the URL above `/v1`, others the URL including it.
        let base = if ask.path.starts_with("/v1/") { base.strip_suffix("/v1").unwrap_or(base) } else { base };
        url.set_path(&format!("{base}{}", ask.path));
    }
    if let Some(query) = &ask.query {
        let query = match url.query() {
            Some(own) if !own.is_empty() => format!("{own}&{query}"),
            Some(_) | None => query.clone(),
        };
        url.set_query(Some(&query));
    }
    url
}

/// The send with a task id, which some generations let callers choose. The others ignore it.
fn with_id(send: &Send) -> Send {
    let mut send = send.clone();
    if send.alias.is_none() && send.task.is_none() {
        send.alias = Some(Uuid::now_v7().to_string());
    }
    send
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::card::Binding;
    use dialects::peer::{Generation, peer};

    #[test]
    fn a_request_goes_below_its_interface_and_keeps_its_query() {
        let rest = peer(Generation::V0_3, Binding::HttpJson).unwrap();
        let call = Call::Get(Get { task: "a/b".into(), history: Some(2) });
        let ask = rest.ask(&call, &RequestOptions::default()).unwrap();
        let placed = |base: &str| below(&Url::parse(base).unwrap(), &ask).to_string();
        assert_eq!(placed("https://h"), "https://h/v1/tasks/a%2Fb?historyLength=2");
        assert_eq!(placed("https://h/x/?k=1"), "https://h/x/v1/tasks/a%2Fb?k=1&historyLength=2");
        assert_eq!(placed("https://h/x/v1/"), "https://h/x/v1/tasks/a%2Fb?historyLength=2");
        let rpc = peer(Generation::V0_3, Binding::JsonRpc).unwrap().ask(&call, &RequestOptions::default()).unwrap();
        assert_eq!(below(&Url::parse("https://h/x/").unwrap(), &rpc).as_str(), "https://h/x/");
    }
}
