//! Commands for operators. They ask a running server through the socket in its data folder, or one elsewhere by its admin
//! API ([`crate::remote`]); without one they open the data directly.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use engine::Engine;
use gateway::admin::{self, AdminRequest, AdminResponse, CoreRequest};
use gateway::product;
use model::State;
use model::ports::agent::Agent;
use serde_json::{Value, json};

use crate::absent_products;
use crate::command::{
    Backup, Doctor, Health, Keys, Output, OutputFormat, Reload, Restore, Task, TaskImport, TaskList, TaskOne,
};
use crate::config::{Config, DataLocation};
use crate::guard::PolicyRule;
use crate::products::PRODUCTS;
use crate::push_config;
use crate::remote::OperatorArgs;
use crate::replicas;
use crate::store::{self, RestoreFile, StoreKind, StoreTuning};

/// Sends the request to the server elsewhere or to the running one here, or executes it on the data.
pub(crate) fn ask(at: &OperatorArgs, request: impl Into<AdminRequest>) -> anyhow::Result<Value> {
    match at.server()? {
        Some(server) => server.ask(&request.into()),
        None => ask_here(&DataLocation::at(&at.whereabouts)?, request),
    }
}

/// Sends the request to the running server on the data, or executes it on the data.
fn ask_here(found: &DataLocation, request: impl Into<AdminRequest>) -> anyhow::Result<Value> {
    let request = request.into();
    match ask_running(found, &request)? {
        Some(answer) => Ok(answer),
        None => ask_data(found, request, Vec::new()),
    }
}

/// Sends the request to the running server, if there is one.
pub(crate) fn ask_running(found: &DataLocation, request: &AdminRequest) -> anyhow::Result<Option<Value>> {
    let folder = &found.folder;
    let reached = std::fs::File::open(folder).and_then(|held| UnixStream::connect(admin::socket_in(&held)));
    match reached {
        Ok(stream) => ask_server(stream, request).map(Some),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error).context("cannot reach the server through its data folder"),
    }
}

fn ask_server(mut stream: UnixStream, request: &AdminRequest) -> anyhow::Result<Value> {
    let mut line = request.line()?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match serde_json::from_str(&answer).context("the server went away before it answered")? {
        AdminResponse::Ok(value) => Ok(value),
        AdminResponse::Fault(message) => bail!(message),
    }
}

/// Executes the request on the data. Replicas may serve the database meanwhile; they learn of the change as of each
/// other's work. `agents` are those that the request refers to; none of them runs.
pub(crate) fn ask_data(
    found: &DataLocation,
    request: AdminRequest,
    agents: Vec<Arc<dyn Agent>>,
) -> anyhow::Result<Value> {
    let DataLocation { folder, store, key_file } = found;
    if store.is_in_folder() {
        // A key, a user or a shop may be created before the first start; other requests need existing data.
        if !store.kind().has_data(folder) && !request.creates_data() {
            bail!(
                "there is no data in {}; name the folder with --data, a database with --store, or both with --config",
                folder.display()
            );
        }
    } else if request.is_audited() {
        // The audit log is in this folder.
        stores::folder::make(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let choice = store.options(&StoreTuning::of_command(folder))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = choice.visit().await?;
        let engine = Engine::offline(store.clone(), model::Limits::default());
        // Cancelling or removing a task releases the money held for its turn.
        if let Some(settlement) = product::settlement(PRODUCTS) {
            engine.set_books(settlement);
        }
        engine.set_agents(agents);
        if request.has_secrets() {
            engine.set_sealer(push_config::seal(key_file.as_deref(), &*store, folder).await?);
        }
        let context =
            admin::AdminContext { engine: &engine, folder, products: PRODUCTS, running: None, requester: None };
        let done = admin::perform(&context, request).await;
        engine.drain().await;
        done.map_err(|fault| anyhow::anyhow!(fault.message))
    })
}

pub(crate) fn task(command: &Task) -> anyhow::Result<()> {
    match command {
        Task::List(list) => list_tasks(list),
        Task::Show(one) => show_task(one),
        Task::Cancel(one) => {
            let done = ask(&one.at, CoreRequest::TaskCancel { id: one.id.clone() })?;
            print(&one.output, &done, |v| format!("{} is {}", text(&v["id"]), text(&v["state"])))
        }
        Task::Import(import) => import_task(import),
        Task::Purge(one) => {
            let done = ask(&one.at, CoreRequest::TaskPurge { id: one.id.clone() })?;
            print(&one.output, &done, |v| format!("{} is gone", text(&v["purged"])))
        }
    }
}

fn import_task(import: &TaskImport) -> anyhow::Result<()> {
    let file = &import.file;
    let unread = || format!("cannot read {}", file.display());
    let opened = std::fs::File::open(file).with_context(unread)?;
    let mut bundle = String::new();
    // A byte more than the largest bundle tells that there is more.
    opened.take(admin::LARGEST_BUNDLE as u64 + 1).read_to_string(&mut bundle).with_context(unread)?;
    let done = ask(&import.at, CoreRequest::TaskImport { bundle })?;
    print(&import.output, &done, |v| {
        let (id, of) = (text(&v["id"]), text(&v["of"]));
        format!("{id} is a copy of {of}; see it with: rialto task show {id}")
    })
}

fn list_tasks(list: &TaskList) -> anyhow::Result<()> {
    let state = list.state.as_deref().map(parse_state).transpose()?.map(State::code);
    let (agent, tenant) = (list.agent.clone(), list.tenant.clone());
    let page = ask(&list.at, CoreRequest::TaskList { agent, tenant, state, limit: list.limit })?;
    print(&list.output, &page, |page| {
        let tasks: Vec<&Value> = page["tasks"].as_array().into_iter().flatten().collect();
        let columns =
            [("TASK", "id"), ("TENANT", "tenant"), ("AGENT", "agent"), ("STATE", "state"), ("SINCE", "status_at")];
        let columns: Vec<_> = columns.into_iter().chain([("CALLER'S ID", "alias")]).collect();
        let wide = |(name, member): &(&str, &str)| {
            let most = tasks.iter().map(|task| text(&task[*member]).chars().count()).max().unwrap_or_default();
            most.clamp(name.len(), COLUMN)
        };
        let widths: Vec<usize> = columns.iter().map(wide).collect();
        let line = |cells: &mut dyn Iterator<Item = String>, last: &str| {
            let cells =
                cells.zip(&widths).map(|(cell, width)| format!("{:width$}", short(&cell, *width), width = *width));
            format!("{}  {last}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        let mut lines = vec![line(&mut columns.iter().map(|(name, _)| (*name).to_owned()), "MESSAGE")];
        for task in &tasks {
            let message = match text(&task["shape"]) {
                "reply" => "(answered by a message, and no task to its caller)".to_owned(),
                _ => short(text(&task["message"]), 60),
            };
            lines.push(line(&mut columns.iter().map(|(_, member)| text(&task[*member]).to_owned()), &message));
        }
        let least = if page["total_is_exact"] == false { "at least " } else { "" };
        lines.push(format!("{} of {least}{}", tasks.len(), page["total"]));
        lines.join("\n")
    })
}

/// Widest column of a table: an id has 36 characters.
const COLUMN: usize = 36;

/// A text on one line, cut to this many columns.
fn short(text: &str, columns: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn parse_state(name: &str) -> anyhow::Result<State> {
    let found = State::ALL.into_iter().find(|state| state.word() == name);
    found.with_context(|| {
        format!("no state is called {name:?}; choose one of {}", State::ALL.map(State::word).join(", "))
    })
}

fn show_task(one: &TaskOne) -> anyhow::Result<()> {
    let shown = ask(&one.at, CoreRequest::TaskShow { id: one.id.clone() })?;
    print(&one.output, &shown, |task| {
        let mut lines = Vec::new();
        for key in ["id", "alias", "state", "status_at", "message", "agent", "tenant", "owner", "context", "created_at"]
        {
            if !task[key].is_null() {
                lines.push(format!("{key:11} {}", text(&task[key])));
            }
        }
        lines.push(format!("{:11} {} artifacts, {} messages", "content", task["artifacts"], task["messages"]));
        lines.push("log".into());
        for event in task["log"].as_array().into_iter().flatten() {
            let mut said = event["event"].to_string();
            if said.chars().count() > 160 {
                said = said.chars().take(159).chain(['…']).collect();
            }
            lines.push(format!("  {:>5}  {}  {said}", event["seq"], text(&event["at"])));
        }
        lines.join("\n")
    })
}

pub(crate) fn keys(command: &Keys) -> anyhow::Result<()> {
    match command {
        Keys::Create(create) => {
            // An invalid config does not matter here: then no scope is known by its policy. A server elsewhere knows its own.
            let policy = Config::load(create.at.whereabouts.config.as_deref()).ok().and_then(|config| config.policy);
            let rules: Vec<_> = policy.iter().flatten().map(PolicyRule::settings).collect();
            let request = CoreRequest::KeysCreate {
                name: create.name.clone(),
                tenant: create.tenant.clone(),
                scopes: create.scopes.clone(),
                policy_scopes: gateway::scopes::named_by(&rules).map(str::to_owned).collect(),
                expires_in_ms: create.expires.map(|time| time.as_millis() as u64),
            };
            let made = ask(&create.at, request)?;
            print(&create.output, &made, |key| {
                let secret = text(&key["secret"]);
                format!("{secret}\nthis is shown once; revoke it with: rialto keys revoke {}", text(&key["id"]))
            })
        }
        Keys::List(list) => {
            let listed = ask(&list.at, CoreRequest::KeysList)?;
            print(&list.output, &listed, |listed| {
                let mut lines = vec![format!(
                    "{:10}  {:16}  {:12}  {:8}  {:24}  SCOPES",
                    "ID", "NAME", "TENANT", "STATE", "EXPIRES"
                )];
                for key in listed["keys"].as_array().into_iter().flatten() {
                    let scopes: Vec<&str> = key["scopes"].as_array().into_iter().flatten().map(text).collect();
                    let expires = if key["expires_at"].is_null() { "never" } else { text(&key["expires_at"]) };
                    let (id, name, tenant) = (text(&key["id"]), text(&key["name"]), text(&key["tenant"]));
                    let state = text(&key["state"]);
                    lines.push(format!(
                        "{id:10}  {name:16}  {tenant:12}  {state:8}  {expires:24}  {}",
                        scopes.join(" ")
                    ));
                }
                lines.join("\n")
            })
        }
        Keys::Revoke(one) => {
            let gone = ask(&one.at, CoreRequest::KeysRevoke { id: one.id.clone() })?;
            print(&one.output, &gone, |key| format!("{} ({}) is revoked", text(&key["id"]), text(&key["name"])))
        }
    }
}

/// Makes a running server read its config again.
pub(crate) fn reload(command: &Reload) -> anyhow::Result<()> {
    let done = ask(&command.at, CoreRequest::Reload)?;
    let names = |list: &Value| list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ");
    print(&command.output, &done, |done| {
        if done["outcome"] == "refused" {
            return format!("refused: {}", text(&done["reason"]));
        }
        let mut lines = vec!["applied".to_owned()];
        for what in ["added", "changed", "removed"] {
            let list = names(&done["agents"][what]);
            if !list.is_empty() {
                lines.push(format!("agents {what}: {list}"));
            }
        }
        let fixed = names(&done["needs_restart"]);
        if !fixed.is_empty() {
            lines.push(format!("needs a restart: {fixed}"));
        }
        lines.join("\n")
    })?;
    if done["outcome"] == "refused" {
        bail!("the server goes on with the config it had; mend the new one and reload again");
    }
    Ok(())
}

pub(crate) fn backup(command: &Backup) -> anyhow::Result<()> {
    let to = std::path::absolute(&command.file)?;
    if to.exists() {
        bail!("{} exists; choose a new file", to.display());
    }
    let found = DataLocation::at(&command.whereabouts)?;
    if let Some(tools) = found.store.kind().tools() {
        bail!("a database is copied with its own tools, also while it is served: {}", tools.backup);
    }
    ask_here(&found, CoreRequest::Backup { to: to.clone() })?;
    let mut out = std::io::stdout();
    writeln!(out, "written to {}; put it back with: rialto restore {}", to.display(), to.display())?;
    let key = found.key_file.clone().unwrap_or_else(|| found.folder.join(gateway::webhooks::SEAL_KEY));
    if key.is_file() {
        writeln!(out, "keep a copy of {} in another place: the backup's secrets are sealed with it", key.display())?;
    }
    Ok(())
}

/// Restores a backup.
pub(crate) fn restore(command: &Restore) -> anyhow::Result<()> {
    let DataLocation { folder, store, key_file: _ } = DataLocation::at(&command.whereabouts)?;
    if let Some(tools) = store.kind().tools() {
        bail!("a database is put back with its own tools, while no replica runs: {}", tools.restore);
    }
    let file = &command.file;
    if !file.is_file() {
        bail!("there is no file {}", file.display());
    }
    store.kind().restore(&folder, RestoreFile { file, replace: command.replace, open: &open_and_close })?;
    let health = ask_data(&DataLocation::folder(&folder), CoreRequest::Doctor.into(), Vec::new())?;
    writeln!(std::io::stdout(), "restored to {}: {} tasks", folder.display(), health["tasks"])?;
    Ok(())
}

/// Opens the data in a folder, which takes its lock, and closes it again.
fn open_and_close(folder: &Path) -> anyhow::Result<()> {
    ask_data(&DataLocation::folder(folder), CoreRequest::Doctor.into(), Vec::new()).map(drop)
}

pub(crate) fn doctor(command: &Doctor) -> anyhow::Result<()> {
    let mut found = match command.at.server()? {
        Some(server) => server.ask(&CoreRequest::Doctor.into())?,
        None => {
            let at = DataLocation::at(&command.at.whereabouts)?;
            let mut found = ask_here(&at, CoreRequest::Doctor)?;
            found["data"] = json!(at.folder);
            if found["left_alone"].is_null() {
                found["left_alone"] = json!(left_alone(&at)?);
            }
            found["disk_free_bytes"] = json!(rustix::fs::statvfs(&at.folder).ok().map(|d| d.f_bavail * d.f_frsize));
            found
        }
    };
    // A database's disk is on another machine.
    let local = store::kind_named(text(&found["store"])).is_none_or(store::is_in_folder);
    if !local {
        found["disk_free_bytes"] = Value::Null;
    }
    found["advice"] = json!(advice(&found));
    print(&command.output, &found, |found| {
        let mut lines = Vec::new();
        for key in [
            "data",
            "store",
            "tasks",
            "running_turns",
            "log_rows",
            "blobs",
            "blob_bytes",
            "timers",
            "push_active",
            "push_dead",
            "file_bytes",
            "wal_bytes",
            "disk_free_bytes",
            "starts",
            "schema",
        ] {
            let is_known = !found[key].is_null();
            if is_known && (local || !matches!(key, "wal_bytes" | "disk_free_bytes")) {
                lines.push(format!("{key:14} {}", plain(&found[key])));
            }
        }
        lines.extend(replicas::table(found));
        for (state, n) in found["states"].as_object().into_iter().flatten() {
            lines.push(format!("  {state:12} {n}"));
        }
        let advice = found["advice"].as_array().cloned().unwrap_or_default();
        lines.extend(advice.iter().map(|a| format!("! {}", text(a))));
        if advice.is_empty() {
            lines.push("all is well".into());
        }
        lines.join("\n")
    })
}

/// The data that this build does not serve, while no server runs on it.
fn left_alone(at: &DataLocation) -> anyhow::Result<Vec<String>> {
    let choice = at.store.options(&StoreTuning::of_command(&at.folder))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = choice.visit().await?;
        let found = absent_products::left_alone(&*store, None).await;
        store.close().await;
        Ok(found?)
    })
}

/// Asks the running server whether it is ready, for container supervisors.
pub(crate) fn health(command: &Health) -> anyhow::Result<()> {
    let request = CoreRequest::Health.into();
    let answer = match command.at.server()? {
        Some(server) => server.ask(&request)?,
        None => {
            let found = DataLocation::at(&command.at.whereabouts)?;
            ask_running(&found, &request)?.with_context(|| {
                let folder = found.folder.display();
                format!("no server runs on the data in {folder}; start one with rialto serve, or name its data folder with --data")
            })?
        }
    };
    print(&command.output, &answer, |_| "ready".into())
}

/// Advice for operators.
fn advice(found: &Value) -> Vec<String> {
    let number = |key: &str| found[key].as_u64().unwrap_or_default();
    let mut advice = Vec::new();
    if let Some(trouble) = found["trouble"].as_str() {
        advice.push(format!("{trouble}: make room or mend the folder's rights; the server goes on by itself"));
    }
    if let Some(lost) = found["lost"].as_object() {
        advice.push(format!(
            "the write-ahead log was cut short: {} of {} committed pages were missing at the start of {}, and with them what \
             was answered last before it; restore a backup if that matters more than what is newer, then remove \
             {}/{} while no server runs",
            lost["pages"],
            lost["of"],
            text(&lost["found_at"]),
            text(&found["data"]),
            store::kind_named(text(&found["store"])).and_then(StoreKind::loss_file).unwrap_or_default()
        ));
    }
    if number("wal_bytes") > 256 << 20 {
        advice.push("the write-ahead log is large: is a long read or a backup in the way?".into());
    }
    if !found["disk_free_bytes"].is_null() && number("disk_free_bytes") < 256 << 20 {
        advice.push("less than 256 MiB are free on the disk: make room before new work is refused".into());
    }
    if number("push_dead") > 0 {
        advice.push(format!("{} webhooks were given up: rialto push list --state dead", number("push_dead")));
    }
    advice.extend(replicas::advice(found));
    advice.extend(found["left_alone"].as_array().into_iter().flatten().map(|sentence| text(sentence).to_owned()));
    for task in found["unreadable"].as_array().into_iter().flatten() {
        let (id, cause) = (text(&task["id"]), text(&task["cause"]));
        advice.push(format!("{id} cannot be read ({cause}): restore it from a backup, or rialto task purge {id}"));
    }
    for task in found["setbacks"].as_array().into_iter().flatten() {
        let (id, chore, cause) = (text(&task["id"]), text(&task["chore"]), text(&task["cause"]));
        let (since, attempts) = (text(&task["since"]), &task["attempts"]);
        advice.push(format!(
            "{id} could not be looked after since {since} ({chore}, {attempts} attempts: {cause}); it is tried again by itself; if it stays: rialto task show {id}"
        ));
    }
    let now = model::Time::parse(text(&found["now"])).unwrap_or_default();
    for task in found["open_turns"].as_array().into_iter().flatten() {
        let since = model::Time::parse(text(&task["status_at"])).unwrap_or_default();
        if now.0 - since.0 > number("turn_timeout_ms") as i64 {
            let (id, agent, at) = (text(&task["id"]), text(&task["agent"]), text(&task["status_at"]));
            advice.push(format!("{id} ({agent}) has had nothing to say since {at}: rialto task cancel {id}"));
        }
    }
    advice
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn print(output: &Output, value: &Value, person: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
    let text = match output.output {
        OutputFormat::Json => serde_json::to_string_pretty(value)?,
        OutputFormat::Text => person(value),
    };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
