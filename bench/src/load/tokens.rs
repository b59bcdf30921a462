//! Streams of a model whose every token says when it was sent, read to their ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use memchr::{memchr, memmem::find};
use serde_json::{Value, json};

use crate::http::{Connection, Target};
use crate::{STREAM, excerpt, percentile};

/// The form of a request, and its recipient.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// An agent, by SendStreamingMessage.
    Agent,
    /// The model itself.
    Chat,
}

#[derive(Default)]
struct Seen {
    micros: Vec<f64>,
    first: Vec<f64>,
    ok: u64,
    events: u64,
    errors: HashMap<String, u64>,
}

fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u64)
}

fn body(form: Form, tokens: u64, number: u64, run: &str) -> String {
    let text = format!("tokens:{tokens}");
    let body = match form {
        Form::Chat => json!({"model": "bench", "stream": true, "messages": [{"role": "user", "content": text}]}),
        Form::Agent => json!({
            "jsonrpc": "2.0", "id": number.to_string(), "method": "SendStreamingMessage",
            "params": {"message": {
                "messageId": format!("{run}-{number}"), "role": "ROLE_USER", "parts": [{"text": text}],
            }},
        }),
    };
    body.to_string()
}

/// One stream, read as it comes: each token once, in order, and the end that belongs to it.
async fn follow(target: &Target, form: Form, tokens: u64, body: &str, seen: &RefCell<Seen>) -> Result<(), String> {
    let began = Instant::now();
    let mut connection = Connection::open(target).await?;
    let status = connection.post(STREAM, body).await?;
    let (mut read, mut at, mut stamps, mut last, mut whole) = (Vec::new(), 0, 0, 0, true);
    while connection.some(&mut read).await? {
        let arrived = now();
        while let Some(mark) = memchr(b'@', &read[at..]) {
            let Some(digits) = read.get(at + mark + 1..at + mark + 17) else { break };
            let sent = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<u64>().ok());
            at += mark + 17;
            let Some(sent) = sent else { continue };
            if stamps == 0 {
                seen.borrow_mut().first.push(began.elapsed().as_secs_f64() * 1e6);
            }
            stamps += 1;
            whole &= sent > last;
            last = sent;
            seen.borrow_mut().micros.push(arrived.saturating_sub(sent) as f64);
        }
    }
    let end: &[u8] = match form {
        Form::Agent => b"TASK_STATE_COMPLETED",
        Form::Chat => b"[DONE]",
    };
    seen.borrow_mut().events += memchr::memmem::find_iter(&read, b"data: ").count() as u64;
    if status != 200 || find(&read, end).is_none() {
        return Err(format!("not completed: {status} {}", excerpt(&read)));
    }
    if stamps != tokens || !whole {
        return Err(format!("{stamps} of {tokens} tokens, each later than the one before: {whole}"));
    }
    seen.borrow_mut().ok += 1;
    Ok(())
}

/// Reads so many streams at a time, each of so many tokens.
pub async fn run(target: Target, form: Form, streams: u64, tokens: u64) -> Value {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let began = Instant::now();
    let run = format!("{:x}", now());
    let local = tokio::task::LocalSet::new();
    for number in 0..streams {
        let (target, seen, body) = (target.clone(), seen.clone(), body(form, tokens, number, &run));
        local.spawn_local(async move {
            let limit = Duration::from_millis(tokens * 20) + Duration::from_secs(60);
            let followed = tokio::time::timeout(limit, follow(&target, form, tokens, &body, &seen)).await;
            if let Err(error) = followed.unwrap_or_else(|_| Err(format!("not over in {limit:?}"))) {
                *seen.borrow_mut().errors.entry(error).or_default() += 1;
            }
        });
    }
    local.await;
    let mut seen = seen.borrow_mut();
    let Seen { micros, first, .. } = &mut *seen;
    micros.sort_by(f64::total_cmp);
    first.sort_by(f64::total_cmp);
    json!({
        "c": streams, "ok": seen.ok, "tokens": seen.micros.len(), "events": seen.events,
        "seconds": began.elapsed().as_secs_f64(),
        "p50_us": percentile(&seen.micros, 0.5), "p90_us": percentile(&seen.micros, 0.9),
        "p99_us": percentile(&seen.micros, 0.99), "first_p50_us": percentile(&seen.first, 0.5),
        "errors": seen.errors,
    })
}
