//! Carts and checkouts that expire: their reserved stock is for sale again without a request, also when the server
//! was down at that moment.

use std::time::{Duration, Instant};

use cluster::Cluster;
use e2e::poll::PATIENCE;
use e2e::seed::Random;
use e2e::{Server, until};
use serde_json::{Value, json};

use crate::desk::{
    KEY, checked_out, complete, filled_cart, left, made, shop, skill, state, stock, text, verify, with_token,
};
use crate::stress::sealed;

/// A checkout as the holder of its token sees it.
fn session(server: &Server, checkout: &Value) -> Value {
    let (id, token) = (text(&checkout["id"]), text(&checkout["confirmation_token"]));
    server.get(&format!("/api/ucp/v1/checkout-sessions/{id}?token={token}")).json()
}

/// Reserves two of three, and checks the stock.
fn set_aside(server: &Server) -> Value {
    let till = with_token(server, KEY);
    let checkout = checked_out(&till, &filled_cart(&till, "hat", 2));
    let left = left(server, "hat");
    // If it is open afterwards, it was open before.
    if session(server, &checkout)["status"] == "open" {
        assert_eq!(left, 1, "set aside");
    }
    checkout
}

/// The checkout is over: its token buys nothing.
fn is_over(server: &Server, checkout: &Value) {
    assert_eq!(session(server, checkout)["status"], "expired");
    let (id, token) = (text(&checkout["id"]), text(&checkout["confirmation_token"]));
    let late = complete(server.addr(), &id, &token, "late").unwrap();
    assert_eq!((late.status(), &late.json()["error"]["code"]), (410, &json!("checkout_closed")), "{}", late.text());
    let asked = json!({ "skill": "order-status", "site_slug": "acme", "confirmation_token": token });
    let order = skill(&with_token(server, KEY), asked);
    assert_eq!(state(&order), "TASK_STATE_FAILED", "{order}");
    let report = verify(server);
    assert_eq!((&report["orders"], left(server, "hat")), (&json!(0), 3), "{report}");
}

#[test]
fn a_checkout_that_expires_gives_its_stock_back_by_timer() {
    let server = shop("checkout_ttl_s: 1").start();
    stock(&server, "hat,Sun hat,19.90,3");
    let checkout = set_aside(&server);
    // Only public data is read, so that nothing but the timer touches the cart.
    until("the stock is for sale again", PATIENCE, || (left(&server, "hat") == 3).then_some(()));
    is_over(&server, &checkout);
}

#[test]
fn the_stock_comes_back_also_when_the_server_was_killed_before_it_was_due() {
    let mut server = shop("checkout_ttl_s: 2").start();
    stock(&server, "hat,Sun hat,19.90,3");
    let checkout = set_aside(&server);
    let told = Instant::now();
    server.kill9();
    until("the checkout's time is over", PATIENCE, || (told.elapsed() > Duration::from_secs(2)).then_some(()));
    server.restart();
    until("the stock is for sale again", PATIENCE, || (left(&server, "hat") == 3).then_some(()));
    is_over(&server, &checkout);
}

#[test]
fn a_killed_server_that_comes_back_in_time_still_keeps_the_time() {
    let mut server = shop("checkout_ttl_s: 4").start();
    stock(&server, "hat,Sun hat,19.90,3");
    let checkout = set_aside(&server);
    server.restart();
    until("the stock is for sale again", PATIENCE, || {
        let left = left(&server, "hat");
        if session(&server, &checkout)["status"] == "open" {
            assert_eq!(left, 1, "still set aside");
        }
        (left == 3).then_some(())
    });
    is_over(&server, &checkout);
}

#[test]
fn another_replica_gives_back_what_a_dead_one_set_aside() {
    let (database, keys) = (Cluster::shared().database(), sealed());
    let start = || keys.replica("checkout_ttl_s: 2", &database).start();
    let (mut first, second) = (start(), start());
    stock(&first, "hat,Sun hat,19.90,3");
    let checkout = set_aside(&first);
    first.kill9();
    // Each live replica looks every minute for expired carts of the others.
    until("the stock is for sale again", PATIENCE * 4, || (left(&second, "hat") == 3).then_some(()));
    is_over(&second, &checkout);
}

#[test]
fn a_cart_that_expires_takes_nothing_and_is_not_checked_out() {
    let server = shop("cart_ttl_s: 1").start();
    stock(&server, "hat,Sun hat,19.90,3");
    let till = with_token(&server, KEY);
    let cart = skill(&till, json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" }));
    let cart = text(&made(&cart, "cart")["token"]);
    let look = json!({ "skill": "cart-management", "action": "get", "site_slug": "acme", "cart_token": cart });
    until("the cart is over", PATIENCE, || {
        let task = skill(&till, look.clone());
        let status = task["artifacts"][0]["parts"][0]["data"]["status"].as_str();
        (status == Some("expired") || state(&task) == "TASK_STATE_FAILED").then_some(())
    });
    let add = json!({ "skill": "cart-management", "action": "add", "site_slug": "acme", "cart_token": cart,
                      "product_id": "hat" });
    let checkout = json!({ "skill": "checkout", "site_slug": "acme", "cart_token": cart });
    for late in [add, checkout] {
        let task = skill(&till, late);
        let words = text(&task["status"]["message"]["parts"][0]["text"]);
        assert!(state(&task) == "TASK_STATE_FAILED" && words.contains("expired"), "{task}");
    }
    assert_eq!(left(&server, "hat"), 3);
    verify(&server);
}

/// Completed or expired, whichever was first; never both, and never neither.
#[test]
fn a_completion_at_the_last_moment_sells_or_does_not() {
    const COUNT: u64 = 24;
    let mut random = Random::from_env("last moments");
    let server = shop("checkout_ttl_s: 2").start();
    stock(&server, &format!("hat,Sun hat,19.90,{COUNT}"));
    let till = with_token(&server, KEY);
    let sold: u64 = std::thread::scope(|scope| {
        let buyers: Vec<_> = (0..COUNT)
            .map(|_| {
                let (server, till) = (&server, &till);
                // Around the time of expiry; both outcomes are valid.
                let moment = Duration::from_millis(random.between(1_900, 2_100));
                scope.spawn(move || {
                    let cart = filled_cart(till, "hat", 1);
                    let checkout = checked_out(till, &cart);
                    let begun = Instant::now();
                    until("the moment has come", PATIENCE, || (begun.elapsed() >= moment).then_some(()));
                    let (id, token) = (text(&checkout["id"]), text(&checkout["confirmation_token"]));
                    let answer = complete(server.addr(), &id, &token, "last").unwrap();
                    match (answer.status(), answer.json()["error"]["code"].as_str()) {
                        (200, None) => 1,
                        (410, Some("checkout_closed")) => 0,
                        other => panic!("{other:?}: {}", answer.text()),
                    }
                })
            })
            .collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).sum()
    });
    until("what was not sold is for sale again", PATIENCE, || (left(&server, "hat") == COUNT - sold).then_some(()));
    let report = verify(&server);
    assert_eq!((&report["orders"], &report["checkouts"]), (&json!(sold), &json!(COUNT)), "{report}");
    eprintln!("{sold} of {COUNT} were in time");
}
