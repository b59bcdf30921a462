//! The page where a person completes a checkout, over its socket: what it shows, what it says to wrong input, and that a
//! form that is sent twice buys once.

use std::sync::Arc;

use model::ports::Future;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use shop::service::{Error as Refused, Payments};
use shop_rules::{Buyer, Paid, Session};

use crate::storefront::{Mall, mall, mall_paid};

const GOOD: &[(&str, &str)] = &[("email", "ada@example.com"), ("name", "Ada <L>"), ("address", "1 Main St\nLondon")];

/// Where the page of a checkout is, without the host.
fn path(checkout: &Value) -> String {
    let url = url::Url::parse(checkout["complete_url"].as_str().unwrap()).unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}

async fn get(mall: &Mall, path: &str) -> (u16, String) {
    shown(mall.request(Method::GET, path).send().await.unwrap()).await
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

async fn send(mall: &Mall, path: &str, fields: &[(&str, &str)]) -> Response {
    let request = mall.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
    request.body(form(fields)).send().await.unwrap()
}

/// A page, with everything that keeps it to itself.
async fn shown(answer: Response) -> (u16, String) {
    let headers = answer.headers();
    let said = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(said("content-type"), "text/html; charset=utf-8");
    assert_eq!((said("cache-control"), said("referrer-policy")), ("no-store".to_owned(), "no-referrer".to_owned()));
    let policy = said("content-security-policy");
    for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("unsafe") && said("x-frame-options") == "DENY" && said("x-content-type-options") == "nosniff"
    );
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Where a form that was taken leads: back to the page, to be read.
#[track_caller]
fn leads_to(answer: &Response, path: &str) {
    assert_eq!((answer.status().as_u16(), answer.headers()["location"].as_bytes()), (303, path.as_bytes()));
    assert_eq!(answer.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn a_person_buys_once_and_can_read_the_order_ever_after() {
    let mall = mall().await;
    let checkout = mall.checkout("sun", 2).await;
    let path = path(&checkout);
    let (status, page) = get(&mall, &path).await;
    assert_eq!(status, 200);
    for text in
        ["Acme &amp; sons", "Sun hat", "39.80 USD", "4.90 USD", "44.70 USD", "30 minutes", "<label for=\"email\">"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(page.contains("<textarea") && !page.contains("<script"), "{page}");
    assert!(!page.contains(checkout["confirmation_token"].as_str().unwrap()), "the token is in the address only");

    leads_to(&send(&mall, &path, GOOD).await, &path);
    let (status, page) = get(&mall, &path).await;
    assert_eq!(status, 200);
    for text in ["Thank you", "ord_", "pending", "44.70 USD", "Ada &lt;L&gt;\n1 Main St\nLondon", "ada@example.com"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<form"), "{page}");
    // Sent twice, bought once.
    leads_to(&send(&mall, &path, GOOD).await, &path);
    leads_to(&send(&mall, &path, &[("email", "eve@example.com")]).await, &path);
    assert_eq!(get(&mall, &path).await.1, page);
    assert_eq!(mall.left("sun").await, 48);
    let order =
        mall.get(&format!("/api/storefront/v1/orders/{}", checkout["confirmation_token"].as_str().unwrap())).await.1;
    assert_eq!((&order["buyer"]["email"], &order["shipping"]["name"]), (&json!("ada@example.com"), &json!("Ada <L>")));
    mall.adds_up().await;
}

/// Takes money only once so many are about to pay.
struct Together(tokio::sync::Barrier);

impl Payments for Together {
    fn take<'a>(&'a self, _: &'a Session, _: &'a Buyer) -> Future<'a, Result<Paid, Refused>> {
        Box::pin(async {
            self.0.wait().await;
            Ok(Paid { method: "test".into(), reference: None })
        })
    }
}

#[tokio::test]
async fn many_forms_at_once_are_one_order() {
    const FORMS: usize = 4;
    let mall = mall_paid(Arc::new(Together(tokio::sync::Barrier::new(FORMS))), |_| {}).await;
    let path = path(&mall.checkout("felt", 2).await);
    let all = futures_util::future::join_all((0..FORMS).map(|_| send(&mall, &path, GOOD))).await;
    for answer in &all {
        leads_to(answer, &path);
    }
    assert_eq!(mall.left("felt").await, 1);
    let report = mall.shop.verify().await.unwrap();
    assert_eq!((report.orders, report.differences.len()), (1, 0));
}

#[tokio::test]
async fn what_is_wrong_is_said_beside_the_field_and_nothing_typed_is_lost() {
    let mall = mall().await;
    let path = path(&mall.checkout("sun", 1).await);
    let typed = [("email", "\"><script>alert(1)</script>"), ("name", ""), ("address", "</textarea>1 <Main>")];
    let (status, page) = shown(send(&mall, &path, &typed).await).await;
    assert_eq!(status, 422);
    assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\""), "{page}");
    assert!(page.contains("&lt;/textarea&gt;1 &lt;Main&gt;</textarea>"), "{page}");
    for wrong in ["id=\"email-wrong\"", "aria-describedby=\"email-wrong\"", "id=\"name-wrong\"", "role=\"alert\""] {
        assert!(page.contains(wrong), "{wrong}: {page}");
    }
    assert!(!page.contains("id=\"address-wrong\"") && !page.contains("<script"), "{page}");
    let long = "x".repeat(1_001);
    for (field, fields) in [
        ("email", vec![("name", "Ada"), ("address", "x")]),
        ("address", vec![("email", "ada@example.com"), ("name", "Ada"), ("address", "  \n ")]),
        ("address", vec![("email", "ada@example.com"), ("name", "Ada"), ("address", &*long)]),
        ("name", vec![("email", "ada@example.com"), ("name", "A\u{7}da"), ("address", "x")]),
    ] {
        let (status, page) = shown(send(&mall, &path, &fields).await).await;
        assert!(status == 422 && page.contains(&format!("id=\"{field}-wrong\"")), "{field}: {page}");
        assert_eq!(page.matches("<p class=\"wrong\" id=").count(), 1, "only that: {page}");
    }
    let json = mall.request(Method::POST, &path).json(&json!({ "email": "ada@example.com" })).send().await.unwrap();
    assert_eq!(shown(json).await.0, 415);
    let large = "x".repeat(70_000);
    assert_eq!(shown(send(&mall, &path, &[("address", &large)]).await).await.0, 413);
    let broken = mall.request(Method::POST, &path).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(shown(broken.body("email=%zz").send().await.unwrap()).await.0, 400);
    assert_eq!(mall.request(Method::PUT, &path).send().await.unwrap().headers()["allow"], "GET, HEAD, POST");
    // After all that it can still be bought.
    leads_to(&send(&mall, &path, GOOD).await, &path);
}

#[tokio::test]
async fn what_is_fetched_needs_no_address_and_is_there_at_once() {
    let mall = mall().await;
    let path = path(&mall.checkout("pattern", 1).await);
    let (_, page) = get(&mall, &path).await;
    assert!(page.contains("Knitting &lt;pattern&gt;") && !page.contains("<textarea"), "{page}");
    leads_to(&send(&mall, &format!("/aly{path}"), &[("email", "ada@example.com")]).await, &format!("/aly{path}"));
    let (_, page) = get(&mall, &path).await;
    assert!(page.contains("href=\"https://files.example/pattern.pdf?a=1&amp;b=2\""), "{page}");
    assert!(page.contains("<strong id=\"state\">fulfilled</strong>"), "{page}");
}

#[tokio::test]
async fn what_is_over_or_never_was_has_a_page_and_a_status() {
    let mall = mall().await;
    let checkout = mall.checkout("sun", 1).await;
    let good = path(&checkout);
    let id = checkout["id"].as_str().unwrap();
    let other = mall.checkout("sun", 1).await;
    let foreign = format!("/checkout/{id}?token={}", other["confirmation_token"].as_str().unwrap());
    for unknown in [
        format!("/checkout/{id}"),
        format!("/checkout/{id}?token="),
        format!("/checkout/{id}?token=conf_00000000000000000000000000000000"),
        format!("/checkout/{id}/?token={}", checkout["confirmation_token"].as_str().unwrap()),
        "/checkout/".to_owned(),
        foreign,
    ] {
        let (status, page) = get(&mall, &unknown).await;
        assert!(status == 404 && page.contains("There is no such checkout"), "{unknown}: {page}");
        assert_eq!(shown(send(&mall, &unknown, GOOD).await).await.0, 404, "{unknown}");
    }
    let cancel = json!({ "confirmation_token": checkout["confirmation_token"] });
    let request = mall.request(Method::POST, &format!("/api/ucp/v1/checkout-sessions/{id}/cancel"));
    assert_eq!(request.header("idempotency-key", "c").json(&cancel).send().await.unwrap().status(), 200);
    let cart = mall.cart("sun", 1).await;
    mall.out_of_time();
    let late = mall.post(&format!("{cart}/checkout"), &json!({})).await.1["checkout"].clone();
    for (path, why) in [(good, "was cancelled"), (path(&late), "has expired")] {
        let (status, page) = get(&mall, &path).await;
        assert!(status == 410 && page.contains(why) && !page.contains("<form"), "{page}");
        assert_eq!(shown(send(&mall, &path, GOOD).await).await.0, 410);
    }
    assert_eq!(mall.shop.verify().await.unwrap().orders, 0);
}
