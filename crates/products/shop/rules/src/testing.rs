//! Sample data of this crate's tests.

use model::Time;

use crate::{Currency, Minor, Product, Site, Variant};

pub(crate) const NOW: Time = Time(1_775_721_600_000);

pub(crate) fn acme() -> Site {
    Site::new("acme".into(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), NOW)
}

pub(crate) fn hat() -> Product {
    Product {
        site: "acme".into(),
        id: "hat".into(),
        name: "Sun hat".into(),
        slug: "sun-hat".into(),
        subtitle: "wide".into(),
        description: "Keeps the sun away".into(),
        price: Minor(1_990),
        media: Vec::new(),
        variants: vec![Variant::only(true)],
        tags: vec!["summer".into()],
        digital: false,
        downloads: Vec::new(),
        created_at: NOW,
        updated_at: NOW,
    }
}

pub(crate) fn two_hats() -> Product {
    let of = |id: &str, size: &str| Variant {
        id: id.into(),
        options: vec![("Size".into(), size.into())],
        ..Variant::only(true)
    };
    Product { id: "felt".into(), name: "Felt hat".into(), variants: vec![of("s", "S"), of("l", "L")], ..hat() }
}
