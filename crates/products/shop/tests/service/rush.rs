//! Many concurrent buyers of the last units: exactly the available number is sold.

use std::sync::Arc;

use shop_rules::ShopRules;
use tokio::sync::Barrier;

use crate::common::{Mall, TestStorage, acme, ada, on_every_store, rule};

const BUYERS: usize = 200;

/// Whether this buyer got a hat.
async fn buys(mall: Mall, gate: Arc<Barrier>) -> bool {
    let cart = mall.cart().await;
    mall.add(&cart, "sun", 1).await.unwrap();
    // All carts are filled before the first checkout.
    gate.wait().await;
    let begun = match mall.shop.checkout(&acme(), &cart.token, None).await {
        Ok(begun) => begun,
        Err(refused) => {
            assert_eq!(rule(refused), shop_rules::Error::OutOfStock { what: "Sun hat".into(), left: 0 });
            return false;
        }
    };
    // Two concurrent completions: one succeeds.
    let complete = || mall.shop.complete(&begun.session.id, &begun.token, &BUYER, None);
    let (one, two) = tokio::join!(complete(), complete());
    let done = [&one, &two].iter().filter(|done| done.is_ok()).count();
    assert_eq!(done, 1, "{one:?} {two:?}");
    true
}

static BUYER: std::sync::LazyLock<shop_rules::Buyer> = std::sync::LazyLock::new(ada);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_who_want_the_last_fifty_fifty_get_one() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        assert_eq!(mall.left().await, 50);
        let gate = Arc::new(Barrier::new(BUYERS));
        let rush: Vec<_> = (0..BUYERS).map(|_| tokio::spawn(buys(mall.clone(), gate.clone()))).collect();
        let mut sold = 0;
        for one in rush {
            sold += u64::from(one.await.unwrap());
        }
        assert_eq!((sold, mall.left().await), (50, 0));
        let report = mall.shop.verify().await.unwrap();
        assert_eq!(report.orders, 50);
        mall.adds_up().await;
    })
    .await;
}
