//! Senders and deliveries with plain defaults.

use std::net::IpAddr;
use std::sync::Arc;

use gateway::webhooks::{
    HostResolver, HttpPost, HttpWebhookSender, Options, OutboundPolicy, Seal, Signer, SystemResolver,
};
use model::ports::Future;
use model::ports::store::Store;
use model::ports::webhook::{WebhookBody, WebhookOutcome, WebhookRequest, WebhookSender};
use model::{
    Body, ContextId, Event, EventId, Message, Part, PushSpec, Role, Seq, State, StatusChange, Task, TaskId, Time,
};
use parking_lot::Mutex;

pub(crate) fn task_id() -> TaskId {
    "0190f3c4-1111-7222-8333-444455556666".parse().unwrap()
}

/// Options under this policy, with a resolver of the test's.
pub(crate) fn under(loopback: bool, allow: &[&str], resolver: Option<Arc<dyn HostResolver>>) -> Options {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    let policy = OutboundPolicy { loopback, allow, ..OutboundPolicy::default() };
    let post = HttpPost::new(policy, resolver.unwrap_or_else(|| Arc::new(SystemResolver)));
    Options { post: Arc::new(post), ..Options::default() }
}

/// Time limits for a busy machine.
pub(crate) fn options() -> Options {
    under(true, &[], None)
}

pub(crate) fn courier(options: Options) -> HttpWebhookSender {
    courier_with(Arc::new(stores::memory::MemoryStore::new()), None, options)
}

pub(crate) fn courier_with(store: Arc<dyn Store>, signer: Option<Signer>, options: Options) -> HttpWebhookSender {
    gateway::crypto::install();
    HttpWebhookSender::new(store, Seal::new(&[1; 32]).unwrap(), signer, options).unwrap()
}

pub(crate) fn spec(url: &str) -> PushSpec {
    PushSpec {
        url: url.into(),
        token: None,
        scheme: None,
        credentials: None,
        dialect: "a2a_v1".into(),
        shown: None,
        trace: None,
    }
}

pub(crate) fn task() -> Task {
    let opened =
        r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"ctx-1","g":"echo","t":"acme","o":"o","v":[],"d":"a2a_v1"}"#;
    let body = Body::Opened(serde_json::from_str(opened).unwrap());
    Task::open(&Event { seq: Seq(1), at: Time(0), body }).unwrap()
}

pub(crate) fn status() -> Event {
    let said = Message {
        id: "m-1".into(),
        role: Role::Agent,
        parts: vec![Part::text("done")],
        metadata: None,
        extensions: vec![],
        references: vec![],
    };
    let change = StatusChange { state: State::Completed, message: Some(said.into()), metadata: None };
    Event { seq: Seq(7), at: Time(1_777_629_600_120), body: Body::Status(change) }
}

pub(crate) fn letter(spec: PushSpec, news: WebhookBody) -> WebhookRequest {
    WebhookRequest {
        id: EventId { task: task_id(), seq: Seq(7) },
        attempt: 1,
        config: "cfg 1".into(),
        tenant: "acme".into(),
        context: ContextId("ctx-1".into()),
        spec: Arc::new(spec),
        news,
    }
}

/// A delivery of one event.
pub(crate) async fn deliver(courier: &HttpWebhookSender, spec: PushSpec) -> WebhookOutcome {
    courier.deliver(letter(spec, WebhookBody::Event(Arc::new(status())))).await
}

/// The reason of a failure, checked to contain no secret of the receiver.
pub(crate) fn why(receipt: &WebhookOutcome) -> String {
    let why = match receipt {
        WebhookOutcome::Failed { why, .. } | WebhookOutcome::Gone { why } => why.clone(),
        WebhookOutcome::Taken | WebhookOutcome::Untold => panic!("{receipt:?}"),
    };
    for secret in ["secret", "/path", "?"] {
        assert!(!why.contains(secret), "{why}");
    }
    why
}

/// A resolver whose answers a test sets: each lookup takes the next of a list, then its last.
pub(crate) struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
}

impl Names {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Names> {
        let mut answers: Vec<Vec<IpAddr>> =
            answers.iter().map(|each| each.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        answers.reverse();
        Arc::new(Names { answers: Mutex::new(answers) })
    }
}

impl HostResolver for Names {
    fn lookup(&self, _name: String) -> Future<'static, std::io::Result<Vec<IpAddr>>> {
        let mut answers = self.answers.lock();
        let next = if answers.len() > 1 { answers.pop().unwrap() } else { answers[0].clone() };
        Box::pin(async move { Ok(next) })
    }
}
