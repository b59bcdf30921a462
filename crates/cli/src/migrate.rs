//! `rialto migrate`: copies a data folder into a database; the config supplies what the command line leaves out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use stores::migrate::{MigrationStep, Summary};

use crate::command::{Migrate, OutputFormat};
use crate::config::Config;
use crate::store::{FolderMigration, STORES, StoreKind, is_in_folder};

/// Shortest time between two progress lines.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(command: &Migrate) -> anyhow::Result<()> {
    let config = Config::load(command.config.as_deref())?;
    let from = source(command.from.as_deref(), config.data.as_deref())?;
    let to = command.to.clone().or(config.store).unwrap_or_default();
    to.check()?;
    let notes: Vec<_> = config.push.note(&from)?.into_iter().collect();
    let has_key = !notes.is_empty();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut progress = Progress::default();
    let mut tell = |step| progress.tell(step);
    let migration = FolderMigration { from: &from, notes, verify_only: command.verify_only, tell: &mut tell };
    let done = runtime.block_on(to.migrate(migration)?);
    let (doing, by) = if command.verify_only { ("compare", "with") } else { ("migrate", "to") };
    let summary =
        done.with_context(|| format!("cannot {doing} {} {by} {}", from.display(), to.shown().unwrap_or_default()))?;
    match command.output.output {
        OutputFormat::Json => writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&in_json(&summary))?)?,
        OutputFormat::Text => writeln!(std::io::stdout(), "{summary}")?,
    }
    if !summary.is_same() {
        bail!(if command.verify_only {
            "the database is not what the data folder is; that is as it should be once a replica has served from it"
        } else {
            "the database is not what the data folder is, and stays closed to replicas; empty it (drop schema rialto cascade) and migrate again"
        });
    }
    if !command.verify_only {
        let folder = from.display();
        let mut advice = format!("done; {folder} is as it was. Serve with store: and the address of the database");
        if has_key {
            advice.push_str(&format!(
                ", and give every replica the key of the push configs: {}",
                key(&config.push, &from)
            ));
        }
        writeln!(std::io::stderr(), "{advice}")?;
    }
    Ok(())
}

fn key(push: &crate::push_config::PushSection, from: &Path) -> String {
    match &push.key_file {
        Some(file) => format!("push.key_file {}", file.display()),
        None => format!("copy {}/seal.key and name it with push.key_file", from.display()),
    }
}

/// The data folder: `sqlite:DIR`, `sqlite` for the config's, or just a folder.
fn source(said: Option<&str>, config: Option<&Path>) -> anyhow::Result<PathBuf> {
    let usual = || config.unwrap_or(Path::new("rialto-data")).to_owned();
    let Some(said) = said else { return Ok(usual()) };
    let (before, _) = said.split_once(':').unwrap_or((said, ""));
    let database = STORES.iter().find(|kind| kind.schemes().contains(&before));
    if let Some(tools) =
        database.copied().or((before == "env").then_some(STORES[STORES.len() - 1])).and_then(StoreKind::tools)
    {
        bail!(
            "--from: what can be read is a data folder, written sqlite:DIR; a database is copied with {}",
            tools.dump
        );
    }
    let kind = STORES.iter().find(|kind| is_in_folder(**kind) && kind.name() == before);
    Ok(match kind.and_then(|kind| said.strip_prefix(kind.name())) {
        Some("" | ":") => usual(),
        Some(rest) => {
            let folder = rest.strip_prefix(':').unwrap_or(rest);
            folder.strip_prefix("//").unwrap_or(folder).into()
        }
        None => said.into(),
    })
}

fn in_json(summary: &Summary) -> Value {
    let lines: Vec<Value> = summary
        .lines
        .iter()
        .map(|line| json!({ "what": line.what, "source": line.from, "target": line.to, "different": line.different }))
        .collect();
    json!({
        "same": summary.is_same(),
        "counts": lines,
        "logs_hash": { "source": summary.logs_from, "target": summary.logs_to },
        "ledger": Value::Null,
        "differences": summary.differences,
        "remarks": summary.remarks,
    })
}

/// Progress lines on standard error: one at the start of each kind, then at intervals.
#[derive(Default)]
struct Progress {
    what: Option<(bool, &'static str)>,
    told: Option<Instant>,
}

impl Progress {
    fn tell(&mut self, step: MigrationStep) {
        let (verb, what, rows) = match step {
            MigrationStep::Resumed => {
                say("an earlier migration was cut off; it goes on where it was");
                return;
            }
            MigrationStep::Copied { what, rows } => ("copied", what, rows),
            MigrationStep::Compared { what, rows } => ("compared", what, rows),
        };
        let now = Some((verb == "copied", what));
        if self.what == now && self.told.is_some_and(|told| told.elapsed() < PAUSE) {
            return;
        }
        (self.what, self.told) = (now, Some(Instant::now()));
        say(&format!("{verb} {rows} {what}"));
    }
}

/// A closed standard error does not stop the migration.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_a_data_folder_however_it_is_written() {
        let config = Some(Path::new("/srv/data"));
        for (said, folder) in [
            (None, "/srv/data"),
            (Some("sqlite"), "/srv/data"),
            (Some("sqlite:"), "/srv/data"),
            (Some("sqlite:here"), "here"),
            (Some("sqlite:/there"), "/there"),
            (Some("sqlite:///there"), "/there"),
            (Some("here"), "here"),
            (Some("sqlite-data"), "sqlite-data"),
        ] {
            assert_eq!(source(said, config).unwrap(), Path::new(folder), "{said:?}");
        }
        assert_eq!(source(None, None).unwrap(), Path::new("rialto-data"));
        for said in ["postgres://u@h/d", "postgresql://u@h/d", "env:NAME"] {
            let refused = source(Some(said), None).unwrap_err().to_string();
            assert!(refused.contains("pg_dump"), "{refused}");
        }
    }
}
