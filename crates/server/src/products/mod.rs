//! The products, each behind the port of [`crate::product`].

pub mod market;
pub mod shop;
pub mod systems;
