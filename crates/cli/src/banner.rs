//! What a start says on standard output: where, what, and commands to try it with.

use std::io::Write;

use serde_json::{Map, Value};
use server::Server;

use crate::plan::Plan;
use crate::store::Place;
use crate::{demo, demo_aly, demo_market};

const SEND: &str = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]}}}"#;

pub(crate) fn print(plan: &Plan, base: &str, server: &Server, told: &Map<String, Value>) {
    let data = match plan.config.store.as_ref().and_then(Place::shown) {
        Some(store) => format!("tasks in {store}, data in {}", plan.data.display()),
        None => format!("data in {}", plan.data.display()),
    };
    let mut text = format!("Rialto {} serves A2A on {base} ({data})\n\n", env!("CARGO_PKG_VERSION"));
    for agent in server.agents() {
        let mark = if agent == server.default_agent() { "  (also at the root)" } else { "" };
        text.push_str(&format!("  {base}/a2a/{agent}{mark}\n"));
    }
    for line in demo::lines(told) {
        text.push_str(&format!("  {line}\n"));
    }
    // The shell puts the key in where the config says in which variable it is.
    let variable = plan.config.auth.keys.first().and_then(|key| key.key.strip_prefix("env:"));
    let key = match (plan.config.auth.required, variable) {
        (false, _) => String::new(),
        (true, Some(variable)) => format!(" -H \"Authorization: Bearer ${variable}\""),
        (true, None) => " -H 'Authorization: Bearer KEY'".to_owned(),
    };
    let (at, say) = if plan.roster.is_demo { ("/a2a/scripted", "chunks:5 every:200") } else { ("", "hello") };
    let stream = format!(r#"{{"message":{{"messageId":"m2","role":"ROLE_USER","parts":[{{"text":"{say}"}}]}}}}"#);
    let headers = format!("-H 'A2A-Version: 1.0' -H 'Content-Type: application/json'{key}");
    text.push_str(&format!(
        "\ntry:\n  curl -s {base}/ {headers} -d '{SEND}'\n  curl -sN {base}{at}/message:stream {headers} -d '{stream}'\n  curl -s '{base}/tasks?pageSize=5' -H 'A2A-Version: 1.0'{key}\n\n"
    ));
    if let Some(section) = told.get(demo_market::SECTION) {
        text.push_str(&format!("buy something:\n  {}\n\n", demo_market::try_it(base, section)));
    }
    if told.contains_key(demo_aly::SECTION) {
        text.push_str(&format!("go shopping:\n  {}\n\n", demo_aly::try_it(base)));
    }
    // A closed standard output is no reason not to serve.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
