//! The port for payments. A checkout is completed only after its total has been paid.

use model::ports::Future;
use shop_rules::{Buyer, Paid, Session};

use crate::service::Error;

/// Takes payments for checkouts.
pub trait Payments: Send + Sync + 'static {
    /// Takes the total of a checkout. Must be idempotent per checkout: a second call takes no second payment.
    fn take<'a>(&'a self, session: &'a Session, buyer: &'a Buyer) -> Future<'a, Result<Paid, Error>>;

    /// Returns a payment whose sale failed, because the checkout ended in between.
    fn give_back<'a>(&'a self, session: &'a Session, paid: &'a Paid) -> Future<'a, ()> {
        let _ = (session, paid);
        Box::pin(std::future::ready(()))
    }
}

/// Accepts the completion of the checkout page as payment: for demos, and for shops that are paid by other means.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnPage;

impl Payments for OnPage {
    fn take<'a>(&'a self, _: &'a Session, _: &'a Buyer) -> Future<'a, Result<Paid, Error>> {
        Box::pin(std::future::ready(Ok(Paid { method: "page".into(), reference: None })))
    }
}
