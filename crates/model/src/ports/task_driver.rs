//! Drives tasks of a product, such as a market or a shop. They have no turns; the product changes them and is called
//! when a task's deadline is due.

use super::Future;
use crate::TaskId;

pub trait TaskDriver: Send + Sync + 'static {
    /// A task's deadline is due. The call repeats at intervals until the product has moved or cleared the deadline, so
    /// that a crash of this process loses nothing.
    fn due(&self, task: TaskId) -> Future<'_, ()>;
}
