//! The products, each behind the port of [`crate::product`].

pub mod assistants;
pub mod market;
pub mod shop;
pub mod systems;

use crate::Settings;
use crate::product::ProductService;

/// The products that the settings have, in the order in which they are asked for an address.
pub(crate) fn services(settings: &Settings) -> Vec<Box<dyn ProductService>> {
    let mut services: Vec<Box<dyn ProductService>> = Vec::new();
    if settings.market.is_some() {
        services.push(Box::new(market::MarketService));
    }
    if settings.orloj.is_some() {
        services.push(Box::new(systems::SystemsService));
    }
    if let Some(aly) = &settings.aly {
        services.push(Box::new(shop::ShopService { sells: aly.shop.is_some() }));
    }
    if settings.langgraph.profile.is_some() {
        services.push(Box::new(assistants::AssistantsService));
    }
    services
}
