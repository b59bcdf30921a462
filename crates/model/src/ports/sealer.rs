//! Encrypts the server's own secrets at rest. A product draws a secret and stores it as a record; the engine seals it
//! before writing and opens it after reading.

use crate::Fault;

pub trait Sealer: Send + Sync + 'static {
    /// Encrypts a secret; only [`Sealer::open`] with the same `about` can read it.
    fn seal_secret(&self, about: &str, secret: &[u8]) -> Result<Vec<u8>, Fault>;

    fn open_secret(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, Fault>;

    /// Whether its key was newly created, so that it cannot open anything sealed before.
    fn is_new(&self) -> bool;
}
