//! HTTP kit of the gateway and its products: everything about HTTP that needs no engine.
//!
//! * [`response`], [`body`], [`html`], [`file_response`]: responses
//! * [`routes`], [`openapi`]: a table of routes, and parts of its document
//! * [`fault_codes`]: statuses and code words of faults
//! * [`sse`]: event streams
//! * [`context`], [`headers`], [`credentials`]: readers of requests
//! * [`client_address`], [`cors`], [`limiter`], [`concurrency`]: where a request comes from, and how many there may be
//! * [`request_log`]: the log, and the facts of one request for it
//! * [`outbound`]: connections to addresses that callers choose

pub mod body;
pub mod client_address;
pub mod concurrency;
pub mod context;
pub mod cors;
pub mod credentials;
pub mod fault_codes;
pub mod file_response;
pub mod headers;
pub mod html;
pub mod limiter;
pub mod openapi;
pub mod outbound;
pub mod request_log;
pub mod response;
pub mod routes;
pub mod sse;
