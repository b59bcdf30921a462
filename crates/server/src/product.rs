//! The port for products: what a product adds to the server. The binary lists the products it has.

use std::sync::Arc;

use bytes::Bytes;
use engine::Engine;
use futures_util::future::BoxFuture;
use http::request;
use hyper::body::Incoming;
use model::ports::till::Books;
use model::{AccessKey, Fault};
use web::body::Response;

use crate::admin::AdminCommand;
use crate::front::RequestLog;
use crate::{Server, service};

/// A product, before it is configured.
pub trait ProductKind: Sync {
    /// For logs and build features. Config keys and stored names are constants of their own.
    fn name(&self) -> &'static str;

    /// The commands it has at the admin socket.
    fn admin(&self) -> &'static [AdminCommand] {
        &[]
    }

    /// Settles what turns cost. It is needed wherever tasks end, also without a config for the product. One product has it.
    fn settlement(&self) -> Option<Arc<dyn Books>> {
        None
    }

    /// An operator's key was revoked: the product ends what was made with it.
    fn key_revoked<'a>(&self, _engine: &'a Engine, _key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The settlement of these products, if one of them has one.
pub fn settlement(products: &[&'static dyn ProductKind]) -> Option<Arc<dyn Books>> {
    let mut found = products.iter().filter_map(|product| product.settlement());
    let first = found.next();
    debug_assert!(found.next().is_none(), "two products settle turns");
    first
}

/// A product that is configured, in one version of the server.
pub(crate) trait ProductService: Send + Sync {
    /// Finds the product's endpoint for a path.
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a>;

    /// Finds the endpoint for an agent's address whose name no agent has.
    fn unknown_agent<'a>(&'a self, _name: &'a str) -> Option<Box<dyn ProductEndpoint + 'a>> {
        None
    }

    /// Answers a request for an agent's card with another card. `is_origin` tells that it is the card of the origin.
    fn card<'a>(&'a self, _request: CardRequest<'a>) -> Option<BoxFuture<'a, Option<Response>>> {
        None
    }

    /// Whether the headers show one of the product's own callers. Such a caller may send a large body to an address that
    /// agents and products share.
    fn knows_caller<'a>(&'a self, _server: &'a Arc<Server>, _head: &'a request::Parts) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// A request for an agent's card.
pub(crate) struct CardRequest<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) head: &'a request::Parts,
    pub(crate) is_origin: bool,
    pub(crate) log: &'a mut RequestLog,
}

/// The meaning of a path to a product.
pub(crate) enum ProductRoute<'a> {
    /// The path belongs to the product.
    Found(Box<dyn ProductEndpoint + 'a>),
    /// The path is below an address of the product, and nothing is there.
    Nothing,
    /// The path is not the product's.
    NotMine,
}

impl<'a> ProductRoute<'a> {
    /// The endpoint, or a path that is not the product's.
    pub(crate) fn of(endpoint: Option<impl ProductEndpoint + 'a>) -> ProductRoute<'a> {
        endpoint.map_or(ProductRoute::NotMine, |endpoint| ProductRoute::Found(Box::new(endpoint)))
    }
}

/// The requests that an endpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
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
pub(crate) enum RequestBody {
    Read(Bytes),
    /// Too large, too slow, of another media type, or refused for another reason.
    Refused(Fault),
    /// Not read yet ([`Accepts::Stream`]).
    Stream(Incoming),
}

impl RequestBody {
    pub(crate) fn of(read: Result<Bytes, Fault>) -> RequestBody {
        read.map_or_else(RequestBody::Refused, RequestBody::Read)
    }

    /// The body that was read; none of it for an endpoint that reads by itself.
    pub(crate) fn into_bytes(self) -> Result<Bytes, Fault> {
        match self {
            RequestBody::Read(bytes) => Ok(bytes),
            RequestBody::Refused(fault) => Err(fault),
            RequestBody::Stream(_) => Ok(Bytes::new()),
        }
    }
}

/// A request for an endpoint.
pub(crate) struct EndpointRequest<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) head: &'a request::Parts,
    pub(crate) body: RequestBody,
    pub(crate) log: &'a mut RequestLog,
}

/// One address of a product.
pub(crate) trait ProductEndpoint: Send + Sync {
    fn accepts(&self, server: &Server) -> Accepts;

    /// Whether a refusal names the id of the JSON-RPC request.
    fn is_jsonrpc(&self) -> bool {
        false
    }

    /// Whether the headers show a caller that may send a large body.
    fn admit<'a>(&'a self, _server: &'a Arc<Server>, _head: &'a request::Parts) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response>;

    /// Answers a request that is refused before its body is read, such as for the rate of its address.
    fn turn_away<'a>(
        &'a self,
        _server: &'a Arc<Server>,
        _head: &'a request::Parts,
        fault: Fault,
        _log: &'a mut RequestLog,
    ) -> BoxFuture<'a, Response> {
        Box::pin(async move { service::refused_as_text(&fault) })
    }
}
