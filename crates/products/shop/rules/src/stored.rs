//! The stored form of the shop's rows: a version byte and the encoding of that version.

use ledger::Row;

use crate::{Cart, Coupon, Order, Product, Session, Site, Workspace};

impl Row for Workspace {
    const NAME: &'static str = "workspace";
}
impl Row for Site {
    const NAME: &'static str = "site";
}
impl Row for Product {
    const NAME: &'static str = "product";
}
impl Row for Coupon {
    const NAME: &'static str = "coupon";
}
impl Row for Cart {
    const NAME: &'static str = "cart";
}
impl Row for Session {
    const NAME: &'static str = "checkout";
}
impl Row for Order {
    const NAME: &'static str = "order";
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
