//! Many buyers and sellers at once, who cancel, repeat requests and run out of money, while the server is killed:
//! no money appears or disappears, no answer is revoked, and no purchase is in an impossible state.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::poll::PATIENCE;
use e2e::seed::Random;
use e2e::until;
use serde_json::{Value, json};

use crate::people::{FREE_HAND, Person, open, start, verify};

/// Buyers and sellers of a short run, and of a long one: a separate process creates each of them, which takes most
/// of a short run's time.
const SHORT: (usize, usize) = (36, 24);
const LONG: (usize, usize) = (120, 80);
/// Rounds of a long run.
const LONG_ROUNDS: u64 = 10;
/// Threads for the buyers, and for the sellers; each thread serves some of them in turn.
const HANDS: usize = 12;
/// The initial balance of all buyers together, for every three rounds: too little for all their orders.
const CREDIT: i64 = 12_000;

/// The known status of a purchase, and a party that can be asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    status: String,
    buyer: String,
}

fn rounds() -> u64 {
    std::env::var("RIALTO_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// The statuses a purchase can have after this one, itself included.
fn reachable(status: &str) -> &'static [&'static str] {
    match status {
        "pending_freeze" => &[
            "pending_freeze",
            "frozen",
            "accepted",
            "delivered",
            "settled",
            "cancelled_by_buyer",
            "rejected_by_seller",
        ],
        "frozen" => &["frozen", "accepted", "delivered", "settled", "cancelled_by_buyer", "rejected_by_seller"],
        "accepted" => &["accepted", "delivered", "settled"],
        "delivered" => &["delivered", "settled"],
        "settled" => &["settled"],
        "cancelled_by_buyer" => &["cancelled_by_buyer"],
        "rejected_by_seller" => &["rejected_by_seller"],
        other => panic!("no such status: {other}"),
    }
}

/// Retries until there is an answer: the server may be down. With a key a repeat has no second effect.
fn insist(who: &Person, verb: &str, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
    until("the server answers", PATIENCE, || match who.try_rest(verb, path, key, body) {
        Ok((status, _)) if status == 503 || status == 500 => None,
        Ok(answer) => Some(answer),
        Err(_) => None,
    })
}

struct Story<'a> {
    known: &'a Mutex<HashMap<String, Known>>,
    over: &'a AtomicBool,
}

impl Story<'_> {
    /// The status in an answer must be reachable from the last known one.
    fn learn(&self, row: &Value) {
        let (id, status) = (row["id"].as_str().unwrap(), row["status"].as_str().unwrap());
        let mut known = self.known.lock().unwrap();
        match known.get(id) {
            // An earlier answer that is processed later.
            Some(before) if before.status != status && reachable(status).contains(&before.status.as_str()) => return,
            Some(before) => assert!(reachable(&before.status).contains(&status), "{id}: {before:?}, then {status}"),
            None => {}
        }
        let buyer = row["buyer_user_id"].as_str().unwrap().to_owned();
        known.insert(id.to_owned(), Known { status: status.to_owned(), buyer });
    }

    fn act(&self, who: &Person, id: &str, verb: &str, random: &mut Random) {
        let body = if verb == "deliver" { json!({ "result_payload": { "n": 1 } }) } else { Value::Null };
        let key = format!("{id}-{verb}-{}", random.draw());
        let path = format!("/transactions/{id}/{verb}");
        let (status, answer) = insist(who, "POST", &path, Some(&key), &body);
        match (status, answer["code"].as_i64().unwrap()) {
            (200, 0) => {
                self.learn(&answer["data"]);
                if random.chance(20) {
                    let (status, again) = insist(who, "POST", &path, Some(&key), &body);
                    assert_eq!(
                        (status, &again["data"]),
                        (200, &answer["data"]),
                        "a repeat is answered as the first was"
                    );
                }
            }
            // Another party was faster, or the balance is used up.
            (409, 4501) | (402, 3001) => {}
            other => panic!("{verb} {id}: {other:?} {answer}"),
        }
    }

    fn buy(&self, buyer: &Person, capabilities: &[String], random: &mut Random) {
        let capability = &capabilities[random.between(0, capabilities.len() as u64) as usize];
        let key = format!("{}-{}", buyer.id, random.draw());
        let body = json!({ "capability_id": capability });
        let (status, answer) = insist(buyer, "POST", "/transactions", Some(&key), &body);
        if status == 402 {
            return;
        }
        assert_eq!(status, 200, "{answer}");
        self.learn(&answer["data"]);
        let id = answer["data"]["id"].as_str().unwrap().to_owned();
        if random.chance(30) {
            let (_, again) = insist(buyer, "POST", "/transactions", Some(&key), &body);
            assert_eq!(again["data"]["id"], json!(id));
        }
        if random.chance(90) {
            self.act(buyer, &id, "freeze", random);
        }
        if random.chance(15) {
            self.act(buyer, &id, "cancel", random);
        }
    }

    fn serve(&self, seller: &Person, random: &mut Random) {
        for status in ["frozen", "accepted"] {
            let path = format!("/transactions?role=seller&status={status}&page_size=20");
            let (code, page) = insist(seller, "GET", &path, None, &Value::Null);
            assert_eq!(code, 200, "{page}");
            for row in page["data"]["items"].as_array().unwrap() {
                let id = row["id"].as_str().unwrap();
                match (status, random.between(0, 10)) {
                    ("frozen", 0 | 1) => self.act(seller, id, "reject", random),
                    ("frozen", _) => self.act(seller, id, "accept", random),
                    _ => self.act(seller, id, "deliver", random),
                }
            }
        }
    }

    fn confirm(&self, buyer: &Person, random: &mut Random) {
        let (code, page) =
            insist(buyer, "GET", "/transactions?role=buyer&status=delivered&page_size=20", None, &Value::Null);
        assert_eq!(code, 200, "{page}");
        for row in page["data"]["items"].as_array().unwrap() {
            self.act(buyer, row["id"].as_str().unwrap(), "confirm", random);
        }
    }
}

fn hundredths(amount: &str) -> i64 {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    whole.parse::<i64>().unwrap() * 100 + format!("{part:0<2}").parse::<i64>().unwrap()
}

#[test]
fn no_money_is_made_or_lost_while_the_server_is_killed() {
    let mut random = Random::from_env("market stress");
    let mut server = start("true");
    let (buyer_count, seller_count) = if rounds() < LONG_ROUNDS { SHORT } else { LONG };
    let credit = CREDIT * rounds().div_ceil(3) as i64 / buyer_count as i64;
    let buyers: Vec<Person> = (0..buyer_count).map(|_| open(&server, &credit.to_string(), FREE_HAND)).collect();
    let sellers: Vec<Person> = (0..seller_count).map(|_| open(&server, "0", &[])).collect();
    let capabilities: Vec<String> = sellers
        .iter()
        .enumerate()
        .map(|(i, seller)| seller.sell(&format!("{}.{:02}", 3 + i % 9, i), json!({})))
        .collect();
    let (known, over) = (Mutex::new(HashMap::new()), AtomicBool::new(false));
    let story = Story { known: &known, over: &over };
    std::thread::scope(|scope| {
        for some in buyers.chunks(buyer_count / HANDS) {
            let (mut random, story, capabilities) = (random.fork(), &story, &capabilities);
            scope.spawn(move || {
                for buyer in some.iter().cycle().take_while(|_| !story.over.load(Ordering::Relaxed)) {
                    story.buy(buyer, capabilities, &mut random);
                    story.confirm(buyer, &mut random);
                }
            });
        }
        for some in sellers.chunks(seller_count / HANDS) {
            let (mut random, story) = (random.fork(), &story);
            scope.spawn(move || {
                for seller in some.iter().cycle().take_while(|_| !story.over.load(Ordering::Relaxed)) {
                    story.serve(seller, &mut random);
                }
            });
        }
        for _ in 0..rounds() {
            let enough = known.lock().unwrap().len() + 150;
            until("more was bought", PATIENCE, || (known.lock().unwrap().len() >= enough).then_some(()));
            // A random point: inside a commit, an answer or a timer.
            std::thread::sleep(Duration::from_micros(random.between(0, 20_000)));
            server.restart();
        }
        over.store(true, Ordering::Relaxed);
    });
    let everybody = || buyers.iter().chain(&sellers);
    let total: i64 = everybody().map(|who| who.wallet()).map(|(a, f)| hundredths(&a) + hundredths(&f)).sum();
    let report = verify(&server);
    assert_eq!(report["differences"], json!([]), "{report}");
    let mut commission = 0;
    for (id, last) in known.lock().unwrap().iter() {
        let buyer = buyers.iter().find(|buyer| buyer.id == last.buyer).expect("a buyer of this run");
        let (status, answer) = buyer.rest("GET", &format!("/transactions/{id}"), &Value::Null);
        assert_eq!(status, 200, "{id} was answered and is gone: {answer}");
        let row = &answer["data"];
        let status = row["status"].as_str().unwrap();
        assert!(reachable(&last.status).contains(&status), "{id}: {last:?}, then {status}");
        if status == "settled" {
            commission += hundredths(row["commission_ut"].as_str().unwrap());
        }
    }
    // Requests whose answer was lost were repeated, so every purchase is known.
    assert_eq!(total + commission, buyer_count as i64 * credit * 100);
    eprintln!("{} purchases, commission {commission}", known.lock().unwrap().len());
}
