//! `rialto push`: how far webhooks have come, and delivering again.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use model::PushState;
use serde_json::Value;
use server::admin::Request;

use crate::command::{Output, Whereabouts};
use crate::config::Found;
use crate::operate::{ask, print, text};

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
    whereabouts: Whereabouts,
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
    /// Only this config [default: all of the task]
    #[arg(long, value_name = "ID")]
    config: Option<String>,
    /// The number of the event to begin at [default: where it stopped]
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// The data folder [default: ./rialto-data]
    // Not with the config file beside it, as elsewhere: `--config` is a webhook's here.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where tasks are kept, as for `serve` [default: sqlite]
    #[arg(long, value_name = "STORE")]
    store: Option<crate::store::Place>,
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

pub(crate) fn run(command: &Push) -> anyhow::Result<()> {
    match command {
        Push::List(list) => {
            let state = list.state.map(|state| PushState::from(state).code());
            let request = Request::PushList { task: list.task.clone(), state, limit: list.limit };
            let listed = ask(&Found::at(&list.whereabouts)?, &request)?;
            print(&list.output, &listed, table)
        }
        Push::Redeliver(again) => {
            let whereabouts = Whereabouts { config: None, data: again.data.clone(), store: again.store.clone() };
            let request =
                Request::PushRedeliver { task: again.task.clone(), id: again.config.clone(), from: again.from };
            let done = ask(&Found::at(&whereabouts)?, &request)?;
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

    use crate::command::Arguments;

    #[test]
    fn no_two_arguments_of_a_command_have_one_name() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_webhook_is_redelivered_by_its_id() {
        let typed = ["rialto", "push", "redeliver", "T", "--config", "c", "--from", "3", "--data", "d", "-o", "json"];
        assert!(Arguments::try_parse_from(typed).is_ok());
        assert!(Arguments::try_parse_from(["rialto", "push", "list", "--state", "dead", "--task", "T"]).is_ok());
        assert!(Arguments::try_parse_from(["rialto", "push", "list", "--state", "lost"]).is_err());
    }
}
