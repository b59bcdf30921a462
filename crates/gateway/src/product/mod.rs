//! The port for products: the interface through which a product extends the gateway. The binary lists its products.

pub mod config;
pub mod demo_file;
mod prepare;

pub use prepare::{
    AgentFacts, BuildAgent, Demo, KeyFacts, Prepared, ProductHost, Progress, RosterChange, RosterChanges, RosterEntry,
    Sections, Setup,
};

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use dialects::JsonWire;
use dialects::framing::{jsonrpc, scan};
use engine::Engine;
use futures_util::future::BoxFuture;
use http::{HeaderMap, request};
use hyper::body::Incoming;
use model::ports::billing::Settlement;
use model::{AccessKey, CallScope, Caller, Fault, Task, TaskId};
use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use crate::admin::AdminCommand;
use crate::admin_api::ApiRoute;
use crate::fronts::RequestLog;
use crate::mounts::MountedAgent;
use crate::{GatewayVersion, Settings, settings};

/// A product, before it is configured.
pub trait ProductKind: Sync {
    /// For logs and build features. Config keys and stored names are constants of their own.
    fn name(&self) -> &'static str;

    /// Its commands at the admin socket.
    fn admin(&self) -> &'static [AdminCommand] {
        &[]
    }

    /// Its operations of the admin API: rows of the gateway's table.
    fn api(&self) -> &'static [ApiRoute] {
        &[]
    }

    /// The ids of its pages in the console, as far as this version of the server has something to show there.
    fn pages(&self, _server: &GatewayVersion) -> &'static [&'static str] {
        &[]
    }

    /// The money that a task cost or that is set aside for it, as far as the product has it.
    fn money<'a>(
        &'a self,
        _server: &'a GatewayVersion,
        _task: &'a Task,
    ) -> BoxFuture<'a, Result<Vec<MoneyOfTask>, Fault>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The wires that the product adds to those of `dialects`: for webhooks by the name that a task stores, and for
    /// encoding slots.
    fn wires(&self) -> &'static [&'static dyn JsonWire] {
        &[]
    }

    /// The task that the product shows under this id.
    fn task_id(&self, _shown: &str) -> Option<TaskId> {
        None
    }

    /// The scopes of keys that the product defines.
    fn scopes(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads the product's sections of a config and checks them. None where there is nothing to serve.
    fn prepare(&self, setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>>;

    /// Settles what turns cost. It is needed wherever tasks end, also without a config for the product. One product has
    /// it.
    fn settlement(&self) -> Option<Arc<dyn Settlement>> {
        None
    }

    /// An operator's key was revoked: the product revokes everything that was made with it.
    fn key_revoked<'a>(&self, _engine: &'a Engine, _key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Money of a task, for operators. Amounts are decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MoneyOfTask {
    /// The id of the task.
    pub task: String,
    pub agent: String,
    /// The thing that is paid for, such as `purchase` or `turns`.
    pub what: String,
    /// How far the payment is, in the product's words.
    pub state: String,
    pub currency: String,
    /// Paid for good.
    pub charged: String,
    /// Set aside.
    pub held: String,
    pub payer: Option<String>,
    pub payee: Option<String>,
    /// The ids of entries in the ledger, as far as they are known.
    pub entries: Vec<String>,
    pub at: String,
}

/// The products of a binary.
pub type ProductKinds<'a> = &'a [&'static dyn ProductKind];

/// The settlement of these products, if one of them has one.
pub fn settlement(products: &[&'static dyn ProductKind]) -> Option<Arc<dyn Settlement>> {
    let mut found = products.iter().filter_map(|product| product.settlement());
    let first = found.next();
    debug_assert!(found.next().is_none(), "two products settle turns");
    first
}

/// A product that is configured, in one version of the server.
pub trait ProductService: Any + Send + Sync {
    /// The first reason why the server cannot start with these settings.
    fn check(&self, _settings: &Settings) -> Result<(), settings::Error> {
        Ok(())
    }

    /// The service is in force from now on.
    fn in_force(&self) {}

    /// The changes of the product's agents while the server runs.
    fn roster_changes(&self) -> Option<Arc<dyn RosterChanges>> {
        None
    }

    /// The product's part of the demo.
    fn demo(&self) -> Option<&dyn Demo> {
        None
    }

    /// Finds the product's endpoint for a path.
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a>;

    /// Finds the endpoint at an agent's address for a name that no agent has.
    fn unknown_agent<'a>(&'a self, _name: &'a str) -> Option<Box<dyn ProductEndpoint + 'a>> {
        None
    }

    /// Answers a request for an agent's card with another card. `is_origin` says whether it is the card of the origin.
    fn card<'a>(&'a self, _request: CardRequest<'a>) -> Option<BoxFuture<'a, Option<Response>>> {
        None
    }

    /// Checks messages to one agent at the addresses of other dialects; the product's own endpoint checks by itself.
    fn send_guard(&self) -> Option<(&Arc<str>, Arc<dyn SendGuard>)> {
        None
    }

    /// The agent that the product's scopes are for.
    fn scoped_agent(&self) -> Option<&Arc<str>> {
        None
    }

    /// Whether callers of an agent need a credential as soon as any credential exists. The text names the address that
    /// accepts the product's credentials.
    fn requires_credential(&self, _agent: &str) -> Option<String> {
        None
    }

    /// Whether the product has credentials of its own.
    fn has_credentials(&self) -> bool {
        false
    }

    /// Whether credentials of the product put tasks of an agent into tenants.
    fn separates_tenants(&self, _agent: &str) -> bool {
        false
    }

    /// The largest body that an endpoint accepts, if it is larger than the server's limit.
    fn largest_body(&self) -> usize {
        0
    }

    /// The addresses that the product shares with agents.
    fn shared(&self) -> Option<&dyn SharedAddress> {
        None
    }

    /// Claims a request at an agent's own address that states no version of the protocol. `body` is none if it could
    /// not be read.
    fn claim<'a>(
        &'a self,
        _server: &'a Arc<GatewayVersion>,
        _head: &'a request::Parts,
        _body: Option<&Bytes>,
    ) -> Option<Box<dyn ProductEndpoint + 'a>> {
        None
    }

    /// Whether the headers show one of the product's own callers. Such a caller may send a large body to an address
    /// that agents and products share.
    fn knows_caller<'a>(&'a self, _server: &'a Arc<GatewayVersion>, _head: &'a request::Parts) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

impl fmt::Debug for dyn ProductService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProductService")
    }
}

/// Decides whether a message may be sent, before a task exists.
pub trait SendGuard: Send + Sync {
    /// The dialect whose endpoint checks by itself.
    fn own_dialect(&self) -> &'static str;

    /// `caller` is none without a credential.
    fn admit<'a>(
        &'a self,
        engine: &'a Engine,
        place: &'a CallScope,
        send: &'a model::Send,
        caller: Option<&'a Caller>,
    ) -> BoxFuture<'a, Result<(), Fault>>;
}

/// An address that a product shares with the default agent: some requests there are the product's. Products are asked
/// in their order, by headers first, then by params. A request that states a dialect belongs to that dialect, and no
/// product is asked.
pub trait SharedAddress: Send + Sync {
    fn paths(&self) -> &'static [&'static str];

    /// The methods that the product has there. Params of other methods are not examined.
    fn methods(&self) -> &'static [&'static str];

    /// The product's name in `X-A2A-Dialect`.
    fn dialect(&self) -> &'static str;

    /// Whether the headers mark the request as the product's.
    fn by_headers(&self, server: &GatewayVersion, headers: &HeaderMap) -> bool;

    /// Whether the params do. `has_session` says that they have `sessionId`, a member of the first generation.
    fn by_params(&self, method: &str, params: Option<&str>, has_session: bool) -> Ownership;

    /// Whether the request is the product's where the params leave it open ([`Ownership::IfUnknown`]).
    fn owns<'a>(&'a self, call: SharedCall<'a>) -> BoxFuture<'a, bool>;

    /// Answers a request that is the product's by its headers; its body may be unreadable.
    fn answer_unread<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response>;

    /// Answers a request that is the product's by its params.
    fn answer<'a>(&'a self, call: SharedCall<'a>, log: &'a mut RequestLog) -> BoxFuture<'a, Response>;
}

/// A JSON-RPC request at a shared address.
#[derive(Clone, Copy)]
pub struct SharedCall<'a> {
    pub server: &'a Arc<GatewayVersion>,
    pub mounted: &'a MountedAgent,
    pub head: &'a request::Parts,
    pub request: &'a jsonrpc::RpcRequest<'a>,
}

/// The owner of a request, as far as one product's params decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    No,
    Yes,
    /// The product's unless the agent at the address has the task.
    IfUnknown,
}

/// The owner of a request at a shared address, as far as its params decide it.
pub enum SharedOwner<'a> {
    Product(&'a dyn SharedAddress),
    /// The product's unless the agent at the address has the task.
    ProductIfUnknown(&'a dyn SharedAddress),
    /// The first generation, even where the method's name is shared with others.
    FirstGeneration,
    Agent,
}

impl<'a> SharedOwner<'a> {
    /// Only methods of a product are examined: a call of a newer generation costs a comparison of names.
    pub fn by_params(
        products: impl Iterator<Item = &'a dyn SharedAddress> + Clone,
        method: &str,
        params: Option<&str>,
    ) -> SharedOwner<'a> {
        if !products.clone().any(|product| product.methods().contains(&method)) {
            return SharedOwner::Agent;
        }
        let has_session = params.into_iter().flat_map(scan::members).any(|(name, _)| name == "sessionId");
        for product in products.filter(|product| product.methods().contains(&method)) {
            match product.by_params(method, params, has_session) {
                Ownership::No => {}
                Ownership::Yes => return SharedOwner::Product(product),
                Ownership::IfUnknown => return SharedOwner::ProductIfUnknown(product),
            }
        }
        if has_session { SharedOwner::FirstGeneration } else { SharedOwner::Agent }
    }
}

/// A request for an agent's card.
pub struct CardRequest<'a> {
    pub server: &'a Arc<GatewayVersion>,
    pub head: &'a request::Parts,
    pub is_origin: bool,
    pub log: &'a mut RequestLog,
}

/// The meaning of a path to a product.
pub enum ProductRoute<'a> {
    /// The path belongs to the product.
    Found(Box<dyn ProductEndpoint + 'a>),
    /// The path is below an address of the product, and has no endpoint.
    Nothing,
    /// The path is not the product's.
    NotMine,
}

impl<'a> ProductRoute<'a> {
    /// The endpoint, or a path that is not the product's.
    pub fn of(endpoint: Option<impl ProductEndpoint + 'a>) -> ProductRoute<'a> {
        endpoint.map_or(ProductRoute::NotMine, |endpoint| ProductRoute::Found(Box::new(endpoint)))
    }
}

/// The requests that an endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// GET and HEAD; no body is read.
    Get,
    /// POST with a JSON body of at most so many bytes; `None` is the server's limit.
    PostJson(Option<usize>),
    /// Every method, with a body of at most so many bytes.
    Any(Option<usize>),
    /// Every method; the endpoint reads the body.
    Stream,
}

/// The body of a request for an endpoint.
pub enum RequestBody {
    Read(Bytes),
    /// Too large, too slow, of another media type, or refused for another reason.
    Refused(Fault),
    /// Not read yet ([`Accepts::Stream`]).
    Stream(Incoming),
}

impl RequestBody {
    pub fn of(read: Result<Bytes, Fault>) -> RequestBody {
        read.map_or_else(RequestBody::Refused, RequestBody::Read)
    }

    /// The body that was read; an error for an endpoint that reads by itself.
    pub fn into_bytes(self) -> Result<Bytes, Fault> {
        match self {
            RequestBody::Read(bytes) => Ok(bytes),
            RequestBody::Refused(fault) => Err(fault),
            RequestBody::Stream(_) => Ok(Bytes::new()),
        }
    }
}

/// A request for an endpoint.
pub struct EndpointRequest<'a> {
    pub server: &'a Arc<GatewayVersion>,
    pub head: &'a request::Parts,
    pub body: RequestBody,
    pub log: &'a mut RequestLog,
}

/// One address of a product.
pub trait ProductEndpoint: Send + Sync {
    fn accepts(&self, server: &GatewayVersion) -> Accepts;

    /// Whether a refusal names the id of the JSON-RPC request.
    fn is_jsonrpc(&self) -> bool {
        false
    }

    /// Whether the headers show a caller that may send a large body.
    fn admit<'a>(
        &'a self,
        _server: &'a Arc<GatewayVersion>,
        _head: &'a request::Parts,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response>;

    /// The form of a refusal before the body is read, such as for the rate of an address.
    fn refusals(&self) -> RefusalForm {
        RefusalForm::Text
    }
}

/// How an endpoint refuses a request before the body is read.
#[derive(Clone, Copy)]
pub enum RefusalForm {
    /// Plain text.
    Text,
    /// [`ProductEndpoint::answer`] writes it: the body is [`RequestBody::Refused`].
    Answer,
    /// This function writes it, because `answer` does other work first.
    Written(fn(&Fault, &mut RequestLog) -> Response),
}
