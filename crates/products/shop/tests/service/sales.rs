//! From a cart to an order, and the shop's actions on it.

use shop::service::{Bought, CartChange, Error, Once, ShopEntity};
use shop_rules::import::CatalogueFormat;
use shop_rules::{ConfirmationToken, OrderAct, OrderState, SessionStatus, ShopRules};

use crate::common::{TestStorage, acme, ada, caller, on_every_store, rule};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_becomes_an_order_that_its_token_shows() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let begun = mall.begun(2).await.unwrap();
        let (id, token) = (&begun.session.id, &begun.token);
        assert_eq!(begun.complete_url, format!("https://rialto.example/checkout/{id}?token={}", token.as_str()));
        assert_eq!((mall.left().await, begun.session.totals.total.0), (48, 4_470));
        assert!(matches!(mall.shop.order(token).await.unwrap(), Bought::NotYet(_)));
        mall.adds_up().await;

        let wrong = ConfirmationToken::draw([7; 20]);
        let unknown = mall.shop.complete(id, &wrong, &ada(), None).await.unwrap_err();
        assert!(matches!(unknown, Error::Unknown(ShopEntity::Session)));
        assert!(matches!(mall.shop.order(&wrong).await.unwrap_err(), Error::Unknown(ShopEntity::Order)));
        let order = mall.shop.complete(id, token, &ada(), None).await.unwrap();
        assert_eq!((order.state, order.totals.total.0), (OrderState::Pending, 4_470));
        // A token completes a checkout once.
        assert_eq!(rule(mall.shop.complete(id, token, &ada(), None).await.unwrap_err()), shop_rules::Error::TokenUsed);
        assert_eq!(rule(mall.shop.cancel_checkout(id, token).await.unwrap_err()), shop_rules::Error::TokenUsed);
        let Bought::Order { order: shown, products } = mall.shop.order(token).await.unwrap() else { panic!() };
        assert_eq!((&*shown, products.len()), (&order, 1));
        mall.adds_up().await;

        let me = caller(&[]);
        let sent = OrderAct::Fulfil { lines: vec![(0, 1)], tracking: Some("T1".into()) };
        let order = mall.shop.act_on_order(&me, &order.id, &sent).await.unwrap();
        assert_eq!(order.state, OrderState::PartiallyFulfilled);
        let stranger = shop::service::WorkspaceCaller { workspace: "ws_2".into(), ..me.clone() };
        let refused = mall.shop.act_on_order(&stranger, &order.id, &OrderAct::Refund).await.unwrap_err();
        assert!(matches!(refused, Error::Unknown(ShopEntity::Order)));
        let order = mall.shop.act_on_order(&me, &order.id, &OrderAct::Return).await.unwrap();
        assert_eq!((order.state, mall.left().await), (OrderState::Returned, 50));
        let again = mall.shop.act_on_order(&me, &order.id, &OrderAct::Refund).await.unwrap_err();
        assert!(matches!(rule(again), shop_rules::Error::OrderState { .. }));
        assert_eq!(mall.shop.orders(&me, &acme(), None, 10).await.unwrap(), [order]);
        mall.adds_up().await;
    })
    .await;
}

/// Two fulfilments with one idempotency key count once, also when they are concurrent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parcel_that_is_told_of_twice_was_sent_once() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let begun = mall.begun(5).await.unwrap();
        let order = mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap();
        let me = caller(&[]);
        let send = async |quantity: u32, key: &str| {
            let once = Once { key: key.to_owned(), print: [quantity as u8; 32] };
            let act = OrderAct::Fulfil { lines: vec![(0, quantity)], tracking: None };
            mall.shop.act_on_order_once(&me, &order.id, &act, Some(once)).await
        };
        let all = futures_util::future::join_all((0..8).map(|_| send(1, "parcel-1"))).await;
        assert!(all.into_iter().all(|order| order.unwrap().lines[0].sent == 1));
        assert!(matches!(send(2, "parcel-1").await.unwrap_err(), Error::KeyReused));
        assert_eq!(send(2, "parcel-2").await.unwrap().lines[0].sent, 3);
        // A refused request does not use its key up.
        assert_eq!(rule(send(3, "parcel-3").await.unwrap_err()), shop_rules::Error::MoreThanOrdered);
        assert_eq!(send(2, "parcel-3").await.unwrap().state, OrderState::Fulfilled);
        mall.adds_up().await;
    })
    .await;
}

#[tokio::test]
async fn a_checkout_that_is_cancelled_gives_everything_back() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let cart = mall.cart().await;
    mall.add(&cart, "sun", 5).await.unwrap();
    let coupon = CartChange::Coupon { code: "ONCE".into() };
    mall.shop.change_cart(&acme(), &cart.token, &coupon, None).await.unwrap();
    let begun = mall.shop.checkout(&acme(), &cart.token, None).await.unwrap();
    assert_eq!(rule(mall.add(&cart, "sun", 1).await.unwrap_err()), shop_rules::Error::CartInCheckout);
    assert_eq!(mall.left().await, 45);
    // The only use of the coupon is reserved, too.
    let second = mall.cart().await;
    mall.add(&second, "sun", 1).await.unwrap();
    mall.shop.change_cart(&acme(), &second.token, &coupon, None).await.unwrap();
    let late = mall.shop.checkout(&acme(), &second.token, None).await.unwrap_err();
    assert_eq!(rule(late), shop_rules::Error::CouponUsedUp("ONCE".into()));
    mall.adds_up().await;

    let session = mall.shop.cancel_checkout(&begun.session.id, &begun.token).await.unwrap();
    assert_eq!((session.status, mall.left().await), (SessionStatus::Cancelled, 50));
    let closed = mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap_err();
    assert!(matches!(rule(closed), shop_rules::Error::SessionClosed("cancelled")));
    // The cart can be checked out again, with another confirmation token.
    mall.add(&cart, "sun", 1).await.unwrap();
    let again = mall.shop.checkout(&acme(), &cart.token, None).await.unwrap();
    assert_ne!(again.token, begun.token);
    let order = mall.shop.complete(&again.session.id, &again.token, &ada(), None).await.unwrap();
    assert_eq!((order.lines[0].item.quantity, order.totals.discount.0), (6, 100));
    mall.adds_up().await;
}

#[tokio::test]
async fn what_is_fetched_is_there_at_once_and_sends_nothing() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let cart = mall.cart().await;
    mall.add(&cart, "pattern", 1).await.unwrap();
    let begun = mall.shop.checkout(&acme(), &cart.token, None).await.unwrap();
    assert_eq!((begun.session.totals.shipping.0, begun.session.totals.total.0), (0, 500));
    let nobody = shop_rules::Buyer { email: "nobody".into(), ..ada() };
    let refused = mall.shop.complete(&begun.session.id, &begun.token, &nobody, None).await.unwrap_err();
    assert!(matches!(rule(refused), shop_rules::Error::Field { field: "email", .. }));
    let order = mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap();
    assert_eq!(order.state, OrderState::Fulfilled);
    let Bought::Order { order, products } = mall.shop.order(&begun.token).await.unwrap() else { panic!() };
    let shown = shop_rules::view::order(&order, &products);
    assert_eq!(shown["downloads"][0]["url"], "https://files.example/pattern.pdf");
    mall.adds_up().await;
}

/// A changed price counts from the next checkout on; a cart with a removed product cannot be checked out.
#[tokio::test]
async fn a_checkout_looks_at_every_price_again() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let cart = mall.cart().await;
    mall.add(&cart, "sun", 1).await.unwrap();
    let dearer = "id,name,price,stock\nsun,Sun hat,25,7\n";
    let imported = mall.shop.import(&acme(), CatalogueFormat::Csv, dearer).await.unwrap();
    assert_eq!((imported.made, imported.changed, mall.left().await), (0, 1, 7));
    let begun = mall.shop.checkout(&acme(), &cart.token, None).await.unwrap();
    assert_eq!((begun.session.totals.subtotal.0, mall.left().await), (2_500, 6));
    // An import sets the available stock anew; reserved stock stays reserved.
    mall.shop.import(&acme(), CatalogueFormat::Csv, "id,name,price,stock\nsun,Sun hat,25,2\n").await.unwrap();
    assert_eq!(mall.left().await, 2);
    mall.adds_up().await;
    let other = mall.cart().await;
    mall.add(&other, "sun", 1).await.unwrap();
    mall.shop.remove_product(&acme(), &"sun".into()).await.unwrap();
    let gone = mall.shop.checkout(&acme(), &other.token, None).await.unwrap_err();
    assert_eq!(rule(gone), shop_rules::Error::Gone("Sun hat".into()));
    mall.shop.complete(&begun.session.id, &begun.token, &ada(), None).await.unwrap();
    mall.adds_up().await;
    let wrong = mall.shop.import(&acme(), CatalogueFormat::Csv, "id,name,price\nx,X,free\n").await.unwrap_err();
    assert_eq!(wrong.to_string(), "line 2: product \"x\": price must be a decimal number such as \"19.90\"");
}
