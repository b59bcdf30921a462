//! The config in force for operators: every value with its source. `rialto config show` prints it, and the admin API answers
//! it.
//!
//! * Keys of the server that have a default are always listed, with the value that the server uses; of agents and products,
//!   and of other keys without a default, those that are written.
//! * No secret is shown. Where a secret is read from (`env:NAME`, `file:PATH`) is no secret. Every other text is hidden where
//!   the name of its key says that it may be one, addresses are shown without user, password and query, and of programs
//!   only the first word is.

use gateway::Settings;
use gateway::effective_config::{ConfigSource, EffectiveConfig, EffectiveValue};
use gateway::settings::CardForm;
use model::Limits;
use serde_json::{Value, json};

use super::tree::{Is, Node};
use crate::plan::Plan;

/// Shown in place of a secret.
const HIDDEN: &str = "***";
const HOUR_MS: u64 = 3_600_000;
/// The most values.
const MOST: usize = 20_000;

/// The sources of the values.
struct Facts<'a> {
    plan: &'a Plan,
    settings: &'a Settings,
    limits: Limits,
}

type Read = fn(&Facts<'_>) -> Value;

/// The keys that always have a value, or always a meaning.
const KEYS: &[(&str, Read)] = &[
    ("listen", |f| json!(f.settings.listen.to_string())),
    ("data", |f| json!(f.plan.data.display().to_string())),
    ("store", |f| json!(f.plan.config.store.clone().unwrap_or_default().in_words())),
    ("public_url", |f| json!(f.settings.public_url)),
    ("default", |f| json!(&*f.settings.default_agent)),
    ("card", |f| match f.settings.card {
        CardForm::Hybrid => json!("hybrid"),
        CardForm::Clean => json!("clean"),
    }),
    ("strict_version", |f| json!(f.settings.strict_version)),
    ("durability", |f| match f.plan.config.durability {
        Some(super::Durability::Relaxed) => json!("relaxed"),
        Some(super::Durability::Full) | None => json!("full"),
    }),
    ("any_input_mode", |f| json!(f.limits.any_input_mode)),
    ("cache_mib", |f| json!(f.settings.cache_bytes >> 20)),
    ("workers", |f| json!(f.plan.workers())),
    ("visibility", |f| json!(format!("{:?}", f.settings.visibility).to_lowercase())),
    ("auth.required", |f| json!(f.settings.auth_required)),
    ("console.enabled", |f| json!(f.settings.console)),
    ("cors.origins", |f| json!(f.settings.cors_origins)),
    ("cors.loopback", |f| json!(f.settings.cors_loopback)),
    ("trusted_proxies", |f| json!(f.plan.config.trusted_proxies)),
    ("grpc.listen", |f| json!(f.plan.config.grpc.listen.map(|address| address.to_string()))),
    ("grpc.advertise", |f| json!(f.settings.grpc_card.is_some())),
    ("files.inline_max_bytes", |f| json!(f.settings.files.inline_max_bytes)),
    ("files.url_expires_s", |f| json!(f.settings.files.url_expires_s)),
    ("log.format", |f| match f.plan.config.log.format {
        Some(super::LogFormat::Json) => json!("json"),
        Some(super::LogFormat::Text) | None => json!("text"),
    }),
    ("log.level", |f| json!(f.plan.config.log.level.as_deref().unwrap_or("info"))),
    ("log.requests", |f| json!(f.plan.config.log.requests.unwrap_or(true))),
    ("timeouts.header_ms", |f| json!(f.settings.timeouts.header_ms)),
    ("timeouts.body_ms", |f| json!(f.settings.timeouts.body_ms)),
    ("timeouts.write_ms", |f| json!(f.settings.timeouts.write_ms)),
    ("timeouts.heartbeat_ms", |f| json!(f.settings.heartbeat_ms)),
    ("timeouts.turn_ms", |f| json!(f.limits.turn_timeout_ms)),
    ("timeouts.cancel_grace_ms", |f| json!(f.limits.cancel_grace_ms)),
    ("timeouts.drain_ms", |f| json!(f.limits.drain_ms)),
    ("limits.body_bytes", |f| json!(f.limits.body_bytes)),
    ("limits.json_depth", |f| json!(f.limits.json_depth)),
    ("limits.data_depth", |f| json!(f.limits.data_depth)),
    ("limits.bodies_mib", |f| json!(f.settings.bodies_bytes >> 20)),
    ("limits.answers_mib", |f| json!(f.settings.answers_bytes >> 20)),
    ("limits.live_mib", |f| json!(f.limits.live_bytes >> 20)),
    ("limits.connections", |f| json!(f.settings.connections)),
    ("limits.connections_per_address", |f| json!(f.settings.connections_per_address)),
    ("limits.running_turns", |f| json!(f.limits.running_turns)),
    ("limits.turn_bytes", |f| json!(f.limits.turn_bytes)),
    ("limits.waiting_messages", |f| json!(f.limits.waiting_messages)),
    ("limits.attempts", |f| json!(f.limits.attempts)),
    ("limits.retention_hours", |f| json!(f.limits.retention_ms / HOUR_MS)),
    ("limits.idempotency_hours", |f| json!(f.limits.idempotency_ms / HOUR_MS)),
    ("limits.wal_mib", |f| json!(f.plan.config.limits.wal_mib.unwrap_or(64))),
    ("limits.streams_per_caller", |f| json!(f.settings.throttle.streams_per_caller)),
    ("limits.waiting_per_caller", |f| json!(f.settings.throttle.waiting_per_caller)),
    ("limits.daily_calls", |f| json!(f.settings.throttle.daily_calls)),
    ("push.enabled", |f| json!(f.plan.config.push.enabled.unwrap_or(true))),
    ("push.allow", |f| json!(f.plan.config.push.allow)),
    ("push.jwt", |f| json!(f.plan.config.push.jwt)),
    ("push.timeout_ms", |f| json!(f.plan.config.push.timeout_ms.unwrap_or(15_000))),
    ("push.configs", |f| json!(f.limits.push.configs)),
    ("push.deliveries", |f| json!(f.limits.push.deliveries)),
    ("push.deliveries_per_endpoint", |f| json!(f.limits.push.deliveries_per_endpoint)),
    ("push.retry_ms", |f| json!(f.limits.push.retry_ms)),
    ("push.retry_most_ms", |f| json!(f.limits.push.retry_most_ms)),
];

/// The config of a plan.
pub(crate) fn effective(plan: &Plan, settings: &Settings) -> EffectiveConfig {
    let facts = Facts { plan, settings, limits: plan.limits() };
    let tree = plan.config.tree.as_deref();
    let mut values: Vec<EffectiveValue> = Vec::new();
    for (path, read) in KEYS {
        let line = tree.and_then(|tree| tree.at(path)).map(|node| node.line);
        values.push(value_at(path, read(&facts), line, plan.flag_of(path)));
    }
    if let Some(tree) = tree {
        walk(tree, "", &mut |path, node| {
            if !is_known(path, node) && values.len() < MOST {
                values.push(value_at(path, node.to_value(), Some(node.line), plan.flag_of(path)));
            }
        });
    }
    for flag in &plan.flags {
        if !values.iter().any(|value| value.path == flag.path) {
            values.push(value_at(&flag.path, flag_value(&flag.text), None, Some(flag.name)));
        }
    }
    if let Some((names, before)) = &plan.held {
        let is_held = |value: &EffectiveValue| names.iter().any(|name| is_within(&value.path, name));
        values.retain(|value| !is_held(value));
        values.extend(before.values.iter().filter(|value| is_held(value)).cloned());
    }
    values.sort_by(|a, b| a.path.cmp(&b.path));
    EffectiveConfig { file: plan.file.as_ref().map(|file| file.display().to_string()), values }
}

/// Whether a value of the file is one of [`KEYS`], or a short form of several of them such as `push: off`.
fn is_known(path: &str, node: &Node) -> bool {
    let is_short = |key: &str| {
        matches!(node.is, Is::Scalar(_)) && key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
    };
    let is_item = |key: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
    KEYS.iter().any(|(key, _)| is_item(key) || is_short(key))
}

/// The text of a flag, without anything that may be a secret.
fn flag_value(text: &str) -> Value {
    match text.strip_prefix("command:") {
        Some(words) => json!(format!("command:{}", program("command", words))),
        None => json!(without_credentials(text)),
    }
}

fn is_within(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn value_at(path: &str, value: Value, line: Option<u64>, flag: Option<&'static str>) -> EffectiveValue {
    let value = masked(path, value);
    let environment = value.as_str().and_then(|text| text.strip_prefix("env:")).map(str::to_owned);
    let source = match (flag, line) {
        (Some(_), _) => ConfigSource::Flag,
        (None, Some(_)) => ConfigSource::File,
        (None, None) => ConfigSource::Default,
    };
    let line = line.filter(|_| flag.is_none());
    EffectiveValue { path: path.to_owned(), value, source, line, flag: flag.map(str::to_owned), environment }
}

/// Every value that is no map, and no list with members.
fn walk(node: &Node, path: &str, see: &mut impl FnMut(&str, &Node)) {
    match &node.is {
        Is::Map(members) if !members.is_empty() => {
            for (name, member) in members {
                // A name with a point is one step all the same.
                let step = if name.contains(['.', '[', ']']) { format!("[{name:?}]") } else { name.clone() };
                let joined = match (path.is_empty(), step.starts_with('[')) {
                    (true, _) => step,
                    (false, true) => format!("{path}{step}"),
                    (false, false) => format!("{path}.{step}"),
                };
                walk(member, &joined, see);
            }
        }
        Is::List(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                walk(item, &format!("{path}[{number}]"), see);
            }
        }
        Is::Map(_) | Is::List(_) | Is::Scalar(_) => see(path, node),
    }
}

/// Names of keys below which every text may be a secret.
const SECRET_GROUPS: [&str; 6] = ["headers", "secret_headers", "env", "environment", "secrets", "credentials"];
/// Ends of the names of keys whose text may be one.
const SECRET_ENDS: [&str; 9] =
    ["key", "secret", "password", "passphrase", "token", "bearer", "credential", "credentials", "authorization"];
/// Keys with such a name that hold the place of a file, or a word.
const NO_SECRETS: [&str; 1] = ["tls.key"];
/// Keys with the words of a program.
const PROGRAMS: [&str; 2] = ["command", "args"];

fn masked(path: &str, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked_text(path, text)),
        Value::Array(items) => items.into_iter().map(|item| masked(path, item)).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => other,
    }
}

fn masked_text(path: &str, text: String) -> String {
    if is_reference(&text) || NO_SECRETS.contains(&path) {
        return text;
    }
    let steps: Vec<String> =
        path.split(['.', '[', ']', '"']).filter(|step| !step.is_empty()).map(str::to_lowercase).collect();
    let names = steps.iter().filter(|step| step.parse::<usize>().is_err());
    let last = names.clone().next_back().map(String::as_str).unwrap_or_default();
    let in_group = || steps.iter().any(|step| SECRET_GROUPS.contains(&step.as_str()));
    if in_group() || SECRET_ENDS.iter().any(|end| last.ends_with(end)) {
        return HIDDEN.to_owned();
    }
    if PROGRAMS.contains(&last) {
        return program(path, &text);
    }
    without_credentials(&text)
}

fn is_reference(text: &str) -> bool {
    let named = text.strip_prefix("env:").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    });
    named || text.strip_prefix("file:").is_some_and(|place| !place.is_empty() && !place.starts_with("//"))
}

/// The program without its arguments, which may be anything.
fn program(path: &str, text: &str) -> String {
    let is_first = !path.ends_with(']') || path.ends_with("command[0]");
    match text.split_once(char::is_whitespace) {
        _ if !is_first || path.contains("args") => HIDDEN.to_owned(),
        Some((first, _)) => format!("{first} {HIDDEN}"),
        None => text.to_owned(),
    }
}

/// An address without user, password, query and fragment; any other text as it is.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    let hidden = if host.len() < authority.len() { format!("{HIDDEN}@") } else { String::new() };
    format!("{scheme}://{hidden}{host}{path}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::command::Serve;
    use crate::config::Config;

    fn shown(text: &str, options: &Serve) -> EffectiveConfig {
        let plan = Plan::of(options, Config::parse(text).unwrap(), None).unwrap();
        plan.settings().map(|settings| effective(&plan, &settings)).unwrap()
    }

    fn value<'a>(config: &'a EffectiveConfig, path: &str) -> &'a EffectiveValue {
        config.values.iter().find(|value| value.path == path).unwrap_or_else(|| panic!("no {path}"))
    }

    #[test]
    fn a_value_is_from_a_flag_or_a_line_of_the_file_or_by_default() {
        let text = "listen: 9000\nlimits:\n  attempts: 7\nagents:\n  a: { kind: echo, title: A }\n";
        let options = Serve { listen: Some("127.0.0.1:9001".parse().unwrap()), ..Serve::default() };
        let config = shown(text, &options);
        for (path, expected, source, line) in [
            ("listen", json!("127.0.0.1:9001"), ConfigSource::Flag, None),
            ("limits.attempts", json!(7), ConfigSource::File, Some(3)),
            ("limits.body_bytes", json!(10_485_760), ConfigSource::Default, None),
            ("agents.a.title", json!("A"), ConfigSource::File, Some(5)),
            ("default", json!("a"), ConfigSource::Default, None),
            ("cors.loopback", json!(true), ConfigSource::Default, None),
            ("store", json!("sqlite"), ConfigSource::Default, None),
        ] {
            let found = value(&config, path);
            assert_eq!((&found.value, &found.source, found.line), (&expected, &source, line), "{path}");
        }
        assert_eq!(value(&config, "listen").flag.as_deref(), Some("--listen"));
        assert_eq!(value(&shown(text, &Serve::default()), "listen").line, Some(1));
        assert!(shown("", &Serve::default()).values.len() >= KEYS.len());
    }

    #[test]
    fn what_a_reload_does_not_change_is_shown_as_it_was_at_the_start() {
        let at_start = shown("limits: { attempts: 7 }\nagents: { a: { kind: echo } }\n", &Serve::default());
        let config =
            Config::parse("limits: { attempts: 9, connections: 50 }\nagents: { a: { kind: echo } }\n").unwrap();
        let mut plan = Plan::of(&Serve::default(), config, None).unwrap();
        plan.held = Some((vec!["limits.attempts"], Arc::new(at_start)));
        let config = effective(&plan, &plan.settings().unwrap());
        assert_eq!(value(&config, "limits.attempts").value, json!(7));
        assert_eq!(value(&config, "limits.connections").value, json!(50));
        assert_eq!(config.values.iter().filter(|value| value.path == "limits.attempts").count(), 1);
    }

    #[test]
    fn no_text_that_may_be_a_secret_is_shown() {
        for (path, text, expected) in [
            ("auth.keys[0].key", "env:KEY", "env:KEY"),
            ("auth.keys[0].key", "hunter2", HIDDEN),
            ("auth.keys[0].name", "ann", "ann"),
            ("agents.a.secret_headers.X", "file:/run/x", "file:/run/x"),
            ("agents.a.headers.X-Api", "hunter2", HIDDEN),
            ("agents.a.env.TOKEN", "hunter2", HIDDEN),
            ("agents.a.secrets[\"a.b\"]", "hunter2", HIDDEN),
            ("agents.a.auth.bearer", "hunter2", HIDDEN),
            ("agents.a.auth.basic.password", "hunter2", HIDDEN),
            ("agents.a.api_key", "hunter2", HIDDEN),
            ("agents.a.url", "https://ann:hunter2@h/p?key=hunter2#hunter2", "https://***@h/p"),
            ("store", "postgres://ann:hunter2@h:1/db?password=hunter2", "postgres://***@h:1/db"),
            ("agents.a.command", "curl -H hunter2", "curl ***"),
            ("agents.a.command[0]", "curl", "curl"),
            ("agents.a.command[1]", "hunter2", HIDDEN),
            ("agents.a.args[0]", "hunter2", HIDDEN),
            ("auth.jwt[0].secret", "hunter2", HIDDEN),
            ("tls.key", "key.pem", "key.pem"),
            ("push.key_file", "seal.key", "seal.key"),
            ("x.token", "env:A hunter2", HIDDEN),
            ("x.token", "file://ann:hunter2", HIDDEN),
        ] {
            assert_eq!(masked_text(path, text.to_owned()), expected, "{path} {text}");
        }
    }

    /// A field that takes a reference to a secret is one whose text is hidden, wherever it is in the schema.
    #[test]
    fn every_secret_field_of_the_schema_is_hidden() {
        fn walk(value: &Value, name: &str, found: &mut Vec<String>) {
            if let Value::Object(members) = value {
                let says = members.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
                let is_switch = members.get("type").is_some_and(|kind| kind == "boolean");
                if !is_switch && says.contains("env:NAME") && says.contains("file:PATH") {
                    found.push(name.to_owned());
                }
                for (key, member) in members {
                    if key == "properties" {
                        for (name, property) in member.as_object().into_iter().flatten() {
                            walk(property, name, found);
                        }
                    } else {
                        walk(member, name, found);
                    }
                }
            } else if let Value::Array(items) = value {
                items.iter().for_each(|item| walk(item, name, found));
            }
        }
        let schema = schemars::schema_for!(Config).to_value();
        let mut found = Vec::new();
        walk(&schema, "", &mut found);
        assert!(found.len() > 15, "{found:?}");
        for name in found {
            // Addresses are shown without their credentials; the others have no name of their own.
            if matches!(name.as_str(), "" | "url" | "direct_url" | "store") {
                continue;
            }
            assert_eq!(masked_text(&format!("agents.a.{name}"), "hunter2".to_owned()), HIDDEN, "{name}");
        }
    }
}
