//! Any operations of any callers, in any order and at any time: stock and money are correct after every step.

use std::collections::BTreeMap;

use ledger::{AccountId, Row, UserId};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use shop_rules::checkout::unit_of;
use shop_rules::order::book;
use shop_rules::{
    Cart, CartAct, CartStatus, Error, Minor, Order, OrderAct, OrderId, OrderState, Session, SessionId, SessionStatus,
    StockPlace, Totals, Unit,
};

use crate::bench::{Bench, RULES};

#[derive(Clone, Debug)]
enum Op {
    Open,
    Add { cart: usize, product: usize, quantity: u32 },
    Update { cart: usize, product: usize, quantity: u32 },
    Remove { cart: usize, product: usize },
    Clear { cart: usize },
    Coupon { cart: usize, coupon: usize },
    Drop { cart: usize },
    Begin { cart: usize },
    Complete { session: usize },
    Cancel { session: usize },
    Pass { ms: u64 },
    Order { order: usize, act: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0..6_usize;
    prop_oneof![
        2 => Just(Op::Open),
        5 => (n.clone(), 0..3_usize, 1..4_u32).prop_map(|(cart, product, quantity)| Op::Add { cart, product, quantity }),
        1 => (n.clone(), 0..3_usize, 0..4_u32).prop_map(|(cart, product, quantity)| Op::Update { cart, product, quantity }),
        1 => (n.clone(), 0..3_usize).prop_map(|(cart, product)| Op::Remove { cart, product }),
        1 => n.clone().prop_map(|cart| Op::Clear { cart }),
        2 => (n.clone(), 0..2_usize).prop_map(|(cart, coupon)| Op::Coupon { cart, coupon }),
        1 => n.clone().prop_map(|cart| Op::Drop { cart }),
        5 => n.clone().prop_map(|cart| Op::Begin { cart }),
        5 => n.clone().prop_map(|session| Op::Complete { session }),
        2 => n.clone().prop_map(|session| Op::Cancel { session }),
        2 => prop_oneof![Just(1_u64), Just(299), Just(300), Just(1_000)].prop_map(|ms| Op::Pass { ms }),
        3 => (n, 0..5_u8).prop_map(|(order, act)| Op::Order { order, act }),
    ]
}

/// Facts that must not change once they are true.
#[derive(Default)]
struct Memory {
    carts: BTreeMap<String, Cart>,
    sessions: BTreeMap<SessionId, Session>,
    orders: BTreeMap<OrderId, Order>,
    completed: BTreeMap<SessionId, OrderId>,
}

fn run(bench: &mut Bench, op: &Op, memory: &mut Memory) -> TestCaseResult {
    match op {
        Op::Open => bench.open(),
        Op::Pass { ms } => bench.pass(*ms),
        Op::Complete { session } => {
            let Some(done) = bench.complete(*session) else { return Ok(()) };
            let token = &bench.tokens[*session % bench.tokens.len()].1;
            match done {
                Ok(order) => {
                    let first = memory.completed.insert(token.session(), order);
                    prop_assert!(first.is_none(), "a confirmation token worked twice");
                }
                Err(refusal) => prop_assert!(
                    matches!(refusal, Error::TokenUsed | Error::SessionClosed(_)),
                    "what was set aside can be had: {}",
                    refusal
                ),
            }
        }
        Op::Cancel { session } => {
            if let Some(Err(refusal)) = bench.cancel(*session) {
                prop_assert!(matches!(refusal, Error::TokenUsed | Error::SessionClosed(_)), "{}", refusal);
            }
        }
        Op::Order { order, act } => {
            let act = match act {
                0 => OrderAct::Fulfil { lines: vec![(0, 1)], tracking: None },
                1 => OrderAct::Fulfil { lines: Vec::new(), tracking: Some("T1".into()) },
                2 => OrderAct::Cancel,
                3 => OrderAct::Refund,
                _ => OrderAct::Return,
            };
            if let Some(Err(refusal)) = bench.order(*order, &act) {
                prop_assert!(matches!(refusal, Error::OrderState { .. } | Error::MoreThanOrdered), "{}", refusal);
            }
        }
        Op::Add { cart, .. }
        | Op::Update { cart, .. }
        | Op::Remove { cart, .. }
        | Op::Clear { cart }
        | Op::Coupon { cart, .. }
        | Op::Drop { cart }
        | Op::Begin { cart } => {
            let Some(key) = bench.key(*cart) else { return Ok(()) };
            let was = bench.carts[&key].status;
            let done = match op {
                Op::Begin { .. } => bench.begin(&key),
                Op::Add { product, quantity, .. } => {
                    let product = &bench.products[*product];
                    let item = product.item(&product.variants[0], *quantity);
                    bench.act(&key, CartAct::Add { item, left: None })
                }
                Op::Update { product, quantity, .. } => {
                    let (product, quantity) = (bench.products[*product].id.clone(), *quantity);
                    bench.act(&key, CartAct::Update { product, variant: None, quantity, left: None })
                }
                Op::Remove { product, .. } => {
                    let product = bench.products[*product].id.clone();
                    bench.act(&key, CartAct::Remove { product, variant: None })
                }
                Op::Coupon { coupon, .. } => {
                    let coupon = bench.coupons[*coupon].clone();
                    bench.act(&key, CartAct::Coupon(coupon))
                }
                Op::Drop { .. } => bench.act(&key, CartAct::Cancel),
                Op::Clear { .. } => bench.act(&key, CartAct::Clear),
                Op::Open | Op::Complete { .. } | Op::Cancel { .. } | Op::Pass { .. } | Op::Order { .. } => {
                    unreachable!("they are not about a cart")
                }
            };
            if was != CartStatus::Active {
                prop_assert!(done.is_err(), "a cart that is {} has changed", was.name());
            }
        }
    }
    Ok(())
}

fn adds_up(totals: &Totals) -> bool {
    let Totals { subtotal, shipping, tax, discount, total } = *totals;
    [subtotal, shipping, tax, discount, total].iter().all(|amount| amount.0 >= 0)
        && discount <= subtotal
        && total.0 == subtotal.0 - discount.0 + shipping.0 + tax.0
}

fn check(bench: &Bench, stock: &[u64], memory: &mut Memory) -> TestCaseResult {
    // Stock: no place below zero, no unit created, and each place agrees with the rows.
    let mut units: Vec<(Unit, u64)> = Vec::new();
    for (product, left) in bench.products.iter().zip(stock) {
        units.push((unit_of(&product.site, &product.item(&product.variants[0], 1)), *left));
    }
    units.push((Unit::Coupon { site: "acme".into(), code: "THIRD".into() }, 2));
    for (unit, put_in) in &units {
        let [available, reserved, sold] =
            [StockPlace::Available, StockPlace::Reserved, StockPlace::Sold].map(|p| bench.on(unit, p));
        prop_assert!(available >= 0 && reserved >= 0 && sold >= 0);
        prop_assert_eq!(available + reserved + sold, *put_in as i64);
        let of = |items: &mut dyn Iterator<Item = &shop_rules::Item>, coupon: bool| -> i64 {
            match unit {
                Unit::Variant { product, .. } => {
                    items.filter(|item| item.product == *product).map(|item| i64::from(item.quantity)).sum()
                }
                Unit::Coupon { .. } => i64::from(coupon),
            }
        };
        let is_third = |session: &Session| session.coupon.as_ref().is_some_and(|coupon| &*coupon.code == "THIRD");
        let open = bench.sessions.values().filter(|session| session.status == SessionStatus::Open);
        prop_assert_eq!(reserved, open.map(|s| of(&mut s.items.iter(), is_third(s))).sum::<i64>());
        // A coupon that was used stays used; goods may come back.
        let kept = bench.orders.values().filter(|order| order.is_sold() || matches!(unit, Unit::Coupon { .. }));
        let third = |order: &Order| order.coupon.as_deref() == Some("THIRD");
        prop_assert_eq!(sold, kept.map(|o| of(&mut o.lines.iter().map(|line| &line.item), third(o))).sum::<i64>());
    }

    // Money: the workspace has the totals of its orders that are not paid back, and all accounts sum to zero.
    let earned: i64 = bench.orders.values().filter(|order| order.is_earned()).map(|order| order.totals.total.0).sum();
    let purse = AccountId::available(&book(&bench.site.currency), &UserId::from("ws_1"));
    prop_assert_eq!(bench.book.balance(&purse).hundredths(), earned);
    prop_assert_eq!(bench.book.sum(), 0);

    for (key, cart) in &bench.carts {
        prop_assert!(adds_up(&cart.totals(&bench.site.terms, bench.now).unwrap()));
        if cart.status.is_terminal() {
            let first = memory.carts.entry(key.to_string()).or_insert_with(|| cart.clone());
            prop_assert_eq!(&*first, cart);
        }
        let open = cart.session.as_ref().is_some_and(|id| bench.sessions[id].status == SessionStatus::Open);
        prop_assert_eq!(open, cart.status == CartStatus::Checkout);
        prop_assert_eq!(&Cart::from_row(&cart.to_row()).unwrap(), cart);
    }
    for (id, session) in &bench.sessions {
        prop_assert!(adds_up(&session.totals));
        let lines = session.items.iter().map(|item| item.price.0 * i64::from(item.quantity));
        prop_assert_eq!(session.totals.subtotal, Minor(lines.sum()));
        if session.status != SessionStatus::Open {
            let first = memory.sessions.entry(id.clone()).or_insert_with(|| session.clone());
            prop_assert_eq!(&*first, session);
        }
        prop_assert_eq!(session.status == SessionStatus::Completed, bench.orders.contains_key(&session.order_id()));
        prop_assert_eq!(&Session::from_row(&session.to_row()).unwrap(), session);
    }
    for (id, order) in &bench.orders {
        prop_assert!(adds_up(&order.totals));
        if order.state.is_terminal() {
            let first = memory.orders.entry(id.clone()).or_insert_with(|| order.clone());
            prop_assert_eq!(&*first, order);
        }
        let sent = order.lines.iter().all(|line| line.sent == line.item.quantity);
        match order.state {
            OrderState::Pending | OrderState::PartiallyFulfilled => prop_assert!(!sent),
            OrderState::Fulfilled => prop_assert!(sent),
            OrderState::Cancelled | OrderState::Refunded | OrderState::Returned => {}
        }
        prop_assert_eq!(&Order::from_row(&order.to_row()).unwrap(), order);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn stock_and_money_are_right_after_any_sequence(
        stock in prop::collection::vec(0..6_u64, 3),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let (mut bench, mut memory) = (Bench::new(&stock), Memory::default());
        for op in &ops {
            run(&mut bench, op, &mut memory)?;
            check(&bench, &stock, &mut memory)?;
        }
        // At the end all reserved stock is available again.
        bench.pass(RULES.cart_ms);
        check(&bench, &stock, &mut memory)?;
        prop_assert!(bench.sessions.values().all(|session| session.status != SessionStatus::Open));
    }
}

/// The property above tests something only if the sequences lead to sales.
#[test]
fn a_cart_becomes_an_order_once() {
    let mut bench = Bench::new(&[5, 5, 5]);
    bench.open();
    let key = bench.key(0).unwrap();
    let item = bench.products[1].item(&bench.products[1].variants[0], 2);
    bench.act(&key, CartAct::Add { item, left: Some(5) }).unwrap();
    bench.act(&key, CartAct::Coupon(bench.coupons[0].clone())).unwrap();
    bench.begin(&key).unwrap();
    assert_eq!(bench.begin(&key), Err(Error::CartInCheckout));
    let order = bench.complete(0).unwrap().unwrap();
    assert_eq!(bench.complete(0), Some(Err(Error::TokenUsed)));
    let order = &bench.orders[&order];
    // 2 x 6.66 less a third, 4.90 for shipping, 19 % on both.
    let Totals { subtotal, discount, shipping, tax, total } = order.totals;
    assert_eq!([subtotal, discount, shipping, tax, total].map(|m| m.0), [1_332, 444, 490, 262, 1_640]);
    assert_eq!(order.state, OrderState::Pending);
}
