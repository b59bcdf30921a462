//! The sealer port: keeps the server's own secrets unreadable at rest. Products draw a secret and keep it as a record; the
//! engine has it sealed on its way into the store and opened on its way out.

use crate::Fault;

pub trait Sealer: Send + Sync + 'static {
    /// Makes a secret unreadable for everything but [`Sealer::open`] with the same `about`.
    fn seal_secret(&self, about: &str, secret: &[u8]) -> Result<Vec<u8>, Fault>;

    fn open_secret(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, Fault>;

    /// Whether its key was made just now, so that it can open nothing that was sealed before.
    fn is_new(&self) -> bool;
}
