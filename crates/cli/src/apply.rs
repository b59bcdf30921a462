//! `rialto apply`: creates or updates systems and agents from YAML.
//!
//! The command talks to a server as every operator's command does, or with `--url` to Orloj's endpoints, which other
//! servers have, too. Agents are applied first, in any order of the files, because systems refer to them.

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use gateway::admin::RedactedText;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use systems::admin::apply_request;
use systems::resources::ResourceDocument;

use crate::command::Output;
use crate::operate::{ask, print, text};
use crate::remote::{OperatorArgs, ServerArgs};

/// Most files of a folder, and documents of a command.
const MOST: usize = 2_000;
/// Most bytes of all documents.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Args)]
pub(crate) struct Apply {
    /// A YAML file with one or more documents, a folder of them, or - for standard input
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// A server with Orloj's endpoints to ask by them, such as https://host
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    url: Option<String>,
    #[command(flatten)]
    at: OperatorArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(command: &Apply) -> anyhow::Result<()> {
    let mut documents = Vec::new();
    for file in &command.filename {
        for (from, text) in texts(file)? {
            read(&from, &text, &mut documents)?;
        }
    }
    if documents.is_empty() {
        bail!("there is no document in what -f names");
    }
    if documents.len() > MOST {
        bail!("there are {} documents; apply at most {MOST} at a time", documents.len());
    }
    // The sort is stable: otherwise the order of the files.
    documents.sort_by_key(|one: &One| one.kind != "Agent");
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut far = command.url.as_deref().map(|url| Far::new(url, &command.at.far)).transpose()?;
    let server = if far.is_none() { command.at.server()? } else { None };
    for one in &documents {
        let request = apply_request(RedactedText(one.text.clone()))?;
        let outcome = match (&mut far, &server) {
            (Some(far), _) => far.apply(one),
            (None, Some(server)) => server.ask(&request),
            (None, None) => ask(&command.at, request),
        };
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(error) => failed.push(format!("{}: {} {}: {error:#}", one.from, one.kind, one.name)),
        }
    }
    if !done.is_empty() {
        print(&command.output, &json!({ "resources": done }), |done| {
            let lines = done["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| format!("{}/{} {}", text(&one["plural"]), text(&one["name"]), text(&one["outcome"])));
            lines.collect::<Vec<_>>().join("\n")
        })?;
    }
    std::io::stdout().flush()?;
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

/// A document and its source.
struct One {
    from: String,
    kind: String,
    name: String,
    /// As JSON.
    text: String,
}

/// The texts behind one `-f`.
fn texts(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().take(MOST_BYTES).read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(vec![("-".to_owned(), text)]);
    }
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        let is_ours = |file: &PathBuf| {
            file.is_file() && file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
        };
        files.retain(is_ours);
        files.sort();
        if files.is_empty() {
            bail!("there is no .yaml, .yml or .json in {}", path.display());
        }
        if files.len() > MOST {
            bail!("there are {} files in {}; apply at most {MOST} at a time", files.len(), path.display());
        }
    }
    let (mut texts, mut bytes) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        bytes += text.len() as u64;
        if bytes > MOST_BYTES {
            bail!("there is more than {MOST_BYTES} bytes in {}; apply less at a time", path.display());
        }
        texts.push((file.display().to_string(), text));
    }
    Ok(texts)
}

fn read(from: &str, text: &str, out: &mut Vec<One>) -> anyhow::Result<()> {
    let trees: Vec<Tree> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{from}: it is no YAML: {error}"))?;
    for tree in trees {
        match tree {
            Tree::Null => {}
            Tree::Map(_) => {
                let text = serde_json::to_string(&tree)?;
                let shown: Value = serde_json::from_str(&text)?;
                let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
                let (kind, name) = (word(&shown["kind"]), word(&shown["metadata"]["name"]));
                out.push(One { from: from.to_owned(), kind, name, text });
            }
            Tree::Bool(_) | Tree::Signed(_) | Tree::Unsigned(_) | Tree::Float(_) | Tree::Text(_) | Tree::List(_) => {
                bail!("{from}: a document is no map; write apiVersion, kind, metadata and spec")
            }
        }
    }
    Ok(())
}

/// A remote server.
struct Far {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl Far {
    fn new(url: &str, args: &ServerArgs) -> anyhow::Result<Far> {
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            bail!("--url {url:?} is no address; write https://host");
        }
        let (key, client) = (args.secret()?, args.client()?.timeout(std::time::Duration::from_secs(60)).build()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Far { runtime, client, base: url.trim_end_matches('/').to_owned(), key })
    }

    fn apply(&mut self, one: &One) -> anyhow::Result<Value> {
        let document = ResourceDocument::read(&one.text, None).map_err(|wrong| anyhow::anyhow!(wrong.join("\n")))?;
        let plural = document.kind.plural();
        let all = format!("{}/v1/{plural}", self.base);
        let own = format!("{all}/{}", document.name);
        let (status, before) = self.say(self.client.get(&own))?;
        let (outcome, answer) = match status {
            404 => ("created", self.say(self.client.post(&all).body(one.text.clone()))?),
            200 => {
                let answer = self.say(self.client.put(&own).body(one.text.clone()))?;
                let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
                let outcome = if version(&before) == version(&answer.1) { "unchanged" } else { "configured" };
                (outcome, answer)
            }
            other => bail!("{}", refused(other, &before)),
        };
        match answer {
            (200 | 201, _) => Ok(json!({ "plural": plural, "name": document.name, "outcome": outcome })),
            (status, said) => bail!("{}", refused(status, &said)),
        }
    }

    /// The status and body of an answer.
    fn say(&self, request: reqwest::RequestBuilder) -> anyhow::Result<(u16, Value)> {
        let request = request.header("content-type", "application/json");
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        self.runtime.block_on(async {
            let answer = request.send().await.with_context(|| format!("cannot reach {}", self.base))?;
            let status = answer.status().as_u16();
            let body = answer.text().await.context("the answer broke off")?;
            Ok((status, serde_json::from_str(&body).unwrap_or(Value::String(body))))
        })
    }
}

/// The error text of a server's answer.
fn refused(status: u16, said: &Value) -> String {
    let lines: Vec<&str> = said["details"].as_array().into_iter().flatten().map(text).collect();
    let words = match said["error"].as_str().or(said.as_str()) {
        _ if !lines.is_empty() => lines.join("\n"),
        Some(words) => words.trim().to_owned(),
        None => said.to_string(),
    };
    format!("the server refused it (HTTP {status}): {words}")
}

/// YAML in its written order, which matters for the nodes of a graph.
#[derive(Debug, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Tree, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("YAML")
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Tree, D::Error> {
                Tree::deserialize(d)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Signed(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Unsigned(value))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Float(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(Tree::List(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut all: Vec<(String, Tree)> = Vec::new();
                while let Some(one) = map.next_entry()? {
                    all.push(one);
                }
                Ok(Tree::Map(all))
            }
        }
        d.deserialize_any(Any)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => s.serialize_unit(),
            Tree::Bool(value) => s.serialize_bool(*value),
            Tree::Signed(value) => s.serialize_i64(*value),
            Tree::Unsigned(value) => s.serialize_u64(*value),
            Tree::Float(value) => s.serialize_f64(*value),
            Tree::Text(value) => s.serialize_str(value),
            Tree::List(all) => {
                let mut seq = s.serialize_seq(Some(all.len()))?;
                for one in all {
                    seq.serialize_element(one)?;
                }
                seq.end()
            }
            Tree::Map(all) => {
                let mut map = s.serialize_map(Some(all.len()))?;
                for (name, one) in all {
                    map.serialize_entry(name, one)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_in_their_order_and_so_are_their_nodes() {
        let yaml = "kind: AgentSystem\nmetadata: { name: a }\nspec:\n  graph: { z: { next: a }, a: ~ }\n  max_turns: 3\n---\n---\nkind: Agent\nmetadata: { name: b }\n";
        let mut all = Vec::new();
        read("f", yaml, &mut all).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[0].text,
            r#"{"kind":"AgentSystem","metadata":{"name":"a"},"spec":{"graph":{"z":{"next":"a"},"a":null},"max_turns":3}}"#
        );
        assert_eq!((all[1].kind.as_str(), all[1].name.as_str()), ("Agent", "b"));
        assert!(read("f", "[a]\n", &mut all).unwrap_err().to_string().contains("f: a document is no map"));
        assert!(read("f", "a: [\n", &mut all).unwrap_err().to_string().contains("f: it is no YAML"));
    }
}
