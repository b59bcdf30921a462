//! Where the engine meets the world: the store it commits to and the agents it runs. Implementations live in the crates
//! `stores` and `agents`; only the binary names them.

pub mod agent;
pub mod store;

/// A future behind a port.
pub type Future<'a, T> = futures_util::future::BoxFuture<'a, T>;
