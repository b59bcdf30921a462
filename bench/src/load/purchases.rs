//! Purchases made whole: ordered, frozen, accepted, delivered and confirmed, one after the other on every connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Connection, Target};
use crate::{excerpt, percentile};

/// A buyer, a seller and what is bought.
#[derive(Clone)]
struct Pair {
    buyer: String,
    seller: String,
    capability: String,
}

fn headers(person: &Value) -> String {
    let text = |name: &str| person[name].as_str().unwrap_or_default().to_owned();
    format!("X-Api-Key: {}\r\nX-Platform-User-Id: {}\r\n", text("api_key"), text("user_id"))
}

/// One step: the `data` of its answer.
async fn step(connection: &mut Connection, path: &str, who: &str, body: &str) -> Result<Value, String> {
    let status = connection.post_to(path, who, body).await?;
    let mut read = Vec::new();
    connection.all(&mut read).await?;
    let answer: Value = serde_json::from_slice(&read).map_err(|e| format!("{e}: {}", excerpt(&read)))?;
    if status != 200 || answer["code"] != 0 {
        return Err(format!("{status} {}", answer["message"]));
    }
    Ok(answer["data"].clone())
}

async fn purchase(connection: &mut Connection, base: &str, pair: &Pair) -> Result<(), String> {
    let order = json!({ "capability_id": pair.capability }).to_string();
    let made = step(connection, &format!("{base}/transactions"), &pair.buyer, &order).await?;
    let id = made["id"].as_str().ok_or("an order without an id")?.to_owned();
    let mut last = Value::Null;
    for (verb, who, body) in [
        ("freeze", &pair.buyer, "{}"),
        ("accept", &pair.seller, "{}"),
        ("deliver", &pair.seller, r#"{"result_payload":{"total":"99.50"}}"#),
        ("confirm", &pair.buyer, "{}"),
    ] {
        last = step(connection, &format!("{base}/transactions/{id}/{verb}"), who, body).await?;
    }
    if last["status"] == "settled" { Ok(()) } else { Err(format!("not settled: {last}")) }
}

#[derive(Default)]
struct Seen {
    micros: Vec<f64>,
    errors: HashMap<String, u64>,
}

pub async fn run(target: Target, people: &str, connections: u64, seconds: u64) -> Value {
    let pairs: Vec<Pair> = people
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("a line of JSON for each pair");
            let capability = line["capability"].as_str().expect("what is bought").to_owned();
            Pair { buyer: headers(&line["buyer"]), seller: headers(&line["seller"]), capability }
        })
        .collect();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let local = tokio::task::LocalSet::new();
    for number in 0..connections as usize {
        let (target, pair, seen) = (target.clone(), pairs[number % pairs.len()].clone(), seen.clone());
        local.spawn_local(async move {
            let mut connection = None;
            while Instant::now() < until {
                let at = Instant::now();
                let made = async {
                    if connection.is_none() {
                        connection = Some(Connection::open(&target).await?);
                    }
                    match &mut connection {
                        Some(connection) => purchase(connection, target.path.trim_end_matches('/'), &pair).await,
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
