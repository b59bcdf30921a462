//! `rialto market`: users, deposits, the ledger and its audit.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use gateway::admin::RedactedText;
use market::admin::{self, MarketOperation, OpenedKey};
use serde_json::Value;

use crate::command::{Output, OutputFormat};
use crate::config::Config;
use crate::operate::{ask, print, text};
use crate::remote::OperatorArgs;
use market::config::Switch;

#[derive(Subcommand)]
pub(crate) enum Market {
    /// Open a user, with a key that is printed once and kept nowhere
    Open(Open),
    /// Credit a user with money from outside; the same reference is booked once
    Credit(Credit),
    /// Print a user's statement, an account's, or the journal
    Ledger(Ledger),
    /// Tell every balance again from the journal: exit code 0 when all agrees, 1 when something differs, 2 for trouble
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct Open {
    /// The name the person logs in with
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Read the person's password from standard input, one line
    #[arg(long, requires = "account")]
    password_stdin: bool,
    /// The user's id [default: one is drawn]
    #[arg(long)]
    id: Option<String>,
    /// A platform whose keys may act for the user; may be repeated
    #[arg(long = "platform", value_name = "NAME")]
    platforms: Vec<String>,
    /// The most its agents may spend in one purchase without a person's yes, in UT [default: as the config says]
    #[arg(long, value_name = "UT", requires = "daily")]
    per_call: Option<String>,
    /// The same for one day of UTC
    #[arg(long, value_name = "UT", requires = "per_call")]
    daily: Option<String>,
    /// The key to make: user (acts for this user), platform:NAME (acts for all of the platform's users), or none
    #[arg(long, value_name = "KEY", default_value = "user", value_parser = key)]
    key: Wanted,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Credit {
    /// The user's id
    user: String,
    /// How much, in UT, such as 100 or 0.5
    amount: String,
    /// A name for it outside, such as the number of a payment; booked once [default: one is drawn]
    #[arg(long, value_name = "REF")]
    reference: Option<String>,
    /// Words for the statement
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Ledger {
    /// The user's balance, and how it came to be
    #[arg(long, value_name = "USER", conflicts_with = "account")]
    user: Option<String>,
    /// An account: available:USER, frozen:USER, commission or outside
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// The newest so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct At {
    #[command(flatten)]
    at: OperatorArgs,
    #[command(flatten)]
    output: Output,
    /// The same as --output json
    #[arg(long)]
    json: bool,
}

/// The requested key, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted(Option<OpenedKey>);

fn key(said: &str) -> Result<Wanted, String> {
    match said.split_once(':') {
        None if said == "user" => Ok(Wanted(Some(OpenedKey::User))),
        None if said == "none" => Ok(Wanted(None)),
        Some(("platform", name)) if !name.is_empty() => Ok(Wanted(Some(OpenedKey::Platform(name.to_owned())))),
        Some(_) | None => Err("write user, platform:NAME or none".into()),
    }
}

impl At {
    fn ask(&self, wish: MarketOperation) -> anyhow::Result<Value> {
        if let Some(server) = self.at.server()? {
            return server.ask(&admin::request(None, wish)?);
        }
        let tenant = match &self.at.whereabouts.config {
            Some(file) => match Config::load(Some(file))?.market {
                Some(Switch::On(market)) => Some(market.tenant().to_owned()),
                Some(Switch::Off) | None => None,
            },
            None => None,
        };
        ask(&self.at, admin::request(tenant, wish)?)
    }

    fn print(&self, value: &Value, person: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
        let output = if self.json { OutputFormat::Json } else { self.output.output };
        print(&Output { output }, value, person)
    }
}

pub(crate) fn run(command: &Market) -> ExitCode {
    let (outcome, trouble) = match command {
        Market::Open(open) => (self::open(open), 1),
        Market::Credit(credit) => (self::credit(credit), 1),
        Market::Ledger(ledger) => (self::ledger(ledger), 1),
        Market::Verify(verify) => (self::verify(verify), 2),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            crate::tell(&error);
            if crate::is_closed_pipe(&error) { ExitCode::SUCCESS } else { ExitCode::from(trouble) }
        }
    }
}

fn open(open: &Open) -> anyhow::Result<bool> {
    let password = if open.password_stdin {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("cannot read the password from standard input")?;
        let password = line.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            bail!("standard input has no password; pipe one in: rialto market open --password-stdin < FILE");
        }
        Some(RedactedText(password.to_owned()))
    } else {
        None
    };
    let wish = MarketOperation::Open {
        id: open.id.clone(),
        account: open.account.clone(),
        password,
        platforms: open.platforms.clone(),
        limits: open.per_call.clone().zip(open.daily.clone()),
        key: open.key.0.clone(),
    };
    let made = open.at.ask(wish)?;
    open.at.print(&made, |made| {
        let mut lines = vec![format!("user {}", text(&made["user_id"]))];
        if !made["api_key"].is_null() {
            lines.push(format!("key  {}", text(&made["api_key"])));
            lines.push("the key is shown once; send it as X-Api-Key, with the user as X-Platform-User-Id".into());
        }
        lines.join("\n")
    })?;
    Ok(true)
}

fn credit(credit: &Credit) -> anyhow::Result<bool> {
    let (user, amount) = (credit.user.clone(), credit.amount.clone());
    let wish = MarketOperation::Credit { user, amount, reference: credit.reference.clone(), note: credit.note.clone() };
    let done = credit.at.ask(wish)?;
    credit.at.print(&done, |done| {
        format!(
            "{} has {} UT available and {} frozen; booked under the reference {}",
            text(&done["user_id"]),
            text(&done["available"]),
            text(&done["frozen"]),
            text(&done["reference"])
        )
    })?;
    Ok(true)
}

fn ledger(ledger: &Ledger) -> anyhow::Result<bool> {
    let account = match &ledger.user {
        Some(user) => Some(format!("available:{user}")),
        None => ledger.account.clone(),
    };
    let read = ledger.at.ask(MarketOperation::Ledger { account, limit: ledger.limit })?;
    ledger.at.print(&read, |read| if read["account"].is_null() { journal(read) } else { statement(read) })?;
    Ok(true)
}

fn statement(read: &Value) -> String {
    let mut lines = vec![text(&read["account"]).to_owned()];
    lines.push(format!("{:24}  {:10}  {:>14}  {:>14}  {:29}  NOTE", "AT", "TYPE", "AMOUNT", "BALANCE", "TRANSACTION"));
    for line in read["lines"].as_array().into_iter().flatten() {
        lines.push(
            format!(
                "{:24}  {:10}  {:>14}  {:>14}  {:29}  {}",
                text(&line["at"]),
                text(&line["type"]),
                text(&line["amount"]),
                text(&line["balance_after"]),
                text(&line["transaction"]),
                text(&line["note"])
            )
            .trim_end()
            .to_owned(),
        );
    }
    lines.join("\n")
}

fn journal(read: &Value) -> String {
    let mut lines = Vec::new();
    for entry in read["entries"].as_array().into_iter().flatten() {
        let note = entry["note"].as_str().map(|note| format!("  {note}")).unwrap_or_default();
        lines.push(format!("{:>8}  {}  {}{note}", entry["place"].to_string(), text(&entry["at"]), text(&entry["id"])));
        for line in entry["lines"].as_array().into_iter().flatten() {
            let (kind, amount, account) = (text(&line["type"]), text(&line["amount"]), text(&line["account"]));
            lines.push(format!("          {kind:10}  {amount:>14}  {account}"));
        }
    }
    if lines.is_empty() {
        return "the journal is empty".into();
    }
    lines.join("\n")
}

fn verify(verify: &Verify) -> anyhow::Result<bool> {
    let report = verify.at.ask(MarketOperation::Verify)?;
    let clean = report["clean"].as_bool().context("the server answered something else than a report")?;
    verify.at.print(&report, |report| {
        let mut lines: Vec<String> = Vec::new();
        let differences = report["differences"].as_array().into_iter().flatten();
        lines.extend(differences.map(|difference| format!("! {}", text(difference))));
        match report["left_off"].as_u64() {
            Some(more) if more > 0 => lines.push(format!("! and {more} more")),
            Some(_) | None => {}
        }
        lines.push(format!(
            "{} accounts, {} entries, {} transactions, {} holds, {} of turns: {}",
            report["accounts"],
            report["entries"],
            report["transactions"],
            report["holds"],
            report["turn_holds"],
            if clean { "all agrees" } else { "something differs" }
        ));
        if report["at_work"] == true {
            let advice = "money moved all the while; check a backup, or when it is quiet, to be sure of every account";
            lines.push(advice.into());
        }
        lines.join("\n")
    })?;
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use model::ports::store::{Commit, Outcome};
    use model::{Entry, Posting};
    use serde_json::json;

    use super::*;
    use crate::command::{Arguments, DataArgs};
    use crate::store::{StoreLocation, StoreTuning};

    #[test]
    fn what_can_be_typed() {
        for typed in [
            &["open"][..],
            &["open", "--account", "ann", "--password-stdin", "--id", "u_1", "--platform", "a", "--platform", "b"],
            &["open", "--per-call", "10", "--daily", "100", "--key", "platform:a", "--json"],
            &["credit", "u_1", "100", "--reference", "r", "--note", "n", "--data", "d"],
            &["ledger", "--user", "u_1", "--limit", "5"],
            &["ledger", "--account", "commission", "-o", "json"],
            &["verify", "--store", "postgres://u@h/d"],
        ] {
            let parsed = Arguments::try_parse_from(["rialto", "market"].iter().chain(typed));
            assert!(parsed.is_ok(), "{typed:?}: {}", parsed.err().unwrap());
        }
        for typed in [
            &["open", "--password-stdin"][..],
            &["open", "--per-call", "10"],
            &["open", "--key", "platform:"],
            &["open", "--key", "everybody"],
            &["credit", "u_1"],
            &["ledger", "--user", "u", "--account", "outside"],
        ] {
            assert!(Arguments::try_parse_from(["rialto", "market"].iter().chain(typed)).is_err(), "{typed:?}");
        }
    }

    fn at(folder: &std::path::Path) -> At {
        let (data, store) = (Some(folder.to_owned()), Some(StoreLocation::default()));
        At {
            at: OperatorArgs { whereabouts: DataArgs { config: None, data, store }, ..OperatorArgs::default() },
            output: Output { output: OutputFormat::Json },
            json: false,
        }
    }

    fn user(id: &str, key: Option<OpenedKey>) -> MarketOperation {
        let (account, password) = (Some(format!("{id}@example.com")), Some(RedactedText("correct horse".into())));
        MarketOperation::Open {
            id: Some(id.into()),
            account,
            password,
            platforms: vec!["shop".into()],
            limits: None,
            key,
        }
    }

    fn credit_of(amount: &str) -> MarketOperation {
        let (user, reference) = ("u_1".into(), Some("r".into()));
        MarketOperation::Credit { user, amount: amount.into(), reference, note: Some("cash".into()) }
    }

    #[test]
    fn a_data_folder_is_worked_on_without_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let desk = at(folder.path());
        let error = desk.ask(MarketOperation::Verify).unwrap_err().to_string();
        assert!(error.contains("there is no data in"), "{error}");

        let made = desk.ask(user("u_1", Some(OpenedKey::User))).unwrap();
        assert_eq!((text(&made["user_id"]), text(&made["account"])), ("u_1", "u_1@example.com"));
        assert!(text(&made["api_key"]).starts_with("uk_"), "{made}");
        let again = desk.ask(user("u_1", None)).unwrap_err().to_string();
        assert!(again.contains("already"), "{again}");
        let platform = desk.ask(user("u_2", Some(OpenedKey::Platform("shop".into())))).unwrap();
        assert!(text(&platform["api_key"]).starts_with("pk_"), "{platform}");

        for _ in 0..2 {
            let done = desk.ask(credit_of("100.50")).unwrap();
            assert_eq!((text(&done["available"]), text(&done["frozen"])), ("100.5", "0"), "a reference is booked once");
        }
        assert!(desk.ask(credit_of("101")).unwrap_err().to_string().contains("already"));
        assert!(desk.ask(credit_of("1.234")).unwrap_err().to_string().contains("at most 2 digits"));
        let drawn = MarketOperation::Credit { user: "u_2".into(), amount: "1".into(), reference: None, note: None };
        assert_ne!(desk.ask(drawn.clone()).unwrap()["reference"], desk.ask(drawn).unwrap()["reference"]);

        let ledger =
            |account: Option<&str>| desk.ask(MarketOperation::Ledger { account: account.map(str::to_owned), limit: 2 });
        let lines = ledger(Some("available:u_1")).unwrap();
        assert_eq!(lines["lines"].as_array().unwrap().len(), 1, "{lines}");
        assert_eq!((text(&lines["lines"][0]["type"]), text(&lines["lines"][0]["note"])), ("recharge", "cash"));
        assert_eq!(ledger(None).unwrap()["entries"].as_array().unwrap().len(), 2, "the newest two of three");
        assert!(ledger(Some("available:u_3")).unwrap_err().to_string().contains("no such user"));
        assert!(ledger(Some("pocket")).unwrap_err().to_string().contains("available:USER"));

        let noted = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
        assert_eq!((noted.matches("\"opened\"").count(), noted.matches("\"credited\"").count()), (2, 4), "{noted}");
        assert!(!noted.contains("correct horse") && !noted.contains(text(&made["api_key"])), "{noted}");
    }

    #[test]
    fn a_check_finds_what_somebody_wrote_behind_the_markets_back() {
        let folder = tempfile::tempdir().unwrap();
        let desk = at(folder.path());
        desk.ask(user("u_1", None)).unwrap();
        desk.ask(credit_of("5")).unwrap();
        assert!(verify(&Verify { at: at(folder.path()) }).unwrap());

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let choice = StoreLocation::default().options(&StoreTuning::of_command(folder.path())).unwrap();
            let store = choice.visit().await.unwrap();
            // Money held for a purchase that does not exist.
            let of = |purse: &str| json!({ "tenant": "default", "purse": { purse: "u_1" } });
            let booked = json!({ "i": "tx_01h455vb4pex5vsknk084sn02q/freeze", "l": [
                { "a": of("available"), "k": "freeze", "m": -500 }, { "a": of("frozen"), "k": "freeze", "m": 500 } ] });
            let body = [b"\x01", booked.to_string().as_bytes()].concat().into();
            let postings = [("a\u{1f}default\u{1f}u_1", -500), ("f\u{1f}default\u{1f}u_1", 500)]
                .map(|(account, amount)| Posting { account: account.into(), amount, floor: None });
            let stray = Entry { id: Default::default(), at: model::Time(1), body, postings: postings.into() };
            let commit = Commit { entries: vec![stray], ..Commit::default() };
            assert_eq!(store.commit(commit).await, Outcome::Done);
            store.close().await;
        });
        let report = desk.ask(MarketOperation::Verify).unwrap();
        assert_eq!(report["clean"], false, "{report}");
        let told = |words: &str| report["differences"].as_array().unwrap().iter().any(|one| text(one).contains(words));
        assert!(told("hold of") && told("nothing explains it"), "{report}");
        assert!(!verify(&Verify { at: at(folder.path()) }).unwrap());
    }

    #[test]
    fn tables_for_people() {
        let read = json!({ "account": "default: available of u_1", "lines": [{ "id": "x/0",
            "at": "2026-01-01T00:00:00.000Z", "type": "recharge", "amount": "5", "balance_after": "5",
            "transaction": null, "note": "hello" }] });
        assert!(statement(&read).contains("recharge") && statement(&read).ends_with("hello"), "{}", statement(&read));
        let read = json!({ "entries": [{ "place": 7, "id": "recharge/default/r", "at": "t", "note": null,
            "lines": [{ "account": "default: outside", "type": "recharge", "amount": "-5" }] }] });
        assert_eq!(
            journal(&read),
            "       7  t  recharge/default/r\n          recharge                -5  default: outside"
        );
        assert_eq!(journal(&json!({ "entries": [] })), "the journal is empty");
    }
}
