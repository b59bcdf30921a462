//! The products in this binary.

use server::product::ProductKind;
use server::products::assistants::AssistantsProduct;
use server::products::market::MarketProduct;
use server::products::shop::ShopProduct;
use server::products::systems::SystemsProduct;

/// Order matters: at a shared address the first product that claims a request gets it.
pub(crate) static PRODUCTS: [&dyn ProductKind; 4] = [&MarketProduct, &SystemsProduct, &ShopProduct, &AssistantsProduct];
