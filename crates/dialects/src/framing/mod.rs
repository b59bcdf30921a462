//! Framing shared by the dialects, below their shapes: JSON, the JSON-RPC envelope, SSE frames, query strings.
//!
//! Members of tasks and messages are not defined here.

pub mod blob;
pub(crate) mod fields;
pub mod json;
pub mod jsonrpc;
pub mod near;
pub mod query;
pub(crate) mod route;
pub mod scan;
pub(crate) mod shape;
pub mod sse;
mod stamp;

pub use shape::shortened;
