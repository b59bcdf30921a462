//! Carts, as a holder of their token sees them.

use shop::service::{CartChange, Error, Once, ShopEntity};
use shop_rules::{CartStatus, CartToken, Currency, ShopRules, Site, VariantChoice};

use crate::common::{TestStorage, acme, caller, on_every_store, rule};

fn once(key: &str) -> Option<Once> {
    Some(Once { key: key.to_owned(), print: [1; 32] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_holds_what_is_put_in_and_says_what_it_comes_to() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let cart = mall.cart().await;
        assert_eq!((cart.cart.status, cart.cart.items.len()), (CartStatus::Active, 0));
        let held = mall.add(&cart, "sun", 2).await.unwrap();
        assert_eq!((held.totals.subtotal.0, held.totals.shipping.0, held.totals.total.0), (3_980, 490, 4_470));
        // The size is missing.
        assert!(matches!(rule(mall.add(&cart, "felt", 1).await.unwrap_err()), shop_rules::Error::WhichVariant { .. }));
        let small = VariantChoice { id: None, options: vec![("size".into(), "s".into())] };
        let add = |which: &VariantChoice, quantity| CartChange::Add {
            product: "felt".into(),
            which: which.clone(),
            quantity,
        };
        let change = async |change: &CartChange| mall.shop.change_cart(&acme(), &cart.token, change, None).await;
        assert_eq!(change(&add(&small, 3)).await.unwrap().cart.items.len(), 2);
        assert_eq!(
            rule(change(&add(&small, 1)).await.unwrap_err()),
            shop_rules::Error::OutOfStock { what: "Felt hat".into(), left: 3 }
        );
        let held = change(&CartChange::Coupon { code: "ten".into() }).await.unwrap();
        // 39.80 and 90.00, free of shipping, less a tenth.
        assert_eq!((held.totals.discount.0, held.totals.total.0), (1_298, 11_682));
        assert!(matches!(
            rule(change(&CartChange::Coupon { code: "no".into() }).await.unwrap_err()),
            shop_rules::Error::NoCoupon(_)
        ));
        let update = CartChange::Update { product: "sun".into(), variant: None, quantity: 51 };
        assert_eq!(
            rule(change(&update).await.unwrap_err()),
            shop_rules::Error::OutOfStock { what: "Sun hat".into(), left: 50 }
        );
        let gone = CartChange::Remove { product: "sun".into(), variant: None };
        assert_eq!(change(&gone).await.unwrap().cart.items.len(), 1);
        assert_eq!(rule(change(&gone).await.unwrap_err()), shop_rules::Error::NotInCart);
        assert_eq!(change(&CartChange::Clear).await.unwrap().totals.total.0, 0);
        assert_eq!(change(&CartChange::Cancel).await.unwrap().cart.status, CartStatus::Cancelled);
        assert!(matches!(rule(change(&CartChange::Clear).await.unwrap_err()), shop_rules::Error::CartClosed(_)));
        mall.adds_up().await;
    })
    .await;
}

#[tokio::test]
async fn a_cart_is_its_sites_and_nobody_elses() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let other = Site::new("other".into(), "ws_2".into(), "Other", Currency::check("USD").unwrap(), mall.shop.now());
    mall.shop.put_site(&other).await.unwrap();
    let cart = mall.cart().await;
    let unknown = |refused| matches!(refused, Error::Unknown(ShopEntity::Cart));
    assert!(unknown(mall.shop.cart(&"other".into(), &cart.token).await.unwrap_err()));
    assert!(unknown(mall.shop.cart(&acme(), &CartToken::draw([9; 20])).await.unwrap_err()));
    let foreign = mall.shop.create_cart(Some(&caller(&[])), &"other".into(), None).await.unwrap_err();
    assert!(matches!(foreign, Error::Workspace));
    assert!(matches!(mall.shop.site(&"no".into()).await.unwrap_err(), Error::Unknown(ShopEntity::Site)));
    assert_eq!(mall.shop.site_of_host("HATS.example").await.unwrap().unwrap().slug, acme());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_twice_is_one() {
    on_every_store(async |mut storage: TestStorage| {
        let mall = storage.mall(ShopRules::default()).await;
        let (me, acme) = (caller(&[]), acme());
        let (one, two) = tokio::join!(
            mall.shop.create_cart(Some(&me), &acme, once("k")),
            mall.shop.create_cart(Some(&me), &acme, once("k"))
        );
        let cart = one.unwrap();
        assert_eq!(cart.token, two.unwrap().token);
        let other = mall.shop.create_cart(Some(&me), &acme, Some(Once { key: "k".into(), print: [2; 32] })).await;
        assert!(matches!(other.unwrap_err(), Error::KeyReused));
        // The same key of callers without a credential is not the same request.
        let one = mall.shop.create_cart(None, &acme, once("k")).await.unwrap();
        assert_ne!(one.token, mall.shop.create_cart(None, &acme, once("k")).await.unwrap().token);

        let add = CartChange::Add { product: "sun".into(), which: VariantChoice::default(), quantity: 2 };
        let (one, two) = tokio::join!(
            mall.shop.change_cart(&acme, &cart.token, &add, once("a")),
            mall.shop.change_cart(&acme, &cart.token, &add, once("a"))
        );
        assert_eq!((one.unwrap().cart.items[0].quantity, two.unwrap().cart.items[0].quantity), (2, 2));
        let (one, two) = tokio::join!(
            mall.shop.checkout(&acme, &cart.token, once("c")),
            mall.shop.checkout(&acme, &cart.token, once("c"))
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((&one.token, &one.session.id), (&two.token, &two.session.id));
        assert_eq!(mall.left().await, 48);
        let buyer = crate::common::ada();
        let complete = || mall.shop.complete(&one.session.id, &one.token, &buyer, once("p"));
        let (first, again) = tokio::join!(complete(), complete());
        assert_eq!(first.unwrap().id, again.unwrap().id);
        assert_eq!(complete().await.unwrap().id, one.session.order_id());
        mall.adds_up().await;
    })
    .await;
}
