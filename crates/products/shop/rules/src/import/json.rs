//! Catalogues in JSON.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::rows::{CouponRow, ProductRow};
use super::{Catalogue, Lines, Reader};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<'a> {
    #[serde(borrow, default)]
    products: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    coupons: Vec<&'a RawValue>,
}

/// Serde's message without its position, which is relative to the parsed piece.
fn without_place(error: &serde_json::Error) -> String {
    let says = error.to_string();
    says.rsplit_once(" at line ").map_or(says.clone(), |(says, _)| says.to_owned())
}

impl Reader<'_> {
    pub(super) fn json(&mut self, text: &str) -> Catalogue {
        let whole = if text.trim_start().starts_with('[') {
            serde_json::from_str(text).map(|products| Whole { products, coupons: Vec::new() })
        } else {
            serde_json::from_str::<Whole<'_>>(text)
        };
        let whole = match whole {
            Ok(whole) => whole,
            Err(error) => {
                self.say(error.line().max(1), without_place(&error));
                return Catalogue::default();
            }
        };
        let mut lines = Lines::new(text);
        let mut catalogue = Catalogue::default();
        if let Some(first) = whole.products.get(self.most) {
            self.say_too_many(lines.of(first.get()));
            return catalogue;
        }
        let mut seen = HashSet::new();
        for raw in whole.products {
            let line = lines.of(raw.get());
            match serde_json::from_str::<ProductRow>(raw.get()) {
                Ok(row) => {
                    let named = format!("product {:?}", row.id);
                    match self.product(row) {
                        Ok(counted) if !seen.insert(counted.product.id.clone()) => {
                            let id = counted.product.id;
                            self.say(line, format!("two products have the id {id:?}; give each its own"));
                        }
                        Ok(counted) => catalogue.products.push(counted),
                        Err(refusal) => self.say(line, format!("{named}: {refusal}")),
                    }
                }
                Err(error) => self.say(line + error.line().max(1) - 1, without_place(&error)),
            }
        }
        for raw in whole.coupons {
            let line = lines.of(raw.get());
            match serde_json::from_str::<CouponRow>(raw.get()) {
                Ok(row) => {
                    let named = format!("coupon {:?}", row.code);
                    match self.coupon(row) {
                        Ok(coupon) => catalogue.coupons.push(coupon),
                        Err(refusal) => self.say(line, format!("{named}: {refusal}")),
                    }
                }
                Err(error) => self.say(line + error.line().max(1) - 1, without_place(&error)),
            }
        }
        catalogue
    }
}
