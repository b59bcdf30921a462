//! The agent's card in its clean 1.0 form. The writer is shared by all generations: see [`crate::card`].

use bytes::Bytes;

pub use crate::card::{Binding, CardAuth, CardFacts, Interface, Provider};

/// The card's bytes. Equal facts give equal bytes, so that an ETag can be made of them.
pub fn card(facts: &CardFacts<'_>) -> Bytes {
    crate::card::clean(facts)
}
