//! The engine's ports: the store, the agents, webhook delivery, the queue from which workers lease turns, child tasks,
//! secrets. Only the binary names the implementations.

pub mod agent;
pub mod billing;
pub mod children;
pub mod sealer;
pub mod store;
pub mod task_driver;
pub mod webhook;
pub mod worker;

/// The boxed future that ports return.
pub type Future<'a, T> = futures_util::future::BoxFuture<'a, T>;
