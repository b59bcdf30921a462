//! Purchases made whole: ordered, frozen, accepted, delivered and confirmed, one after the other on every connection.
//!
//! It shares the cores with what it measures: requests are written beforehand, and of the answers is read what must be in
//! them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use memchr::memmem::find;
use serde_json::{Value, json};

use crate::http::{Connection, Target};
use crate::{excerpt, percentile};

/// A buyer, a seller and what is bought: all that is sent of them, written once.
struct Pair {
    /// The order, whole.
    order: Vec<u8>,
    /// Each later step, before and after the purchase's id, and what the purchase must be then.
    steps: [(Vec<u8>, Vec<u8>, &'static [u8]); 4],
}

fn headers(person: &Value) -> String {
    let text = |name: &str| person[name].as_str().unwrap_or_default().to_owned();
    format!("X-Api-Key: {}\r\nX-Platform-User-Id: {}\r\n", text("api_key"), text("user_id"))
}

impl Pair {
    fn of(target: &Target, line: &str) -> Pair {
        let line: Value = serde_json::from_str(line).expect("a line of JSON for each pair");
        let (buyer, seller) = (headers(&line["buyer"]), headers(&line["seller"]));
        let begin = format!("POST {}/transactions", target.path.trim_end_matches('/'));
        let rest = |who: &str, body: &str| {
            let (host, length) = (&target.host, body.len());
            let json = "Content-Type: application/json";
            format!(" HTTP/1.1\r\nHost: {host}\r\n{json}\r\n{who}Content-Length: {length}\r\n\r\n{body}")
        };
        let order = json!({ "capability_id": line["capability"].as_str().expect("what is bought") }).to_string();
        let order = format!("{begin}{}", rest(&buyer, &order)).into_bytes();
        let step = |verb: &str, who: &str, body: &str, then: &'static str| {
            let after = format!("/{verb}{}", rest(who, body));
            (format!("{begin}/").into_bytes(), after.into_bytes(), then.as_bytes())
        };
        let steps = [
            step("freeze", &buyer, "{}", r#","status":"frozen","#),
            step("accept", &seller, "{}", r#","status":"accepted","#),
            step("deliver", &seller, r#"{"result_payload":{"total":"99.50"}}"#, r#","status":"delivered","#),
            step("confirm", &buyer, "{}", r#","status":"settled","#),
        ];
        Pair { order, steps }
    }
}

/// How every good answer begins; the purchase's id follows.
const GOOD: &[u8] = br#"{"code":0,"message":"success","data":{"id":""#;

/// One step: it must have gone well and have led to `then`. The answer's body stays in `read`; where the id is in it.
async fn step(
    connection: &mut Connection,
    request: &[u8],
    then: &[u8],
    read: &mut Vec<u8>,
) -> Result<Range<usize>, String> {
    let status = connection.ask(request).await?;
    read.clear();
    connection.all(read).await?;
    let id = read.strip_prefix(GOOD).and_then(|rest| memchr::memchr(b'"', rest));
    match id {
        Some(length) if status == 200 && length > 0 && find(read, then).is_some() => {
            Ok(GOOD.len()..GOOD.len() + length)
        }
        _ => match serde_json::from_slice::<Value>(read) {
            Ok(answer) if answer["code"] != 0 => Err(format!("{status} {}", answer["message"])),
            Ok(answer) => Err(format!("{status} and then {}", answer["data"]["status"])),
            Err(_) => Err(format!("{status} {}", excerpt(read))),
        },
    }
}

/// The buffers of a connection, used again for each request.
#[derive(Default)]
struct Paper {
    request: Vec<u8>,
    read: Vec<u8>,
    id: Vec<u8>,
}

async fn purchase(connection: &mut Connection, pair: &Pair, paper: &mut Paper) -> Result<(), String> {
    let id = step(connection, &pair.order, br#","status":"pending_freeze","#, &mut paper.read).await?;
    paper.id.clear();
    paper.id.extend_from_slice(&paper.read[id]);
    for (before, after, then) in &pair.steps {
        paper.request.clear();
        for part in [before, &paper.id, after] {
            paper.request.extend_from_slice(part);
        }
        let id = step(connection, &paper.request, then, &mut paper.read).await?;
        if paper.read[id] != paper.id[..] {
            return Err("another purchase".to_owned());
        }
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    micros: Vec<f64>,
    errors: HashMap<String, u64>,
}

pub async fn run(target: Target, people: &str, connections: u64, seconds: u64) -> Value {
    let pairs: Vec<Rc<Pair>> = people.lines().map(|line| Rc::new(Pair::of(&target, line))).collect();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let local = tokio::task::LocalSet::new();
    for number in 0..connections as usize {
        let (target, pair, seen) = (target.clone(), pairs[number % pairs.len()].clone(), seen.clone());
        local.spawn_local(async move {
            let (mut connection, mut paper) = (None, Paper::default());
            while Instant::now() < until {
                let at = Instant::now();
                let made = async {
                    if connection.is_none() {
                        connection = Some(Connection::open(&target).await?);
                    }
                    match &mut connection {
                        Some(connection) => purchase(connection, &pair, &mut paper).await,
                        None => Ok(()),
                    }
                };
                match made.await {
                    Ok(()) => seen.borrow_mut().micros.push(at.elapsed().as_secs_f64() * 1e6),
                    Err(error) => {
                        connection = None;
                        *seen.borrow_mut().errors.entry(error).or_default() += 1;
                    }
                }
            }
        });
    }
    local.await;
    let took = began.elapsed().as_secs_f64();
    let mut seen = seen.borrow_mut();
    seen.micros.sort_by(f64::total_cmp);
    let ok = seen.micros.len();
    json!({
        "c": connections, "ok": ok, "rps": ok as f64 / took, "seconds": took,
        "p50_us": percentile(&seen.micros, 0.5), "p99_us": percentile(&seen.micros, 0.99), "errors": seen.errors,
    })
}
