//! The cost of a page of a search with and without conditions on stock and price, on this machine: SQLite in a temporary
//! folder, and PostgreSQL with the argument `postgres`: `cargo run --release -p rialto-retail --example shop_search`.
//!
//! Settings: `RIALTO_PRODUCTS` (20000), `RIALTO_SEARCHES` (300).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use engine::Engine;
use model::ports::store::Store;
use retail::{Config, LOOKED_AT, Search, Shop};
use shop::import::Format;
use shop::{Currency, Minor, Site, Slug};
use stores::{postgres, sqlite};

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every other one is in stock, and every five hundredth is dear.
fn catalogue(products: usize) -> String {
    let mut text = "id,name,price,stock,description\n".to_owned();
    for n in 0..products {
        let price = if n % 500 == 499 { 99 } else { 5 };
        writeln!(text, "p{n:06},Hat no {n},{price}.00,{},a thing of wool and straw", n % 2).unwrap();
    }
    text
}

async fn measure(shop: &Shop, site: &Slug, what: &str, search: &Search, fit: usize, searches: usize) {
    let mut times = Vec::with_capacity(searches);
    for _ in 0..searches {
        let begin = Instant::now();
        let found = shop.search(site, search).await.unwrap();
        times.push(begin.elapsed());
        assert_eq!((found.goods.len(), found.cursor.is_some()), (fit, true));
    }
    times.sort_unstable();
    println!("{what}: {:?}, 99 in a hundred within {:?}", times[searches / 2], times[searches * 99 / 100]);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (products, searches) = (setting("RIALTO_PRODUCTS", 20_000), setting("RIALTO_SEARCHES", 300));
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = if std::env::args().nth(1).as_deref() == Some("postgres") {
        let url = cluster::Cluster::shared().database().url();
        Arc::new(postgres::PostgresStore::open(postgres::Options::new(url)).await.unwrap())
    } else {
        Arc::new(sqlite::SqliteStore::open(sqlite::Options::new(folder.path())).unwrap())
    };
    let engine = Engine::builder(store.clone()).start().await.unwrap();
    let shop = Shop::start(engine, Config::default(), false).await.unwrap();
    let slug: Slug = "acme".into();
    let site = Site::new(slug.clone(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), shop.now());
    shop.put_site(&site).await.unwrap();
    let begin = Instant::now();
    shop.import(&slug, Format::Csv, &catalogue(products)).await.unwrap();
    println!("{products} products imported in {:.1} s", begin.elapsed().as_secs_f64());
    let plain = Search::of("hats");
    let here = Search { in_stock: Some(true), ..plain.clone() };
    let dear = Search { price_min: Some(Minor(5_000)), ..plain.clone() };
    let costly = Search { price_min: Some(Minor(50_000)), ..plain.clone() };
    for _ in 0..2 {
        measure(&shop, &slug, "20 of all, counted", &plain, 20, searches).await;
        measure(&shop, &slug, "20 in stock, every other one", &here, 20, searches).await;
        measure(&shop, &slug, &format!("2 dear ones of {LOOKED_AT}"), &dear, 2, searches).await;
        measure(&shop, &slug, &format!("none of {LOOKED_AT}"), &costly, 0, searches).await;
    }
    store.close().await;
}
