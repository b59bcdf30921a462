//! Tests of `intent`.

use serde_json::json;

use super::*;
use crate::reply::Ending;
use crate::skill::{SkillPlan, needs, plan};

fn decoded(value: Value) -> Result<SkillRequest, SkillRequestError> {
    let Value::Object(members) = value else { panic!("an object") };
    decode(&members)
}

/// Checks skill, site and query of a text.
fn check(text: &str, skill: Option<StoreSkill>, site: Option<&str>, query: Option<&str>) {
    let request = parse(text);
    assert_eq!(
        (request.skill, request.site_slug.as_deref(), request.query.as_deref()),
        (skill, site, query),
        "{text}: {request:?}"
    );
}

#[test]
fn searches_are_understood_however_they_are_worded() {
    let search = Some(StoreSkill::ProductSearch);
    let acme = Some("acme");
    check("Search for hats on store acme.", search, acme, Some("hats"));
    check("Show products on store acme.", search, acme, Some("*"));
    check("search hats store acme", search, acme, Some("hats"));
    check("Find me a red hat in the acme shop, please!", search, acme, Some("red hat"));
    check("Do you have any sun hats at acme?", search, acme, Some("sun hats"));
    check("list all products from site acme", search, acme, Some("*"));
    check("I'm looking for wool hats on the store called acme", search, acme, Some("wool hats"));
    check("What do you sell at the acme store?", search, acme, Some("*"));
    check("SEARCH FOR \"Sun Hat\" ON STORE ACME", search, acme, Some("Sun Hat"));
    check("search for hats", search, None, Some("hats"));
    check("search * on shop acme-2", search, Some("acme-2"), Some("*"));
    check("store: acme, find hats", search, acme, Some("hats"));
}

#[test]
fn other_skills_are_told_by_their_words() {
    let acme = Some("acme");
    check("Tell me about store acme", Some(StoreSkill::StoreInfo), acme, None);
    check("info on shop acme", Some(StoreSkill::StoreInfo), acme, None);
    check("Create a cart on store acme", Some(StoreSkill::CartManagement), acme, None);
    check("checkout my cart on store acme", Some(StoreSkill::Checkout), acme, None);
    check("I want to pay now at acme", Some(StoreSkill::Checkout), acme, None);
    check("where is my order?", Some(StoreSkill::OrderStatus), None, None);
    check("status of order conf_abc on store acme", Some(StoreSkill::OrderStatus), acme, None);
    check("buy 2 of product hat-red on store acme with x402", Some(StoreSkill::X402Purchase), acme, None);
    check("good morning", None, None, None);
    check("", None, None, None);
}

#[test]
fn tokens_numbers_and_codes_are_found_in_text() {
    let add = parse("Add 3 of product sun_hat to cart cart_abc on store acme");
    assert_eq!((add.skill, add.action), (Some(StoreSkill::CartManagement), Some(CartAction::Add)));
    assert_eq!((add.product_id.as_deref(), add.quantity), (Some("sun_hat"), Some(3)));
    assert_eq!((add.cart_token.as_deref(), add.site_slug.as_deref()), (Some("cart_abc"), Some("acme")));

    let two = parse("put two hat-red into my cart cart_abc, shop acme");
    assert_eq!(
        (two.action, two.product_id.as_deref(), two.quantity),
        (Some(CartAction::Add), Some("hat-red"), Some(2))
    );

    let coupon = parse("apply coupon code SUMMER10 to cart cart_abc at store acme");
    assert_eq!((coupon.action, coupon.code.as_deref()), (Some(CartAction::ApplyCoupon), Some("SUMMER10")));

    let status = parse("What's the status of my order? The token is conf_XYZ, store acme");
    assert_eq!((status.skill, status.confirmation_token.as_deref()), (Some(StoreSkill::OrderStatus), Some("conf_XYZ")));

    let gone = parse("remove product hat from cart cart_abc on store acme");
    assert_eq!((gone.action, gone.product_id.as_deref()), (Some(CartAction::Remove), Some("hat")));
    assert_eq!(parse("empty the basket cart_abc on store acme").action, Some(CartAction::Clear));
    assert_eq!(parse("show my cart cart_abc on store acme").action, Some(CartAction::Get));
    assert_eq!(parse("cart on store acme").action, None);
    assert_eq!(parse("checkout cart_abc on store acme for ada@example.com").email.as_deref(), Some("ada@example.com"));
}

#[test]
fn a_data_part_is_taken_by_its_word_in_either_spelling() {
    let cart = decoded(json!({"skill": "cart-management", "action": "create", "site_slug": "acme"})).unwrap();
    assert_eq!((cart.skill, cart.action), (Some(StoreSkill::CartManagement), Some(CartAction::Create)));
    let camel = decoded(json!({
        "skill": "cart_management", "action": "ADD", "siteSlug": "Acme", "cartToken": "cart_1", "productId": "hat",
        "quantity": "2", "variantOptions": {"Size": "L", "No": 7}, "unknown": [1]
    }));
    let camel = camel.unwrap();
    assert_eq!((camel.site_slug.as_deref(), camel.quantity), (Some("acme"), Some(2)));
    assert_eq!((camel.action, camel.variant_options.len()), (Some(CartAction::Add), 2));
    let told = |value| decoded(value).unwrap().skill;
    assert_eq!(told(json!({"query": "hats"})), Some(StoreSkill::ProductSearch));
    assert_eq!(told(json!({"confirmation_token": "conf_1"})), Some(StoreSkill::OrderStatus));
    assert_eq!(told(json!({"action": "get"})), Some(StoreSkill::CartManagement));
    assert_eq!(told(json!({"site_slug": "acme"})), None);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_field() {
    let refused = |value| {
        let unread = decoded(value).unwrap_err();
        (unread.field(), unread.to_string())
    };
    let (field, says) = refused(json!({"skill": "dance"}));
    assert!(field == "skill" && says.contains("\"dance\"") && says.contains("product-search, store-info"));
    assert_eq!(refused(json!({"action": "steal"})).0, "action");
    assert_eq!(refused(json!({"quantity": 1.5})), ("quantity", "quantity must be a whole number".to_owned()));
    assert_eq!(refused(json!({"quantity": [1]})).0, "quantity");
    assert_eq!(refused(json!({"site_slug": 7})), ("site_slug", "site_slug must be a text".to_owned()));
    assert_eq!(refused(json!({"variant_options": {"a": {}}})).0, "variant_options");
}

/// The reply, the artifact and the metadata would repeat it.
#[test]
fn what_is_longer_than_any_name_is_refused() {
    let long = "x".repeat(MAX_FIELD + 1);
    for field in ["skill", "action", "site_slug", "query", "cart_token", "product_id", "email", "code"] {
        assert_eq!(decoded(json!({ field: long })).unwrap_err(), SkillRequestError::Field(field, TOO_LONG));
        let longest = decoded(json!({ field: &long[1..] }));
        assert!(!matches!(longest, Err(SkillRequestError::Field(..))), "{field}: {longest:?}");
    }
    let many: Map<String, Value> = (0..=MAX_OPTIONS).map(|n| (n.to_string(), json!("x"))).collect();
    for options in [json!({ "Size": long }), json!({ long: "S" }), Value::Object(many)] {
        let refused = decoded(json!({ "skill": "cart-management", "variant_options": options })).unwrap_err();
        assert_eq!(refused.field(), "variant_options");
    }
}

#[test]
fn the_scope_of_a_message_is_known_before_anything_is_done() {
    let data = |value: Value| vec![Part::data(model::Json::from_value(&value))];
    assert_eq!(needs(&data(json!({"skill": "checkout"}))), Ok(Some("write:orders")));
    assert_eq!(needs(&data(json!({"skill": "store-info"}))), Ok(None));
    assert_eq!(needs(&[Part::text("create a cart on store acme")]), Ok(Some("write:orders")));
    assert_eq!(needs(&[Part::text("hello")]), Ok(None));
    // A data part goes before text, wherever it stands.
    let mut both = vec![Part::text("search hats on store acme")];
    both.extend(data(json!({"skill": "checkout"})));
    assert_eq!(needs(&both), Ok(Some("write:orders")));
    assert!(needs(&data(json!({"skill": "nothing"}))).is_err());
}

#[test]
fn what_is_missing_is_asked_for_by_its_name() {
    let asks = |value: Value| match plan(&decoded(value).unwrap()) {
        SkillPlan::Answer(outcome) => {
            assert_eq!(outcome.ending, Ending::InputRequired);
            assert!(outcome.text.contains(outcome.missing[0]), "{}", outcome.text);
            outcome.missing[0]
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(asks(json!({"site_slug": "acme"})), "skill");
    assert_eq!(asks(json!({"skill": "product-search"})), "site_slug");
    assert_eq!(asks(json!({"skill": "order-status", "site_slug": "acme"})), "confirmation_token");
    assert_eq!(asks(json!({"skill": "x402-purchase", "site_slug": "acme"})), "product_id");
    assert_eq!(asks(json!({"skill": "cart-management", "site_slug": "acme"})), "action");
    assert_eq!(asks(json!({"skill": "cart-management", "site_slug": "acme", "action": "get"})), "cart_token");
    let token = crate::CartToken::draw([1; 20]);
    let cart = |action: &str| json!({"action": action, "site_slug": "acme", "cart_token": token.as_str()});
    assert_eq!(asks(cart("add")), "product_id");
    assert_eq!(asks(cart("apply-coupon")), "code");
    assert_eq!(asks(json!({"skill": "checkout", "site_slug": "acme"})), "cart_token");
    let mut update = cart("update");
    update["product_id"] = "hat".into();
    assert_eq!(asks(update.clone()), "quantity");
    update["quantity"] = (-1).into();
    assert_eq!(asks(update), "quantity");
}

#[test]
fn what_cannot_be_is_said_to_have_failed() {
    let fails = |value: Value| match plan(&decoded(value).unwrap()) {
        SkillPlan::Answer(outcome) => {
            assert_eq!(outcome.ending, Ending::Failed);
            outcome.text
        }
        other => panic!("{other:?}"),
    };
    let order = json!({"skill": "order-status", "site_slug": "acme", "confirmation_token": "guess"});
    assert_eq!(fails(order), crate::reply::NO_ORDER);
    assert!(fails(json!({"skill": "store-info", "site_slug": "no such/slug"})).contains("small letters"));
    let cart = json!({"action": "get", "site_slug": "acme", "cart_token": "cart_1"});
    assert_eq!(fails(cart), crate::reply::NO_CART);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in ".{0,300}") {
        let request = parse(&text);
        plan(&request);
        if let Some(slug) = request.site_slug {
            proptest::prop_assert!(crate::Slug::check(&slug).is_ok());
        }
    }
}

/// The request of the messages of one task.
fn together(messages: &[&str]) -> SkillRequest {
    let part = |text: &&str| match serde_json::from_str::<Value>(text) {
        Ok(json @ Value::Object(_)) => vec![Part::data(model::Json::from_value(&json))],
        Ok(_) | Err(_) => vec![Part::text(*text)],
    };
    let parts: Vec<Vec<Part>> = messages.iter().map(part).collect();
    read_all(parts.iter().map(|parts| &parts[..])).unwrap()
}

#[test]
fn an_answer_completes_the_request_that_was_asked_about() {
    let hats = |site: &str| SkillRequest {
        skill: Some(StoreSkill::ProductSearch),
        site_slug: Some(site.to_owned()),
        query: Some("hats".to_owned()),
        ..SkillRequest::default()
    };
    for answer in [
        "acme",
        "Acme.",
        "acme, please",
        "it's acme",
        "I mean the acme store",
        "on store acme",
        "the store called acme",
        r#"{"site_slug": "acme"}"#,
        r#"{"siteSlug": "acme"}"#,
        r#"{"skill": "product-search", "site_slug": "acme", "query": "hats"}"#,
    ] {
        assert_eq!(together(&["Search for hats", answer]), hats("acme"), "{answer}");
    }
    // An answer that names no store leads to the same question, and the request stays.
    let vague = together(&["Search for hats", "the one over there on the corner"]);
    assert_eq!((vague.query.as_deref(), vague.site_slug.as_deref()), (Some("hats"), None));
    assert_eq!(together(&["Search for hats", "the one over there on the corner", "acme"]), hats("acme"));
    assert_eq!(together(&["hello", "search for hats", "acme"]), hats("acme"));
    assert_eq!(together(&["search for caps", "search for hats", "acme"]), hats("acme"));
}

#[test]
fn every_field_that_is_asked_for_can_be_answered() {
    let cart = "cart_0123456789abcdef0123456789abcdef";
    for (messages, expected) in [
        (vec!["hello", "store-info", "acme"], json!({"skill": "store-info", "site_slug": "acme"})),
        (
            vec!["Where is my order?", "acme", "conf_x7"],
            json!({"skill": "order-status", "site_slug": "acme", "confirmation_token": "conf_x7"}),
        ),
        (vec!["Create a cart", "acme"], json!({"action": "create", "site_slug": "acme"})),
        (
            vec![r#"{"skill": "cart-management", "site_slug": "acme"}"#, "create"],
            json!({"action": "create", "site_slug": "acme"}),
        ),
        (vec!["Check out", "acme", cart], json!({"skill": "checkout", "site_slug": "acme", "cart_token": cart})),
        (
            vec![r#"{"action": "add", "site_slug": "acme"}"#, cart, "sun", "red"],
            json!({"action": "add", "site_slug": "acme", "cart_token": cart, "product_id": "sun", "variant_id": "red"}),
        ),
        (
            vec![
                r#"{"action": "add", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef", "product_id": "sun"}"#,
                r#"{"variant_options": {"color": "red"}}"#,
            ],
            json!({"action": "add", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef", "product_id": "sun", "variant_options": {"color": "red"}}),
        ),
        (
            vec![
                r#"{"action": "update", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef", "product_id": "sun"}"#,
                "three",
            ],
            json!({"action": "update", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef", "product_id": "sun", "quantity": 3}),
        ),
        (
            vec![
                r#"{"action": "apply-coupon", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef"}"#,
                "TEN",
            ],
            json!({"action": "apply-coupon", "site_slug": "acme", "cart_token": "cart_0123456789abcdef0123456789abcdef", "code": "TEN"}),
        ),
        (
            vec!["buy with x402 at acme", "sun", "variant red"],
            json!({"skill": "x402-purchase", "site_slug": "acme", "product_id": "sun", "variant_id": "red"}),
        ),
    ] {
        assert_eq!(together(&messages), decoded(expected).unwrap(), "{messages:?}");
    }
}

#[test]
fn a_request_of_its_own_replaces_the_one_before() {
    let about = SkillRequest {
        skill: Some(StoreSkill::StoreInfo),
        site_slug: Some("acme".to_owned()),
        ..SkillRequest::default()
    };
    assert_eq!(together(&["Search for hats", "Tell me about store acme"]), about);
    assert_eq!(together(&["Search for hats on store zeta", "Tell me about store acme"]), about);
    // Another skill, and no answer to what was asked.
    let order = together(&["Search for hats", "Where is my order?"]);
    assert_eq!((order.skill, order.query), (Some(StoreSkill::OrderStatus), None));
    // After the reply of the x402 skill, a bare word is no variant.
    let thanks = together(&["buy product sun with x402 at acme", "splendid"]);
    assert_eq!((thanks.skill, thanks.variant_id), (None, None));
    // The last message must be readable; an unreadable earlier one is ignored.
    let unreadable = [Part::data(model::Json::from_value(&json!({"skill": "dance"})))];
    let plain = [Part::text("Search for hats on store acme")];
    assert!(read_all([&plain[..], &unreadable[..]]).is_err());
    assert_eq!(read_all([&unreadable[..], &plain[..]]).unwrap().query.as_deref(), Some("hats"));
}
