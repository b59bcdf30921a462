//! The products in this binary.

use server::product::ProductKind;
use server::products::assistants::AssistantsProduct;
use server::products::market::MarketProduct;
use server::products::shop::ShopProduct;
use server::products::systems::SystemsProduct;

/// Asked in this order for an admin command.
pub(crate) static PRODUCTS: [&dyn ProductKind; 4] = [&MarketProduct, &SystemsProduct, &ShopProduct, &AssistantsProduct];
