//! `rialto push`: shows the state of webhook deliveries, and delivers again.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gateway::admin::CoreRequest;
use model::PushState;
use serde_json::Value;

use crate::command::{Output, config_here};
use crate::operate::{ask, print, text};
use crate::remote::OperatorArgs;

#[derive(Subcommand)]
pub(crate) enum Push {
    /// List webhooks and how far their deliveries have come
    List(List),
    /// Deliver again what was given up, or from an earlier event on
    Redeliver(Redeliver),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    at: OperatorArgs,
    /// Only those of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only those in this state: active (more to deliver), done, or dead (given up)
    #[arg(long)]
    state: Option<State>,
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct Redeliver {
    /// The task's id
    task: String,
    /// Only this push config of the task, by its id [default: all of them]
    #[arg(long, value_name = "ID")]
    push_config: Option<String>,
    /// The number of the event to begin at [default: where it stopped]
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    #[command(flatten)]
    at: OperatorArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    Active,
    Done,
    Dead,
}

impl From<State> for PushState {
    fn from(state: State) -> PushState {
        match state {
            State::Active => PushState::Active,
            State::Done => PushState::Done,
            State::Dead => PushState::Dead,
        }
    }
}

impl Redeliver {
    /// The data's location, and the id of the push config. `--config` used to be that id; it now names the config
    /// file, as in other commands, but a value that is no file still counts as an id.
    fn meant(&self) -> (OperatorArgs, Option<String>) {
        let mut at = self.at.clone();
        let old = match (&self.push_config, &at.whereabouts.config) {
            (None, Some(named)) if !named.exists() => Some(named.display().to_string()),
            (Some(_), _) | (None, _) => None,
        };
        if old.is_some() {
            // Then no config file is named, and the usual one says where the data is.
            at.whereabouts.config = config_here().map(PathBuf::from);
        }
        (at, self.push_config.clone().or(old))
    }
}

pub(crate) fn run(command: &Push) -> anyhow::Result<()> {
    match command {
        Push::List(list) => {
            let state = list.state.map(|state| PushState::from(state).code());
            let request = CoreRequest::PushList { task: list.task.clone(), state, limit: list.limit };
            let listed = ask(&list.at, request)?;
            print(&list.output, &listed, table)
        }
        Push::Redeliver(again) => {
            let (at, id) = again.meant();
            let request = CoreRequest::PushRedeliver { task: again.task.clone(), id, from: again.from };
            let done = ask(&at, request)?;
            print(&again.output, &done, |done| {
                format!("{} push configs of {} are delivered to again", done["redelivered"], text(&done["task"]))
            })
        }
    }
}

fn table(listed: &Value) -> String {
    let mut lines = vec![format!(
        "{:36}  {:16}  {:6}  {:>5}  {:>9}  {:>8}  {:32}  TROUBLE",
        "TASK", "CONFIG", "STATE", "NEXT", "DELIVERED", "ATTEMPTS", "ENDPOINT"
    )];
    for one in listed["deliveries"].as_array().into_iter().flatten() {
        let endpoint = if one["endpoint"].is_null() { "(sealed)" } else { text(&one["endpoint"]) };
        lines.push(format!(
            "{:36}  {:16}  {:6}  {:>5}  {:>9}  {:>8}  {endpoint:32}  {}",
            text(&one["task"]),
            text(&one["config"]),
            text(&one["state"]),
            one["next"].to_string(),
            one["delivered"].to_string(),
            one["attempts"].to_string(),
            text(&one["trouble"])
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Push;
    use crate::command::{Arguments, Command};

    #[test]
    fn no_two_arguments_of_a_command_have_one_name() {
        Arguments::command().debug_assert();
    }

    /// The config file and the push config id of `rialto push redeliver T` with these arguments.
    fn redelivered(words: &[&str]) -> (Option<String>, Option<String>) {
        let typed = ["rialto", "push", "redeliver", "T"].iter().chain(words);
        let Command::Push(Push::Redeliver(again)) = Arguments::try_parse_from(typed).unwrap().command else {
            panic!("{words:?} is another command");
        };
        let (at, id) = again.meant();
        (at.whereabouts.config.map(|file| file.display().to_string()), id)
    }

    #[test]
    fn a_webhook_is_redelivered_by_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rialto.yaml");
        std::fs::write(&file, "").unwrap();
        let file = file.display().to_string();
        let id = || Some("c".to_owned());
        assert_eq!(redelivered(&["--push-config", "c", "--from", "3", "--data", "d", "-o", "json"]), (None, id()));
        assert_eq!(redelivered(&["--push-config", "c", "--config", &file]), (Some(file.clone()), id()));
        assert_eq!(redelivered(&["--config", &file]), (Some(file.clone()), None));
        // The earlier form.
        assert_eq!(redelivered(&["--config", "c"]), (None, id()));
        assert_eq!(redelivered(&[]), (None, None));
        assert!(Arguments::try_parse_from(["rialto", "push", "list", "--state", "dead", "--task", "T"]).is_ok());
        assert!(Arguments::try_parse_from(["rialto", "push", "list", "--state", "lost"]).is_err());
    }
}
