//! Payments. A holder of the confirmation token completes a checkout once its total has been paid.

use model::ports::Future;
use shop_rules::{Buyer, Paid, Session};

use crate::service::Error;

/// A way to pay.
pub trait Payments: Send + Sync + 'static {
    /// Takes what the checkout comes to, or says why not. Called again for the same checkout it must not take it twice.
    fn take<'a>(&'a self, session: &'a Session, buyer: &'a Buyer) -> Future<'a, Result<Paid, Error>>;

    /// The sale did not happen after all: the checkout had ended in between.
    fn give_back<'a>(&'a self, session: &'a Session, paid: &'a Paid) -> Future<'a, ()> {
        let _ = (session, paid);
        Box::pin(std::future::ready(()))
    }
}

/// The completion of the page counts as payment: for demos, and for shops that are paid otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnPage;

impl Payments for OnPage {
    fn take<'a>(&'a self, _: &'a Session, _: &'a Buyer) -> Future<'a, Result<Paid, Error>> {
        Box::pin(std::future::ready(Ok(Paid { method: "page".into(), reference: None })))
    }
}
