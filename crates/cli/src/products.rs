//! The products in this binary.

use assistants::AssistantsProduct;
use gateway::product::ProductKind;
use market::MarketProduct;
use shop::ShopProduct;
use systems::SystemsProduct;

/// Asked in this order for an admin command.
pub(crate) static PRODUCTS: [&dyn ProductKind; 4] = [&MarketProduct, &SystemsProduct, &ShopProduct, &AssistantsProduct];
