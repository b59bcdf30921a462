//! The six skills, by structured part and by text.

use model::{Json, Part};
use serde_json::{Value, json};
use shop::service::{Error, Once, Shop, WorkspaceCaller};
use shop_rules::reply::{NO_CART, NO_ORDER};
use shop_rules::{Ending, ShopRules, SkillReply};

use crate::common::{Mall, TestStorage, ada, caller};

async fn run(mall: &Mall, parts: &[Part], caller: Option<&WorkspaceCaller>) -> Result<SkillReply, Error> {
    let request = Shop::admit(caller, parts)?;
    mall.shop.run_skill(caller, &request, None).await
}

async fn data(mall: &Mall, value: Value) -> SkillReply {
    let part = Part::data(Json::from_value(&value));
    run(mall, &[part], Some(&caller(&["write:orders"]))).await.unwrap()
}

async fn text(mall: &Mall, text: &str) -> SkillReply {
    run(mall, &[Part::text(text)], Some(&caller(&["write:orders"]))).await.unwrap()
}

fn shown<'a>(outcome: &'a SkillReply, name: &str) -> &'a Value {
    let artifact = outcome.artifact.as_ref().unwrap_or_else(|| panic!("{outcome:?}"));
    assert_eq!(artifact.name, name);
    &artifact.data
}

#[tokio::test]
async fn anybody_may_search_and_ask_about_a_store() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let found = run(&mall, &[Part::text("Search for hats on store acme.")], None).await.unwrap();
    assert_eq!(found.ending, Ending::Completed);
    let results = shown(&found, "search_results");
    assert_eq!((&results["total"], &results["store"]["title"]), (&json!(3), &json!("Acme")));
    let sun = &results["products"][1];
    assert_eq!(sun["price"], json!({"amount": 1990, "currency": "USD"}));
    assert_eq!((&sun["variants"][0]["stock"], &sun["variants"][0]["in_stock"]), (&json!(50), &json!(true)));
    assert_eq!(found.metadata(), json!({"skill": "product-search", "site_slug": "acme"}));
    assert_eq!(
        found.text,
        "Acme has 3 products for \"hats\": Felt hat (30.00 USD), Sun hat (19.90 USD), Knitting pattern (5.00 USD)."
    );

    let info = run(&mall, &[Part::text("Tell me about store acme")], None).await.unwrap();
    assert_eq!(
        (&info.text, &shown(&info, "store_info")["product_count"]),
        (&"Acme sells 3 products.".into(), &json!(3))
    );
    let nowhere = run(&mall, &[Part::text("search hats on store nowhere")], None).await.unwrap();
    assert_eq!((nowhere.ending, nowhere.text.contains("nowhere")), (Ending::Failed, true));
    let vague = run(&mall, &[Part::text("search for hats")], None).await.unwrap();
    assert_eq!((vague.ending, &vague.missing[..]), (Ending::InputRequired, &["site_slug"][..]));
    let lost = run(&mall, &[Part::text("good morning")], None).await.unwrap();
    assert_eq!((lost.ending, &lost.missing[..]), (Ending::InputRequired, &["skill"][..]));
}

#[tokio::test]
async fn carts_and_checkouts_need_a_credential_that_is_good_for_them() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let create =
        [Part::data(Json::from_value(&json!({"skill": "cart-management", "action": "create", "site_slug": "acme"})))];
    assert!(matches!(run(&mall, &create, None).await.unwrap_err(), Error::Unauthenticated("write:orders")));
    let reader = caller(&["read:orders"]);
    assert!(matches!(run(&mall, &create, Some(&reader)).await.unwrap_err(), Error::Scope("write:orders")));
    let stranger = WorkspaceCaller { workspace: "ws_2".into(), ..caller(&[]) };
    assert_eq!(run(&mall, &create, Some(&stranger)).await.unwrap().ending, Ending::Failed);
    assert_eq!(run(&mall, &create, Some(&caller(&[]))).await.unwrap().ending, Ending::Completed);
    let dance = [Part::data(Json::from_value(&json!({"skill": "dance"})))];
    let fault = model::Fault::from(run(&mall, &dance, None).await.unwrap_err());
    assert_eq!((fault.kind, fault.field.as_deref()), (model::Kind::InvalidParams, Some("skill")));
}

#[tokio::test]
async fn a_purchase_from_the_first_word_to_the_order() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let created = data(&mall, json!({"skill": "cart-management", "action": "create", "site_slug": "acme"})).await;
    let token = shown(&created, "cart")["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("cart_"));
    let added = text(&mall, &format!("Add 2 of product sun to cart {token} on store acme")).await;
    assert_eq!(shown(&added, "cart")["totals"]["subtotal"], 3_980);
    let which =
        data(&mall, json!({"action": "add", "site_slug": "acme", "cart_token": token, "product_id": "felt"})).await;
    assert_eq!((which.ending, &which.missing[..]), (Ending::InputRequired, &["variant_id"][..]));
    let large =
        json!({"action": "add", "site_slug": "acme", "cart_token": token, "product_id": "felt", "variant_id": "l"});
    let none = data(&mall, large).await;
    assert_eq!((none.ending, none.text.as_str()), (Ending::Failed, "Felt hat: only 0 left."));
    let coupon = text(&mall, &format!("apply coupon code TEN to cart {token} at store acme")).await;
    assert_eq!(shown(&coupon, "cart")["totals"]["discount"], 398);
    let unknown = data(&mall, json!({"action": "get", "site_slug": "acme", "cart_token": "cart_1"})).await;
    assert_eq!((unknown.ending, unknown.text.as_str()), (Ending::Failed, NO_CART));

    let checkout = json!({"skill": "checkout", "site_slug": "acme", "cart_token": token, "email": "ada@example.com"});
    let begun = data(&mall, checkout).await;
    let session = shown(&begun, "checkout").clone();
    let confirmation = session["confirmation_token"].as_str().unwrap().to_owned();
    assert!(session["complete_url"].as_str().unwrap().starts_with("https://rialto.example/checkout/cs_"));
    assert_eq!(session["buyer"]["email"], "ada@example.com");
    let status = json!({"skill": "order-status", "site_slug": "acme", "confirmation_token": confirmation});
    let early = data(&mall, status.clone()).await;
    assert_eq!((early.ending, early.text.contains("not completed yet")), (Ending::Failed, true));

    let token = shop_rules::ConfirmationToken::read(&confirmation).unwrap();
    mall.shop.complete(&token.session(), &token, &ada(), None).await.unwrap();
    let order = data(&mall, status).await;
    let shown = shown(&order, "order_status");
    assert_eq!((&shown["state"], &shown["totals"]["total"]), (&json!("pending"), &json!(4_072)));
    assert_eq!(shown["media"][0]["url"], "https://img.example/sun.png");
    let guess = json!({"skill": "order-status", "site_slug": "acme", "confirmation_token": "conf_guess"});
    let guess = data(&mall, guess).await;
    assert_eq!((guess.ending, guess.text.as_str()), (Ending::Failed, NO_ORDER));
    mall.adds_up().await;
}

#[tokio::test]
async fn a_purchase_over_http_is_only_told_of() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let told = text(&mall, "buy 2 of product sun on store acme with x402").await;
    assert_eq!(told.ending, Ending::InputRequired);
    let info = shown(&told, "x402_purchase_info");
    assert_eq!(info["resource_url"], "https://rialto.example/api/x402/product/acme/sun?quantity=2");
    assert_eq!((&info["protocol"], &info["total"]["amount"]), (&json!("x402"), &json!(3_980)));
    let much = text(&mall, "buy 60 of product sun on store acme with x402").await;
    assert_eq!((much.ending, much.text.as_str()), (Ending::Failed, "Sun hat: only 50 left."));
    assert_eq!(mall.left().await, 50);
}

/// A turn that runs again creates nothing a second time.
#[tokio::test]
async fn a_skill_that_is_run_twice_has_run_once() {
    let mall = TestStorage::memory().mall(ShopRules::default()).await;
    let me = caller(&[]);
    let run = async |value: Value, key: &str| {
        let request = Shop::admit(Some(&me), &[Part::data(Json::from_value(&value))]).unwrap();
        let once = || Some(Once { key: key.to_owned(), print: [0; 32] });
        let first = mall.shop.run_skill(Some(&me), &request, once()).await.unwrap();
        let second = mall.shop.run_skill(Some(&me), &request, once()).await.unwrap();
        assert_eq!(first, second);
        first.artifact.unwrap().data
    };
    let cart = run(json!({"action": "create", "site_slug": "acme"}), "1").await;
    let token = cart["token"].as_str().unwrap();
    let add = json!({"action": "add", "site_slug": "acme", "cart_token": token, "product_id": "sun", "quantity": 2});
    assert_eq!(run(add, "2").await["items"][0]["quantity"], 2);
    let checkout = json!({"skill": "checkout", "site_slug": "acme", "cart_token": token, "email": "ada@example.com"});
    run(checkout, "3").await;
    assert_eq!(mall.left().await, 48);
    mall.adds_up().await;
}
