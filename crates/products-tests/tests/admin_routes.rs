//! The operations of the admin API with those of all products.

use std::collections::HashSet;

use gateway::admin_api::all_routes;
use gateway::product::ProductKind;
use market::MarketProduct;
use shop::ShopProduct;
use systems::SystemsProduct;
use web::routes::{RouteRow as _, overlap};

#[test]
fn no_operation_of_a_product_is_in_the_way_of_another() {
    let all: [&'static dyn ProductKind; 3] = [&MarketProduct, &ShopProduct, &SystemsProduct];
    let rows = all_routes(&all);
    let own = all_routes(&[]).len();
    assert!(rows.len() > own, "the products bring none");
    let paths: HashSet<&str> = rows.iter().map(|row| row.path()).collect();
    for a in &paths {
        for b in paths.iter().filter(|b| *b != a) {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }
    let ids: HashSet<String> = rows.iter().map(|row| row.id()).collect();
    assert_eq!(ids.len(), rows.len(), "two operations have one id");
}
