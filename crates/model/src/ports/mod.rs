//! Where the engine meets the world: the store it commits to, the agents it runs, the courier that
//! brings webhooks, the desk at which workers fetch turns, the tasks that a turn opens, the till at which it is paid for;
//! the storekeeper whom a front asks what a message needs; and the sealer of the server's own secrets.
//! Implementations live in the crates `stores`, `agents`, `server` and `trade`; only the binary names them.

pub mod agent;
pub mod children;
pub mod courier;
pub mod product;
pub mod sealer;
pub mod store;
pub mod storekeeper;
pub mod till;
pub mod worker;

/// A future behind a port.
pub type Future<'a, T> = futures_util::future::BoxFuture<'a, T>;
