//! Two hundred buyers want the last fifty items at once, while the server is killed: fifty are sold, to exactly the
//! buyers whose order was confirmed, and no token buys twice.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use cluster::{Cluster, Database};
use e2e::http::Request;
use e2e::seed::Random;
use e2e::server::Options;
use e2e::{Client, Server, fold, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::desk::{
    BASE, KEY, complete, filled_cart, left, operate, own_context, payload, shop, shop_and, skill, state, stock, text,
    verify, with_token,
};

const BUYERS: usize = 200;
const PIECES: usize = 50;
/// Long, for many concurrent requests and server restarts.
const LONG: Duration = Duration::from_secs(180);

fn rounds() -> usize {
    std::env::var("RIALTO_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// The key files that replicas share.
pub(crate) struct Sealed(TempDir);

pub(crate) fn sealed() -> Sealed {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("seal.key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    Sealed(folder)
}

impl Sealed {
    pub(crate) fn replica(&self, more: &str, database: &Database) -> Options {
        let key = self.0.path().join("seal.key");
        shop_and(more, &format!("push: {{ key_file: {} }}", key.display())).database(&database.url())
    }
}

/// A buyer's tokens after a checkout.
struct Checkout {
    session: String,
    confirmation: String,
}

/// Progress so far, to choose the moments of the kills.
#[derive(Default)]
struct Story {
    carts: AtomicUsize,
    checked_out: AtomicUsize,
    sold: AtomicUsize,
    short: AtomicUsize,
    /// Order ids, and every task that was answered.
    orders: Mutex<BTreeSet<String>>,
    answered: Mutex<Vec<Value>>,
}

/// A buyer of one item.
struct Buyer<'a> {
    story: &'a Story,
    product: &'a str,
    servers: &'a [SocketAddr],
    random: Random,
}

impl Buyer<'_> {
    fn anywhere(&mut self) -> SocketAddr {
        self.servers[self.random.between(0, self.servers.len() as u64) as usize]
    }

    /// A request to any server; `None` without an answer, or without one that tells the outcome.
    fn try_rpc(&mut self, method: &str, params: Value) -> Option<Value> {
        let client = Client::new(self.anywhere(), BASE).with("Authorization", &format!("Bearer {KEY}"));
        match client.try_rpc(method, params).ok()? {
            Ok(result) => Some(result),
            Err(error) if error["code"] == -32603 => None,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    fn try_skill(&mut self, context: &str, data: Value) -> Option<Value> {
        let mut message = payload(data);
        message["contextId"] = json!(context);
        let task = self.try_rpc("SendMessage", json!({ "message": message }))?["task"].clone();
        self.story.answered.lock().unwrap().push(task.clone());
        Some(task)
    }

    /// A cart with one item. A buyer without an answer takes another cart: a cart reserves nothing.
    fn try_cart(&mut self, context: &str) -> Option<String> {
        let create = json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" });
        let cart = text(&self.try_skill(context, create)?["artifacts"][0]["parts"][0]["data"]["token"]);
        let add = json!({ "skill": "cart-management", "action": "add", "site_slug": "acme",
                          "cart_token": cart, "product_id": self.product });
        let task = self.try_skill(context, add)?;
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
        Some(cart)
    }

    /// The end of a checkout, or none if the stock is gone. A lost answer is looked up: a checkout that was started
    /// has a task, and the task has an end.
    fn check_out(&mut self, cart: &str) -> Option<Checkout> {
        let context = own_context();
        let data = json!({ "skill": "checkout", "site_slug": "acme", "cart_token": cart });
        let task = until("a checkout has an end", LONG, || {
            if let Some(task) = self.try_skill(&context, data.clone()) {
                return Some(task);
            }
            let known = until("the tasks are told", LONG, || {
                self.try_rpc("ListTasks", json!({ "contextId": context, "limit": 100 }))
            });
            let known = known["tasks"].as_array().unwrap().clone();
            if known.is_empty() {
                return None;
            }
            let ids: Vec<String> = known.iter().map(|task| text(&task["id"])).collect();
            let ended: Vec<Value> = ids.iter().map(|id| self.settled(id)).collect();
            // Of several, one may have found the cart in another's checkout.
            let best = ended.iter().find(|task| state(task) == "TASK_STATE_COMPLETED").or(ended.first());
            best.cloned()
        });
        let words = text(&task["status"]["message"]["parts"][0]["text"]);
        match state(&task) {
            "TASK_STATE_COMPLETED" => {
                let data = &task["artifacts"][0]["parts"][0]["data"];
                let (session, confirmation) = (text(&data["id"]), text(&data["confirmation_token"]));
                Some(Checkout { session, confirmation })
            }
            "TASK_STATE_FAILED" if words.contains("only 0 left") => None,
            other => panic!("{other}: {task}"),
        }
    }

    fn settled(&mut self, id: &str) -> Value {
        until("a task that was begun has an end", LONG, || {
            let task = self.try_rpc("GetTask", json!({ "id": id }))?;
            fold::is_settled(state(&task)).then_some(task)
        })
    }

    /// Completes it, and retries until there is an answer.
    fn insist(&self, addr: SocketAddr, bought: &Checkout, key: &str) -> (u16, Value) {
        until("a completion is answered", LONG, || {
            let answer = complete(addr, &bought.session, &bought.confirmation, key).ok()?;
            (answer.status() < 500).then(|| (answer.status(), answer.json()))
        })
    }

    /// Two concurrent completions with one token and different keys: one buys.
    fn complete(&mut self, bought: &Checkout) {
        let at = [self.anywhere(), self.anywhere()];
        let this = &*self;
        let answers = std::thread::scope(|scope| {
            let both = ["one", "two"].map(|key| {
                let addr = at[usize::from(key == "two")];
                scope.spawn(move || this.insist(addr, bought, key))
            });
            both.map(|one| one.join().unwrap())
        });
        let statuses: BTreeSet<u16> = answers.iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, BTreeSet::from([200, 409]), "{answers:?}");
        for (status, answer) in &answers {
            if *status == 409 {
                assert_eq!(answer["error"]["code"], "token_used", "{answer}");
            }
        }
        let won = usize::from(answers[1].0 == 200);
        let order = text(&answers[won].1["order"]["order_id"]);
        // Repeating the same request gives the same order; a different one gives none.
        let again = self.insist(at[0], bought, ["one", "two"][won]);
        assert_eq!((again.0, &again.1["order"]["order_id"]), (200, &json!(order)), "{again:?}");
        assert_eq!(self.insist(at[1], bought, "three").0, 409);
        assert!(self.story.orders.lock().unwrap().insert(order), "an order of its own");
        self.story.sold.fetch_add(1, Ordering::SeqCst);
    }

    fn buy(mut self, everybody: &Barrier) {
        let cart = until("a cart has one piece in it", LONG, || self.try_cart(&own_context()));
        self.story.carts.fetch_add(1, Ordering::SeqCst);
        // All at once: each buyer has a cart that could be sold.
        everybody.wait();
        let Some(bought) = self.check_out(&cart) else {
            self.story.short.fetch_add(1, Ordering::SeqCst);
            return;
        };
        self.story.checked_out.fetch_add(1, Ordering::SeqCst);
        self.complete(&bought);
    }
}

/// All buyers order while servers are killed again and again.
fn rush(servers: &mut [Server], product: &str, random: &mut Random) -> Story {
    stock(&servers[0], &format!("{product},Last hat,10.00,{PIECES}"));
    assert_eq!(left(&servers[0], product), PIECES as u64);
    let addrs: Vec<SocketAddr> = servers.iter().map(Server::addr).collect();
    let (story, everybody) = (Story::default(), Barrier::new(BUYERS));
    std::thread::scope(|scope| {
        for _ in 0..BUYERS {
            let buyer = Buyer { story: &story, product, servers: &addrs, random: random.fork() };
            let everybody = &everybody;
            scope.spawn(move || buyer.buy(everybody));
        }
        // Once while carts are filled, once while stock is reserved, once while it is sold.
        for (what, seen, most) in [
            ("some carts are filled", &story.carts, BUYERS),
            ("some are checked out", &story.checked_out, PIECES),
            ("some are sold", &story.sold, PIECES),
        ] {
            let enough = random.between(1, most as u64) as usize;
            until(what, LONG, || (seen.load(Ordering::SeqCst) >= enough).then_some(()));
            // A random point: inside a commit, an answer or a timer.
            std::thread::sleep(Duration::from_micros(random.between(0, 20_000)));
            let victim = random.between(0, servers.len() as u64) as usize;
            servers[victim].restart();
        }
    });
    story
}

/// The ids of all orders of the shop.
fn orders(server: &Server) -> BTreeSet<String> {
    let (mut all, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/api/storefront/v1/orders?site_slug=acme&limit=100{cursor}");
        let request = Request::new("GET", &path).header("Authorization", &format!("Bearer {KEY}"));
        let page = server.exchange(&request).json();
        for order in page["orders"].as_array().unwrap_or_else(|| panic!("{page}")) {
            assert!(all.insert(text(&order["order_id"])), "{order}");
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn sell_out(mut servers: Vec<Server>, name: &str) {
    let mut random = Random::from_env(name);
    let mut expected = BTreeSet::new();
    for round in 0..rounds() {
        let product = format!("last-{round}");
        let story = rush(&mut servers, &product, &mut random);
        assert_eq!(story.sold.load(Ordering::SeqCst), PIECES, "round {round}");
        assert_eq!(story.short.load(Ordering::SeqCst), BUYERS - PIECES, "round {round}");
        expected.extend(story.orders.into_inner().unwrap());
        for server in &servers {
            assert_eq!(left(server, &product), 0, "round {round}");
            assert_eq!(orders(server), expected, "round {round}: those that were told, and no others");
        }
        let report = verify(&servers[0]);
        assert_eq!(report["orders"], json!((round + 1) * PIECES), "round {round}: {report}");
        // Answered orders stay.
        let owner = Client::new(servers[0].addr(), BASE).with("Authorization", &format!("Bearer {KEY}"));
        let answered = story.answered.into_inner().unwrap();
        for task in answered.iter().step_by(7) {
            assert_eq!(owner.task(&text(&task["id"])), *task, "round {round}");
        }
        eprintln!("{name}: round {round}: {} tasks answered, {} sold", answered.len(), PIECES);
    }
    // The audit without a server finds the same.
    for server in &mut servers {
        server.kill9();
    }
    verify(&servers[0]);
}

/// The answers to concurrent requests, in any order.
fn at_once<T: Send>(count: usize, ask: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let everybody = Barrier::new(count);
    std::thread::scope(|scope| {
        let (everybody, ask) = (&everybody, &ask);
        let asking = (0..count).map(|number| {
            scope.spawn(move || {
                everybody.wait();
                ask(number)
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn failed(tasks: &[Value], words: &str) -> usize {
    let all = tasks.iter().filter(|task| state(task) == "TASK_STATE_FAILED");
    let all: Vec<String> = all.map(|task| text(&task["status"]["message"]["parts"][0]["text"])).collect();
    assert!(all.iter().all(|said| said.contains(words)), "{all:?}");
    all.len()
}

#[test]
fn one_cart_is_checked_out_once_however_many_ask() {
    let server = shop("").start();
    stock(&server, "hat,Sun hat,19.90,30");
    let till = with_token(&server, KEY);
    let cart = filled_cart(&till, "hat", 1);
    let ask = json!({ "skill": "checkout", "site_slug": "acme", "cart_token": cart });
    let tasks = at_once(20, |_| skill(&till, ask.clone()));
    assert_eq!(failed(&tasks, "being checked out"), 19);
    assert_eq!(left(&server, "hat"), 29);
    assert_eq!(verify(&server)["checkouts"], 1);
}

#[test]
fn a_coupon_for_five_is_used_five_times() {
    let server = shop("").start();
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let catalogue = json!({
        "products": [{ "id": "hat", "name": "Sun hat", "price": "19.90", "stock": 100 }],
        "coupons": [{ "code": "FIVE", "percent": "50", "limit": 5 }],
    });
    std::fs::write(file.path(), catalogue.to_string()).unwrap();
    operate(&server, &["shop", "import", "--site", "acme", file.path().to_str().unwrap()]);
    let till = with_token(&server, KEY);
    let carts: Vec<String> = (0..40)
        .map(|_| {
            let cart = filled_cart(&till, "hat", 1);
            let coupon = json!({ "skill": "cart-management", "action": "apply-coupon", "site_slug": "acme",
                                 "cart_token": cart, "code": "FIVE" });
            assert_eq!(state(&skill(&till, coupon)), "TASK_STATE_COMPLETED");
            cart
        })
        .collect();
    let ask =
        |number: usize| skill(&till, json!({ "skill": "checkout", "site_slug": "acme", "cart_token": carts[number] }));
    let tasks = at_once(carts.len(), ask);
    assert_eq!(failed(&tasks, "used up"), 35);
    assert_eq!(left(&server, "hat"), 95, "whoever had no coupon had nothing set aside");
    verify(&server);
}

/// The product's default lease: with a shorter one a database this busy counts as unreachable, and orders fail.
const LEASE: Duration = Duration::from_secs(10);

#[test]
fn stress_two_hundred_come_for_the_last_fifty_and_fifty_are_sold() {
    sell_out(vec![shop("").lease(LEASE).start()], "shop stress");
}

#[test]
fn stress_two_replicas_sell_the_last_fifty_once() {
    let (database, keys) = (Cluster::shared().database(), sealed());
    let start = |_| keys.replica("", &database).lease(LEASE).start();
    sell_out((0..2).map(start).collect(), "shop stress, two replicas");
}
