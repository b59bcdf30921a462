//! Search results.

use shop::service::{Search, SearchPage};
use shop_rules::import::CatalogueFormat;
use shop_rules::{Minor, ShopRules};

use crate::common::{Mall, TestStorage, acme, on_every_store};

async fn found(mall: &Mall, search: &Search) -> SearchPage {
    mall.shop.search(&acme(), search).await.unwrap()
}

fn ids(found: &SearchPage) -> Vec<&str> {
    found.goods.iter().map(|goods| goods.product.id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn products_are_found_by_word_tag_stock_and_price() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let all = found(&mall, &Search::of("*")).await;
        assert_eq!((ids(&all), all.total), (vec!["felt", "pattern", "sun"], Some(3)));
        // Products with the word in their name come first; the pattern has it only in its description.
        let hats = found(&mall, &Search::of("hats")).await;
        assert_eq!((ids(&hats), hats.total), (vec!["felt", "sun", "pattern"], Some(3)));
        assert_eq!(ids(&found(&mall, &Search::of("sun hats")).await), ["sun"]);
        assert!(found(&mall, &Search::of("boots")).await.goods.is_empty());
        assert!(found(&mall, &Search::of("!?")).await.goods.is_empty());
        let tagged = |tag: &str| Search { tag: Some(tag.to_owned()), ..Search::of("*") };
        assert_eq!(ids(&found(&mall, &tagged("Winter")).await), ["felt", "pattern"]);
        assert_eq!(ids(&found(&mall, &Search { tag: Some("winter".into()), ..Search::of("felt") }).await), ["felt"]);
        assert!(found(&mall, &tagged("wint")).await.goods.is_empty());
        let priced = Search { price_min: Some(Minor(1_000)), price_max: Some(Minor(2_000)), ..Search::of("*") };
        assert_eq!(ids(&found(&mall, &priced).await), ["sun"]);
        mall.shop.import(&acme(), CatalogueFormat::Csv, "id,name,price,stock\nsun,Straw cap,19.90,0\n").await.unwrap();
        let here = Search { in_stock: Some(true), ..Search::of("*") };
        let felt = found(&mall, &here).await;
        assert_eq!((ids(&felt), felt.total), (vec!["felt", "pattern"], Some(2)));
        assert_eq!(felt.goods[0].left, [Some(3), Some(0)]);
        assert_eq!(ids(&found(&mall, &Search { in_stock: Some(false), ..Search::of("*") }).await), ["sun"]);
        // Found by its new name, not by the old one.
        assert!(found(&mall, &Search::of("sun")).await.goods.is_empty());
        assert_eq!(ids(&found(&mall, &Search::of("cap")).await), ["sun"]);
    })
    .await;
}

/// Every page, from the first to the last.
async fn pages(mall: &Mall, search: &Search) -> Vec<SearchPage> {
    let mut pages = vec![found(mall, search).await];
    while let Some(cursor) = pages.last().and_then(|page| page.cursor.clone()) {
        pages.push(found(mall, &Search { cursor: Some(cursor), ..search.clone() }).await);
    }
    pages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_is_found_however_late_it_comes() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let is_dear = |n: usize| n == 1_500 || n >= 2_298;
        let row = |n| format!("p{n:04},Cap {n},{},{}\n", if is_dear(n) { 99 } else { 1 }, u8::from(n % 1_100 == 999));
        let rows: String = (0..2_300).map(row).collect();
        mall.shop.import(&acme(), CatalogueFormat::Csv, &format!("id,name,price,stock\n{rows}")).await.unwrap();
        let dear = Search { price_min: Some(Minor(5_000)), ..Search::of("caps") };
        let told = |pages: &[SearchPage]| -> Vec<(Vec<String>, bool)> {
            let told = |page: &SearchPage| (ids(page).into_iter().map(str::to_owned).collect(), page.cursor.is_some());
            pages.iter().map(told).collect()
        };
        let page = |ids: &[&str], goes_on| (ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), goes_on);
        // A thousand products are checked for a page, which may be short or empty and still have a cursor.
        let all = pages(&mall, &dear).await;
        assert_eq!(told(&all), [page(&[], true), page(&["p1500"], true), page(&["p2298", "p2299"], false)]);
        assert!(all.iter().all(|page| page.total.is_none()));
        let one_each = pages(&mall, &Search { limit: 1, ..dear }).await;
        let seen: Vec<&str> = one_each.iter().flat_map(ids).collect();
        assert_eq!(seen, ["p1500", "p2298", "p2299"]);
        assert!(one_each.iter().all(|page| page.goods.len() <= 1 && page.total.is_none()));
        // The thousandth product is checked, the one after it is not.
        let here = Search { in_stock: Some(true), ..Search::of("caps") };
        assert_eq!(
            told(&pages(&mall, &here).await),
            [page(&["p0999"], true), page(&[], true), page(&["p2099"], false)]
        );
        // Products with the word only in their description come last, whatever their ids.
        let both = Search { in_stock: Some(true), ..Search::of("hats") };
        let hats = pages(&mall, &both).await;
        assert_eq!((told(&hats), hats[0].total), (vec![page(&["felt", "sun", "pattern"], false)], Some(3)));
        let both = pages(&mall, &Search { limit: 2, ..both }).await;
        assert_eq!(told(&both), [page(&["felt", "sun"], true), page(&["pattern"], false)]);
        assert!(both.iter().all(|page| page.total.is_none()));
    })
    .await;
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let mall = TestStorage::sqlite().mall(ShopRules::default()).await;
    let rows: String = (0..250).map(|n| format!("p{n:03},Cap {n},{}.00,{}\n", n % 10, n % 2)).collect();
    let imported =
        mall.shop.import(&acme(), CatalogueFormat::Csv, &format!("id,name,price,stock\n{rows}")).await.unwrap();
    assert_eq!((imported.made, mall.shop.product_count(&acme()).await.unwrap()), (250, 253));
    let here = Search { in_stock: Some(true), ..Search::of("caps") };
    let cheap = Search { price_max: Some(Minor(400)), ..Search::of("caps") };
    for (search, count) in [(Search::of("caps"), 250), (here.clone(), 125), (cheap, 125)] {
        let is_plain = search == Search::of("caps");
        for limit in [1, 7, 40, 100] {
            let pages = pages(&mall, &Search { limit, ..search.clone() }).await;
            let seen: Vec<&str> = pages.iter().flat_map(ids).collect();
            assert!(seen.is_sorted() && seen.len() == count, "{limit}: {seen:?}");
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{limit}: {seen:?}");
            // The total is known without conditions; with conditions only if one page has all matches.
            assert!(pages.iter().all(|page| page.total == is_plain.then_some(count as u64)));
            // Without the limit of checked products, every page but the last is full.
            let (last, full) = pages.split_last().unwrap();
            assert!(full.iter().all(|page| page.goods.len() == limit as usize) && last.goods.len() <= limit as usize);
        }
    }
    let few = found(&mall, &Search { price_min: Some(Minor(900)), query: Search::of("cap 18").query, ..here }).await;
    assert_eq!((ids(&few), few.total, &few.cursor), (vec!["p189"], Some(1), &None));
    let bad = Search { cursor: Some("x".into()), ..Search::of("*") };
    assert!(mall.shop.search(&acme(), &bad).await.unwrap_err().to_string().starts_with("cursor is not one"));
}
