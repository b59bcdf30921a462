//! Expiry of carts and checkouts, by the clock and across a restart.

use std::time::Duration;

use shop_rules::{CartStatus, SessionStatus, ShopRules};
use tokio::time::Instant;

use crate::common::{Mall, TestStorage, acme, ada, on_every_store, rule};

async fn until_left(mall: &Mall, wanted: u64) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while mall.left().await != wanted {
        assert!(std::time::Instant::now() < deadline, "the goods never came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkout_that_nobody_completes_gives_its_goods_back_in_time() {
    let rules = ShopRules { cart_ms: 3_600_000, checkout_ms: 600_000 };
    let mall = TestStorage::paused(rules).await;
    let idle = mall.cart().await;
    let begin = Instant::now();
    let begun = mall.begun(4).await.unwrap();
    assert_eq!(mall.left().await, 46);
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(mall.left().await, 46);
    while mall.left().await != 50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(begin.elapsed() < Duration::from_secs(605), "it is over, and the clock has not seen it");
    }
    let session = mall.shop.session(&begun.session.id, &begun.token).await.unwrap();
    assert_eq!(session.status, SessionStatus::Expired);
    let late = mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap_err();
    assert_eq!(rule(late), shop_rules::Error::SessionClosed("expired"));
    // A cart without changes has its own expiry.
    assert_eq!(mall.shop.cart(&acme(), &idle.token).await.unwrap().cart.status, CartStatus::Active);
    tokio::time::sleep(Duration::from_secs(3_010)).await;
    assert_eq!(mall.shop.cart(&acme(), &idle.token).await.unwrap().cart.status, CartStatus::Expired);
    assert_eq!(rule(mall.add(&idle, "sun", 1).await.unwrap_err()), shop_rules::Error::CartExpired);
    mall.adds_up().await;
}

/// The first checkout to begin is not the first to expire.
#[tokio::test(start_paused = true)]
async fn what_expires_earlier_wakes_the_clock_earlier() {
    let mall = TestStorage::paused(ShopRules { cart_ms: 40_000_000, checkout_ms: 20_000 }).await;
    mall.cart().await;
    // The expiry task now sleeps for a minute.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    mall.begun(1).await.unwrap();
    while mall.left().await != 50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(begin.elapsed() < Duration::from_secs(25), "the clock overslept");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkout_that_expires_while_nobody_serves_is_ended_by_the_next() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules { checkout_ms: 300, ..ShopRules::default() }).await;
        let begun = mall.begun(4).await.unwrap();
        storage.kill().await;
        let mall = storage.mall(ShopRules::default()).await;
        until_left(&mall, 50).await;
        let session = mall.shop.session(&begun.session.id, &begun.token).await.unwrap();
        assert_eq!(session.status, SessionStatus::Expired);
        mall.adds_up().await;
        // A checkout that has not expired is not ended.
        let begun = mall.begun(4).await.unwrap();
        storage.kill().await;
        let mall = storage.mall(ShopRules::default()).await;
        mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap();
        assert_eq!(mall.left().await, 46);
        mall.adds_up().await;
    })
    .await;
}
