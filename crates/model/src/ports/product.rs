//! A product that keeps tasks of its own: a market, a shop. No turn drives them; the product moves them, and is told when
//! the time it set for one has come.

use super::Future;
use crate::TaskId;

pub trait Product: Send + Sync + 'static {
    /// A task's deadline is due. It is told again after a while, until the product has moved the deadline or cleared it, so
    /// that nothing is lost when this process dies half way.
    fn due(&self, task: TaskId) -> Future<'_, ()>;
}
