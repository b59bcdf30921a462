//! The products in this binary. Each is a feature of the build.

use gateway::product::ProductKind;

/// In the order in which they are asked: the market claims requests at shared addresses before systems do; systems see the
/// agents before them, so never the store agent; a shop's card by host comes before an assistant's by query.
pub(crate) static PRODUCTS: &[&dyn ProductKind] = &[
    #[cfg(feature = "market")]
    &market::MarketProduct,
    #[cfg(feature = "systems")]
    &systems::SystemsProduct,
    #[cfg(feature = "shop")]
    &shop::ShopProduct,
    #[cfg(feature = "assistants")]
    &assistants::AssistantsProduct,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    #[cfg(all(feature = "market", feature = "systems", feature = "shop", feature = "assistants"))]
    fn the_order_of_products_is_fixed() {
        let names: Vec<&str> = PRODUCTS.iter().map(|product| product.name()).collect();
        assert_eq!(names, ["market", "systems", "shop", "assistants"]);
    }

    #[test]
    fn forms_of_products_have_slots_and_names_of_their_own() {
        let (mut slots, mut names) = (BTreeSet::new(), BTreeSet::new());
        let of_products =
            PRODUCTS.iter().flat_map(|product| product.wires()).map(|wire| *wire as &dyn dialects::wire::Codec);
        for wire in dialects::codecs().chain(of_products) {
            let of_wire: BTreeSet<u16> = [wire.slot(false), wire.slot(true)].into();
            assert!(of_wire.iter().all(|slot| slots.insert(*slot)), "{}", wire.name());
            assert!(names.insert(wire.name()), "{}", wire.name());
        }
    }
}
