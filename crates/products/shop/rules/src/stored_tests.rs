//! Rows of version 1 stay readable: the golden file has one of each, as the first release with shops wrote them.

use std::fmt::Write;

use ledger::{Rate, Row};
use model::Time;

use crate::testing::{NOW, acme, hat, two_hats};
use crate::*;

fn golden() -> String {
    let mut site = acme();
    site.description = "Hats".into();
    site.hosts = vec!["hats.example".into()];
    site.links = vec![Social { name: "web".into(), url: "https://hats.example".into() }];
    site.terms = SiteTerms { shipping: Minor(490), free_shipping_from: Some(Minor(5_000)), tax: Rate::TENTH };
    let mut felt = two_hats();
    felt.media = vec![Media { url: "https://img.example/felt.png".into(), alt: "Felt".into() }];
    felt.downloads = vec!["https://files.example/care.pdf".into()];
    felt.variants[1].price = Some(Minor(2_500));
    felt.variants[1].sku = Some("F-L".into());
    let coupon = Coupon {
        site: site.slug.clone(),
        code: "TEN".into(),
        off: Discount::Percent(Rate::TENTH),
        least: Minor(100),
        limit: Some(3),
        expires_at: Some(Time(NOW.0 + 1)),
    };
    let amount = Coupon { off: Discount::Amount(Minor(5)), limit: None, expires_at: None, ..coupon.clone() };
    let rules = ShopRules::default();
    let product = hat();
    let item = product.item(&product.variants[0], 2);
    let cart = Cart::open(&site, NOW, &rules)
        .act(CartAct::Add { item, left: None }, NOW, &rules)
        .and_then(|cart| cart.act(CartAct::Coupon(coupon.clone()), NOW, &rules))
        .and_then(|cart| cart.act(CartAct::Email("ada@example.com".into()), NOW, &rules))
        .unwrap();
    let token = ConfirmationToken::draw([2; 20]);
    let products = [product];
    let key = CartToken::draw([1; 20]).key();
    let ground = CheckoutInputs { site: &site, key, products: &products, coupon: Some(&coupon) };
    let begun = checkout::begin(&cart, &ground, &token, NOW, &rules).unwrap();
    let session = begun.session.unwrap();
    let buyer = Buyer { email: "ada@example.com".into(), name: Some("Ada".into()), address: Some("1 Main St".into()) };
    let paid = Paid { method: "page".into(), reference: Some("r1".into()) };
    let sold = session.complete(&begun.cart, &buyer, paid, NOW).unwrap();
    let workspace = Workspace { id: "ws_1".into(), title: "One".into(), created_at: NOW };
    let mut text = String::new();
    let mut line = |name: &str, row: Vec<u8>| {
        assert_eq!(row[0], 1);
        writeln!(text, "{name} {}", std::str::from_utf8(&row[1..]).unwrap()).unwrap();
    };
    line("workspace", workspace.to_row());
    line("site", site.to_row());
    line("product", felt.to_row());
    line("coupon", coupon.to_row());
    line("coupon", amount.to_row());
    line("cart", cart.to_row());
    line("checkout", session.to_row());
    line("order", sold.order.unwrap().to_row());
    line("stock entry", sold.stock.unwrap().to_row());
    text
}

fn reads<R: Row>(json: &str) -> String {
    let row = [&[1], json.as_bytes()].concat();
    String::from_utf8(R::from_row(&row).unwrap().to_row()[1..].to_vec()).unwrap()
}

#[test]
fn rows_of_the_first_version_are_read_and_written_as_they_were() {
    let kept = include_str!("stored_v1.golden");
    assert_eq!(golden(), kept, "what is kept has changed: add to it, and read what was");
    for line in kept.lines() {
        let (name, json) = line.split_once(" {").unwrap();
        let json = format!("{{{json}");
        let read = match name {
            "workspace" => reads::<Workspace>(&json),
            "site" => reads::<Site>(&json),
            "product" => reads::<Product>(&json),
            "coupon" => reads::<Coupon>(&json),
            "cart" => reads::<Cart>(&json),
            "checkout" => reads::<Session>(&json),
            "order" => reads::<Order>(&json),
            "stock entry" => reads::<Moves>(&json),
            other => panic!("{other}"),
        };
        assert_eq!(read, json);
    }
}
