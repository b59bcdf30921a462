//! The operations of the client, one method each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dialects::card_read::{self, CardSeen};
use dialects::peer::{Peer, PeerRequest, RequestOptions};
use dialects::seen::{PageSeen, Seen, TaskSeen};
use model::{Call, Cancel, Get, Json, Kind, List, PushCall, PushConfig, Send, Subscribe};
use reqwest::Response;
use url::Url;
use uuid::Uuid;

use crate::discover::RemoteInterface;
use crate::error::{Error, FailureStage};
use crate::events::Events;
use crate::http::{self, OutgoingRequest};
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
        let (peer, text) = self.ask(&call, Beside::of(send)).await?;
        peer.read_sent(&text).map_err(|fault| Error::unreadable(&fault))
    }

    /// Sends a message and streams. A server that does not stream gives a single answer.
    pub async fn stream(&self, send: &Send) -> Result<Events, Error> {
        self.listen(&Call::Stream(Box::new(with_id(send))), Beside::of(send)).await
    }

    /// The current task, with at most `history` of its newest messages; `None` for all.
    pub async fn get(&self, task: &str, history: Option<u32>) -> Result<TaskSeen, Error> {
        let call = Call::Get(Get { task: task.to_owned(), history });
        let (peer, text) = self.ask(&call, Beside::default()).await?;
        peer.read_task(&text).map_err(|fault| Error::unreadable(&fault))
    }

    pub async fn cancel(&self, task: &str, metadata: Option<Json>) -> Result<TaskSeen, Error> {
        let call = Call::Cancel(Cancel { task: task.to_owned(), metadata });
        let (peer, text) = self.ask(&call, Beside::default()).await?;
        peer.read_task(&text).map_err(|fault| Error::unreadable(&fault))
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
        let (peer, text) = self.ask(&Call::List(list.clone()), Beside::default()).await?;
        peer.page(&text).map_err(|fault| Error::unreadable(&fault))
    }

    /// Registers a webhook for a task's progress; `config.task` names the task.
    pub async fn push_create(&self, config: &PushConfig) -> Result<PushConfig, Error> {
        let (peer, text) = self.ask(&Call::Push(PushCall::Create(config.clone())), Beside::default()).await?;
        peer.push_config(&text).map_err(|fault| Error::unreadable(&fault))
    }

    pub async fn push_get(&self, task: &str, id: &str) -> Result<PushConfig, Error> {
        let call = Call::Push(PushCall::Get { task: task.to_owned(), id: id.to_owned() });
        let (peer, text) = self.ask(&call, Beside::default()).await?;
        peer.push_config(&text).map_err(|fault| Error::unreadable(&fault))
    }

    /// The configs of a task, and the token of the next page if there is one.
    pub async fn push_list(
        &self,
        task: &str,
        page_token: Option<&str>,
    ) -> Result<(Vec<PushConfig>, Option<String>), Error> {
        let page_token = page_token.map(str::to_owned);
        let call = Call::Push(PushCall::List { task: task.to_owned(), page_size: None, page_token });
        let (peer, text) = self.ask(&call, Beside::default()).await?;
        peer.push_configs(&text).map_err(|fault| Error::unreadable(&fault))
    }

    pub async fn push_delete(&self, task: &str, id: &str) -> Result<(), Error> {
        let call = Call::Push(PushCall::Delete { task: task.to_owned(), id: id.to_owned() });
        self.ask(&call, Beside::default()).await.map(drop)
    }

    /// The card for authenticated callers.
    pub async fn extended_card(&self) -> Result<CardSeen, Error> {
        let (_, text) = self.ask(&Call::ExtendedCard, Beside::default()).await?;
        card_read::read(&text).map_err(|fault| Error::unreadable(&fault))
    }

    /// Calls and waits for the complete answer: the result, and the form to decode it.
    async fn ask(&self, call: &Call, beside: Beside) -> Result<(&'static dyn Peer, String), Error> {
        let target = self.discover().await?;
        let mut peer = target.peer();
        loop {
            let error = match self.inner.ask_once(&target, peer, call, &beside).await {
                Ok(text) => {
                    target.understood();
                    return Ok((peer, text));
                }
                Err(error) => error,
            };
            peer = target.next_after(peer, &error).ok_or(error)?;
        }
    }

    async fn listen(&self, call: &Call, beside: Beside) -> Result<Events, Error> {
        let target = self.discover().await?;
        let mut peer = target.peer();
        loop {
            let error = match self.inner.listen_once(&target, peer, call, &beside).await {
                Ok(events) => return Ok(events),
                Err(error) => error,
            };
            peer = target.next_after(peer, &error).ok_or(error)?;
        }
    }
}

impl Inner {
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
