//! `rialto demo`: prints the demo's ids and credentials from `demo.json`, with the use of each.

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::command::Demo;
use crate::config::DataLocation;
use crate::operate::{print, text};
use gateway::product::demo_file as demo;

struct Section {
    name: &'static str,
    title: &'static str,
    members: &'static [(&'static str, &'static str)],
}

const SECTIONS: &[Section] = &[
    Section {
        name: "uumit",
        title: "the market, UUMit's endpoints at /a2a and /api/v1 (docs/market.md)",
        members: &[
            ("account", "the buyer's account: logs in at POST /api/v1/auth/login, with the password"),
            ("password", "the password of the buyer's account"),
            ("user_id", "the buyer: X-Platform-User-Id beside the buyer's key"),
            ("api_key", "the buyer's key, as X-Api-Key: buys, and reads its own purchases and wallet"),
            ("seller_account", "the seller's account: logs in like the buyer's"),
            ("seller_password", "the password of the seller's account"),
            ("seller_user_id", "the seller: X-Platform-User-Id beside the seller's key"),
            ("seller_api_key", "the seller's key, as X-Api-Key: offers capabilities, accepts and delivers"),
            ("capability_id", "what the seller offers, for 120 UT: capability_id of a purchase"),
        ],
    },
    Section {
        name: "aly",
        title: "the shop, Aly's endpoints at /api/a2a (docs/shop.md, docs/aly.md)",
        members: &[
            ("site_slug", "the shop's name in messages and payloads"),
            ("token", "Authorization: Bearer of the shop's workspace: searches, carts, checkouts, orders"),
            ("read_only_token", "Authorization: Bearer that reads products and orders, and changes nothing"),
        ],
    },
    Section {
        name: "orloj",
        title: "systems, Orloj's endpoints at /orloj and /v1/agent-systems (docs/systems.md)",
        members: &[
            ("system", "the system that anybody may call, without a token"),
            ("token", "Authorization: Bearer that calls the systems that need one, such as publish"),
            ("admin_token", "Authorization: Bearer that creates and changes systems and agents"),
        ],
    },
    Section {
        name: "langgraph",
        title: "assistants, LangSmith's endpoint at /langgraph/a2a/{assistant_id} (docs/agents/assistant.md)",
        members: &[
            ("assistant_id", "an assistant that says again what it was told"),
            ("interrupt_assistant_id", "an assistant that asks one question first"),
            ("parallel_assistant_id", "an assistant that asks two questions at once"),
        ],
    },
];

pub(crate) fn run(command: &Demo) -> anyhow::Result<()> {
    let folder = DataLocation::at(&command.whereabouts)?.folder;
    let file = folder.join(demo::FILE);
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no demo in {}: start one with rialto serve, without a config file, or name its data folder with --data; callers of a server with a config are let in by rialto keys create",
            folder.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let all: Map<String, Value> = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is damaged; the next rialto serve writes it anew", file.display()))?;
    let shown = json!({ "file": file, "base_url": all.get("base_url"), "entries": entries(&all) });
    print(&command.output, &shown, |shown| page(shown, &all))
}

/// Each id and credential with its use, in the order of [`SECTIONS`]; then members that other releases wrote.
fn entries(all: &Map<String, Value>) -> Vec<Value> {
    let mut entries = Vec::new();
    for section in SECTIONS {
        let Some(Value::Object(members)) = all.get(section.name) else { continue };
        let known = section.members.iter().filter_map(|(name, purpose)| Some((*name, members.get(*name)?, *purpose)));
        let is_known = |name: &str| section.members.iter().any(|(known, _)| *known == name);
        let others = members.iter().filter(|(name, _)| !is_known(name)).map(|(name, value)| (name.as_str(), value, ""));
        entries.extend(known.chain(others).map(|(name, value, purpose)| entry(section.name, name, value, purpose)));
    }
    for (name, section) in all.iter().filter(|(name, _)| SECTIONS.iter().all(|known| known.name != *name)) {
        let members = section.as_object().into_iter().flatten();
        entries.extend(members.map(|(member, value)| entry(name, member, value, "")));
    }
    entries
}

fn entry(section: &str, name: &str, value: &Value, purpose: &str) -> Value {
    json!({ "section": section, "name": name, "value": value, "for": purpose })
}

#[cfg_attr(not(any(feature = "market", feature = "shop")), allow(unused_variables, reason = "products use it"))]
fn page(shown: &Value, all: &Map<String, Value>) -> String {
    let base = text(&shown["base_url"]);
    let mut lines = vec![format!("The demo at {base}, while rialto serve runs; kept in {}", text(&shown["file"]))];
    let mut section = "";
    for entry in shown["entries"].as_array().into_iter().flatten() {
        if text(&entry["section"]) != section {
            section = text(&entry["section"]);
            let title = SECTIONS.iter().find(|known| known.name == section).map_or("", |known| known.title);
            lines.push(String::new());
            lines.push(format!("{section}: {title}").trim_end_matches([':', ' ']).to_owned());
        }
        let value = entry["value"].as_str().map_or_else(|| entry["value"].to_string(), str::to_owned);
        lines.push(format!("  {:23} {value}", text(&entry["name"])));
        if !text(&entry["for"]).is_empty() {
            lines.push(format!("  {:23} {}", "", text(&entry["for"])));
        }
    }
    #[cfg(feature = "market")]
    if let Some(section) = all.get("uumit") {
        lines.push(format!("\nbuy something:\n  {}", market::demo::try_it(base, section)));
    }
    #[cfg(feature = "shop")]
    if all.contains_key("aly") {
        lines.push(format!("\ngo shopping:\n  {}", shop::demo::try_it(base)));
    }
    lines.join("\n")
}

#[cfg(all(test, feature = "market"))]
mod tests {
    use super::*;

    #[test]
    fn what_another_release_has_written_is_shown_too() {
        let all = json!({
            "base_url": "http://127.0.0.1:1",
            "uumit": { "api_key": "uk", "later": 7 },
            "some_front": { "id": "1" },
        });
        let all = all.as_object().cloned().unwrap();
        let entries = entries(&all);
        let named: Vec<(&str, &str)> = entries.iter().map(|e| (text(&e["section"]), text(&e["name"]))).collect();
        assert_eq!(named, [("uumit", "api_key"), ("uumit", "later"), ("some_front", "id")]);
        let page = page(&json!({ "base_url": "http://127.0.0.1:1", "file": "f", "entries": entries }), &all);
        assert!(
            page.contains("X-Api-Key") && page.contains("some_front\n  id") && page.contains("buy something"),
            "{page}"
        );
    }
}
