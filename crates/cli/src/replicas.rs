//! A replica's description for operators, and the comparison of all replicas: releases, leases, agents and config
//! sections that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use engine::Engine;
use model::ports::store::{ReplicaRow, Store};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Most agents listed by name; a digest covers all of them.
const NAMED: usize = 200;

/// Config sections that are each replica's own.
const OWN: [&str; 3] = ["data", "listen", "log"];

/// Stores this server's description, for the doctor of any replica.
pub(crate) fn introduce(engine: &Engine, config: Option<&Path>, address: SocketAddr) {
    let mut agents: Vec<String> = engine.agents().iter().map(|agent| agent.profile().name.to_string()).collect();
    agents.sort_unstable();
    let written = config.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "listen": address.to_string(),
        "agents_digest": digest(&json!(agents)),
        "agents": agents.into_iter().take(NAMED).collect::<Vec<_>>(),
        "config": sections(&written),
    });
    engine.store().introduce(about.to_string());
}

/// A digest of every config section: it shows which sections differ, and not their content.
fn sections(written: &str) -> Map<String, Value> {
    let sections: Map<String, Value> = serde_saphyr::from_str(written).unwrap_or_default();
    let shared = sections.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    shared.map(|(name, section)| (name, digest(&section).into())).collect()
}

/// A digest that does not depend on the order of members.
fn digest(value: &Value) -> String {
    let hash: [u8; 32] = Sha256::digest(ordered(value).to_string()).into();
    hash[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Members as pairs, in the order of their names.
fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let pairs: BTreeMap<&String, Value> = members.iter().map(|(name, each)| (name, ordered(each))).collect();
            Value::Array(pairs.into_iter().map(|(name, each)| json!([name, each])).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(ordered).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Warns of live servers with another lease. Each is judged by its own lease, so that a roll-out may change it.
pub(crate) async fn warn_of_leases(store: &dyn Store) {
    let replicas = store.replicas().await.unwrap_or_default();
    for warning in other_leases(&replicas) {
        tracing::warn!("{warning}");
    }
}

fn other_leases(replicas: &[ReplicaRow]) -> Vec<String> {
    let Some(own) = replicas.iter().find(|replica| replica.own).and_then(|own| own.lease_ms) else { return Vec::new() };
    let servers = replicas.iter().filter(|replica| replica.alive && !replica.own && replica.about.is_some());
    let other = servers.filter_map(|replica| Some((replica.no, replica.lease_ms.filter(|lease| *lease != own)?)));
    let told = other.map(|(no, lease)| {
        format!("store.lease_ms is {own} here and {lease} on replica {no}: set the same on every replica")
    });
    told.collect()
}

/// The live servers in the doctor's findings.
fn servers(found: &Value) -> impl Iterator<Item = &Value> {
    let all = found["replicas"].as_array().into_iter().flatten();
    all.filter(|replica| replica["alive"] == true && replica["about"].is_object())
}

/// The replicas as a table.
pub(crate) fn table(found: &Value) -> Vec<String> {
    let all = found["replicas"].as_array().map(Vec::as_slice).unwrap_or_default();
    let known: Vec<&Value> = all.iter().filter(|replica| replica["about"].is_object()).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["replicas".to_owned()];
    for replica in known {
        let (about, text) = (&replica["about"], |value: &Value| value.as_str().unwrap_or("?").to_owned());
        let state = if replica["alive"] == true { "alive" } else { "gone" };
        lines.push(format!(
            "  {:>4}  {state:5}  {:10}  {:21}  lease {} ms, silent for {} ms, {} agents",
            replica["no"],
            text(&about["version"]),
            text(&about["listen"]),
            replica["lease_ms"],
            replica["silent_ms"],
            about["agents"].as_array().map_or(0, Vec::len)
        ));
    }
    lines
}

/// The differences between the live replicas, and their consequences.
pub(crate) fn advice(found: &Value) -> Vec<String> {
    let servers: Vec<&Value> = servers(found).collect();
    let mut advice = Vec::new();
    let mut differ = |what: &str, each: &dyn Fn(&Value) -> Value, advises: &str| {
        let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for server in &servers {
            said.entry(each(server).to_string()).or_default().push(server["no"].to_string());
        }
        if said.len() > 1 {
            let groups: Vec<String> = said.into_values().map(|numbers| numbers.join(" and ")).collect();
            advice.push(format!("replicas {} differ in {what}: {advises}", groups.join(" against ")));
        }
    };
    differ("their release", &|server| server["about"]["version"].clone(), "finish the roll-out");
    differ("store.lease_ms", &|server| server["lease_ms"].clone(), "set the same on every replica");
    let mut sections: BTreeSet<&String> = BTreeSet::new();
    for server in &servers {
        sections.extend(server["about"]["config"].as_object().into_iter().flat_map(Map::keys));
    }
    for section in sections {
        let of = |server: &Value| server["about"]["config"][section].clone();
        differ(&format!("`{section}` of their configs"), &of, "give every replica the same config");
    }
    differ("the agents they serve", &|server| server["about"]["agents_digest"].clone(), "finish the roll-out");
    let whole = |server: &&&Value| server["about"]["agents"].as_array().is_some_and(|agents| agents.len() < NAMED);
    if servers.is_empty() || servers.iter().filter(whole).count() < servers.len() {
        return advice;
    }
    for turn in found["open_turns"].as_array().into_iter().flatten() {
        let serves =
            |server: &&&Value| server["about"]["agents"].as_array().is_some_and(|a| a.contains(&turn["agent"]));
        if servers.iter().filter(serves).count() == 0 {
            let (id, agent) = (turn["id"].as_str().unwrap_or_default(), turn["agent"].as_str().unwrap_or_default());
            advice.push(format!("{id} waits for a replica that serves {agent}: start one, or rialto task cancel {id}"));
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(no: u64, lease_ms: u64, alive: bool, server: bool) -> ReplicaRow {
        let about = server.then(|| "{}".to_owned());
        ReplicaRow { no, own: no == 1, alive, silent_ms: 0, lease_ms: Some(lease_ms), about }
    }

    #[test]
    fn another_lease_of_a_living_server_is_told() {
        let rows = [row(1, 5_000, true, false), row(2, 5_000, true, true)];
        assert!(other_leases(&rows).is_empty());
        let rows = [rows[0].clone(), row(2, 900, true, true), row(3, 900, false, true), row(4, 900, true, false)];
        let told = other_leases(&rows);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("5000 here and 900 on replica 2"), "{told:?}");
    }

    #[test]
    fn a_section_is_the_same_whatever_its_order_and_own_sections_are_left_out() {
        let one = sections("data: /a\nlisten: 127.0.0.1:1\nlimits: { b: 1, a: [1, 2] }\nauth: { required: true }\n");
        let two = sections("data: /b\nlimits: { a: [1, 2], b: 1 }\nauth: { required: false }\n");
        assert_eq!(one.keys().collect::<Vec<_>>().len(), 2);
        assert_eq!(one["limits"], two["limits"]);
        assert_ne!(one["auth"], two["auth"]);
        assert!(sections("").is_empty());
    }

    #[test]
    fn what_replicas_differ_in_is_told() {
        let server = |no: u64, version: &str, limits: &str, agents: &[&str]| {
            let about = json!({
                "version": version, "listen": "127.0.0.1:1", "config": { "limits": limits, "auth": "same" },
                "agents": agents, "agents_digest": digest(&json!(agents)),
            });
            json!({ "no": no, "alive": true, "lease_ms": 5_000, "silent_ms": 3, "about": about })
        };
        let turn = json!([{ "id": "T", "agent": "new" }]);
        let same =
            json!({ "replicas": [server(1, "1", "x", &["new"]), server(2, "1", "x", &["new"])], "open_turns": turn });
        assert!(advice(&same).is_empty(), "{:?}", advice(&same));
        assert_eq!(table(&same).len(), 3);
        let differ =
            json!({ "replicas": [server(1, "1", "x", &["old"]), server(2, "2", "y", &["older"])], "open_turns": turn });
        let told = advice(&differ);
        for says in ["their release", "`limits` of their configs", "the agents they serve", "serves new"] {
            assert!(told.iter().any(|line| line.contains(says)), "{says}: {told:?}");
        }
        assert!(!told.iter().any(|line| line.contains("`auth`")));
        // A data folder has no replicas.
        assert!(advice(&json!({ "replicas": [] })).is_empty() && table(&json!({})).is_empty());
    }
}
