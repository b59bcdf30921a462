//! The products in this binary.

use server::product::ProductKind;
use server::products::assistants::AssistantsProduct;
use server::products::market::MarketProduct;
use server::products::shop::ShopProduct;
use server::products::systems::SystemsProduct;

/// In the order in which they are asked who a request at a shared address belongs to.
pub(crate) static PRODUCTS: [&dyn ProductKind; 4] = [&MarketProduct, &SystemsProduct, &ShopProduct, &AssistantsProduct];
