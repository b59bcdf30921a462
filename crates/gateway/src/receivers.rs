//! Receivers of webhooks, for the playground of the console: an address that notes the requests it gets, so that an operator
//! sees what a webhook brings.
//!
//! They are in the memory of this process, bounded in number, size and age. The address has a token that cannot be guessed,
//! and a client that has it can only post. Requests are shown to operators of the tenant whose operator made the receiver,
//! and to those who see all tenants.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{StatusCode, request};
use hyper::body::Incoming;
use model::{Caller, Fault, Kind, Time};
use parking_lot::Mutex;
use tokio::sync::watch;
use web::body::Response;
use web::request_log::RequestLog;
use web::response::text;

use crate::admin::AdminDoor;
use crate::console::sessions::drawn;
use crate::fronts::{self, Gate};
use crate::{GatewayVersion, auth, intake};

const PATH: &str = "/hooks/";
/// Such a path in the log, without its token.
pub(crate) const SHOWN: &str = "/hooks/…";
/// Most receivers of one tenant; the oldest ends for a new one.
const OF_TENANT: usize = 8;
/// Most receivers of all tenants.
const ALL: usize = 32;
const LIFETIME: Duration = Duration::from_secs(3_600);
/// The largest body of a request.
const BODY: usize = 256 << 10;
/// Most requests that a receiver keeps, and most bytes; the oldest are forgotten for new ones.
const REQUESTS: usize = 100;
const BYTES: usize = 1 << 20;

type TokenHash = [u8; 32];

/// The token in a path, if it is one of a receiver.
pub(crate) fn below(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|token| !token.is_empty() && !token.contains('/'))
}

#[derive(Default)]
pub(crate) struct Receivers(Mutex<HashMap<TokenHash, Receiver>>);

struct Receiver {
    about: Arc<ReceiverFacts>,
    began: Instant,
    requests: VecDeque<Arc<ReceivedRequest>>,
    bytes: usize,
    /// The number of the last request; 0 before the first.
    last: watch::Sender<u64>,
}

pub(crate) struct ReceiverFacts {
    pub(crate) id: String,
    /// Of the operator who made it.
    pub(crate) tenant: Arc<str>,
    pub(crate) path: String,
    pub(crate) made_at: Time,
    pub(crate) expires_at: Time,
}

pub(crate) struct ReceivedRequest {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl ReceivedRequest {
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}

fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

impl Receivers {
    /// A new receiver.
    pub(crate) fn make(&self, maker: &Caller) -> Result<Arc<ReceiverFacts>, Fault> {
        let (id, token) = (drawn::<12>()?, drawn::<24>()?);
        let made_at = now();
        let about = Arc::new(ReceiverFacts {
            id,
            tenant: maker.tenant.clone(),
            path: format!("{PATH}{token}"),
            made_at,
            expires_at: Time(made_at.0 + LIFETIME.as_millis() as i64),
        });
        let mut held = self.0.lock();
        forget_old(&mut held);
        let of_tenant = held.iter().filter(|(_, one)| one.about.tenant == maker.tenant);
        if of_tenant.clone().count() >= OF_TENANT {
            let oldest = of_tenant.min_by_key(|(_, one)| one.began).map(|(hash, _)| *hash);
            held.remove(&oldest.unwrap_or_default());
        }
        if held.len() >= ALL {
            let message =
                format!("the server has {ALL} receivers, which is the limit; one ends an hour after it was made");
            return Err(Fault::new(Kind::Unavailable, message));
        }
        let (last, _) = watch::channel(0);
        let receiver =
            Receiver { about: about.clone(), began: Instant::now(), requests: VecDeque::new(), bytes: 0, last };
        held.insert(auth::hash(&token), receiver);
        Ok(about)
    }

    /// A receiver by its id, if it is one of this tenant; without a tenant, any.
    pub(crate) fn find(&self, id: &str, tenant: Option<&str>) -> Option<Arc<ReceiverFacts>> {
        self.with(id, tenant, |receiver| receiver.about.clone())
    }

    /// Its requests after the one of this number, and the news of further ones.
    pub(crate) fn read(
        &self,
        id: &str,
        tenant: Option<&str>,
        after: u64,
    ) -> Option<(Vec<Arc<ReceivedRequest>>, watch::Receiver<u64>)> {
        self.with(id, tenant, |receiver| {
            let later = receiver.requests.iter().filter(|request| request.number > after);
            (later.cloned().collect(), receiver.last.subscribe())
        })
    }

    pub(crate) fn remove(&self, id: &str, tenant: Option<&str>) -> Option<Arc<ReceiverFacts>> {
        let mut held = self.0.lock();
        forget_old(&mut held);
        let hash = *held.iter().find(|(_, one)| one.about.is(id, tenant))?.0;
        held.remove(&hash).map(|receiver| receiver.about)
    }

    fn with<T>(&self, id: &str, tenant: Option<&str>, read: impl FnOnce(&Receiver) -> T) -> Option<T> {
        let mut held = self.0.lock();
        forget_old(&mut held);
        held.values().find(|one| one.about.is(id, tenant)).map(read)
    }

    fn knows(&self, token: &str) -> bool {
        let mut held = self.0.lock();
        forget_old(&mut held);
        held.contains_key(&auth::hash(token))
    }

    /// Notes a request. False if the receiver is gone.
    fn take(&self, token: &str, headers: Vec<(String, String)>, body: Bytes) -> bool {
        let mut held = self.0.lock();
        let Some(receiver) = held.get_mut(&auth::hash(token)) else { return false };
        let number = *receiver.last.borrow() + 1;
        let request = Arc::new(ReceivedRequest { number, at: now(), headers, body });
        receiver.bytes += request.bytes();
        receiver.requests.push_back(request);
        while receiver.requests.len() > REQUESTS || (receiver.bytes > BYTES && receiver.requests.len() > 1) {
            receiver.bytes -= receiver.requests.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        receiver.last.send_replace(number);
        true
    }
}

impl ReceiverFacts {
    fn is(&self, id: &str, tenant: Option<&str>) -> bool {
        self.id == id && tenant.is_none_or(|tenant| *self.tenant == *tenant)
    }
}

fn forget_old(held: &mut HashMap<TokenHash, Receiver>) {
    held.retain(|_, receiver| receiver.began.elapsed() < LIFETIME);
}

/// Answers a request to a receiver's address. It needs no credential.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    door: &AdminDoor,
    token: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    log.operation = "receiver";
    let missing = || text(StatusCode::NOT_FOUND, "there is no such receiver; it ends an hour after it was made\n");
    if !door.receivers.knows(token) {
        return missing();
    }
    let body = match intake::read(server, head, body, Some(BODY), Gate::Open, log).await {
        Ok(body) => body,
        Err(fault) => {
            let status = fronts::status_of(fault.kind).unwrap_or(StatusCode::BAD_REQUEST);
            return text(status, format!("{fault}\n"));
        }
    };
    let shown = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), shown(value))).collect();
    // A copy: the piece that was read may be a part of a larger one.
    match door.receivers.take(token, headers, Bytes::copy_from_slice(&body)) {
        true => text(StatusCode::OK, "received\n"),
        false => missing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(tenant: &str) -> Caller {
        Caller { tenant: tenant.into(), name: "op".into(), authenticated: true, scopes: Arc::new([]) }
    }

    fn token(about: &ReceiverFacts) -> &str {
        below(&about.path).expect("a token")
    }

    fn numbers(receivers: &Receivers, id: &str) -> Vec<u64> {
        let (requests, _) = receivers.read(id, None, 0).expect("a receiver");
        requests.iter().map(|request| request.number).collect()
    }

    #[test]
    fn a_path_has_one_token() {
        assert_eq!(below("/hooks/abc"), Some("abc"));
        assert_eq!([below("/hooks/"), below("/hooks"), below("/hooks/a/b"), below("/a2a/hooks")], [None; 4]);
    }

    #[test]
    fn only_the_makers_tenant_and_callers_of_all_find_it() {
        let receivers = Receivers::default();
        let made = receivers.make(&operator("north")).unwrap();
        for (tenant, is_found) in [(Some("north"), true), (None, true), (Some("south"), false)] {
            assert_eq!(receivers.find(&made.id, tenant).is_some(), is_found, "{tenant:?}");
            assert_eq!(receivers.read(&made.id, tenant, 0).is_some(), is_found, "{tenant:?}");
        }
        assert!(receivers.remove(&made.id, Some("south")).is_none());
        assert!(receivers.find(token(&made), None).is_none(), "the token is no id");
        assert!(!receivers.take(&made.id, Vec::new(), Bytes::new()), "the id is no token");
        assert!(receivers.remove(&made.id, Some("north")).is_some());
        assert!(!receivers.knows(token(&made)) && receivers.find(&made.id, None).is_none());
    }

    #[test]
    fn a_receiver_keeps_its_last_requests_within_bounds_of_number_and_size() {
        let receivers = Receivers::default();
        let made = receivers.make(&operator("north")).unwrap();
        for _ in 0..REQUESTS + 5 {
            assert!(receivers.take(token(&made), Vec::new(), Bytes::from_static(b"x")));
        }
        assert_eq!(numbers(&receivers, &made.id), (6..=REQUESTS as u64 + 5).collect::<Vec<_>>());
        let large = Bytes::from(vec![b'x'; BODY]);
        for _ in 0..6 {
            receivers.take(token(&made), vec![("a".to_owned(), "b".to_owned())], large.clone());
        }
        let (kept, _) = receivers.read(&made.id, None, 0).unwrap();
        assert!(kept.iter().map(|request| request.bytes()).sum::<usize>() <= BYTES);
        assert_eq!(kept.last().map(|request| request.number), Some(REQUESTS as u64 + 11));
        assert_eq!(numbers(&receivers, &made.id).len(), 3);
        let (later, _) = receivers.read(&made.id, None, REQUESTS as u64 + 10).unwrap();
        assert_eq!(later.len(), 1);
    }

    #[test]
    fn a_tenant_loses_its_oldest_for_a_new_one_and_never_another_tenants() {
        let receivers = Receivers::default();
        let others = receivers.make(&operator("south")).unwrap();
        let made: Vec<_> = (0..=OF_TENANT).map(|_| receivers.make(&operator("north")).unwrap()).collect();
        let is_there = |one: &ReceiverFacts| receivers.find(&one.id, None).is_some();
        assert!(!is_there(&made[0]) && made[1..].iter().all(|one| is_there(one)) && is_there(&others));
        for number in 0.. {
            if receivers.make(&operator(&format!("tenant {number}"))).is_err() {
                break;
            }
        }
        assert_eq!(receivers.0.lock().len(), ALL);
        assert!(is_there(&others));
    }

    #[tokio::test]
    async fn a_reader_is_told_of_a_new_request_and_of_the_end() {
        let receivers = Receivers::default();
        let made = receivers.make(&operator("north")).unwrap();
        let (before, mut news) = receivers.read(&made.id, None, 0).unwrap();
        assert!(before.is_empty());
        receivers.take(token(&made), Vec::new(), Bytes::new());
        news.changed().await.unwrap();
        assert_eq!(*news.borrow_and_update(), 1);
        receivers.remove(&made.id, None);
        assert!(news.changed().await.is_err());
    }
}
