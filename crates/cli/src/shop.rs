//! `rialto shop`: sites, catalogues, workspace keys, OAuth clients and grants, and the audit of stock and money.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use gateway::admin::LINE;
use serde_json::Value;
use shop::admin::{self, CatalogueText, ShopOperation};
use shop_rules::site::SiteDraft as Draft;

use crate::command::{Output, OutputFormat};
use crate::operate::{ask, print, text};
use crate::remote::OperatorArgs;

#[derive(Subcommand)]
pub(crate) enum Shop {
    /// Make a site, or change what is said of it; what is left out stays as it is
    Site(Box<Site>),
    /// List the sites
    Sites(Sites),
    /// Take a catalogue from a CSV or JSON file, or nothing of it: what is there is changed, what is new is made
    Import(Import),
    /// Make an API key to a workspace; its secret is printed once and kept nowhere
    Key(Key),
    /// List the API keys of a workspace, or revoke one
    Keys(Keys),
    /// List the programs that may ask for tokens, or remove one with everything it was given
    Clients(Clients),
    /// List what programs may do for workspaces, or take it back
    Grants(Grants),
    /// Compare stock and money with checkouts and orders: exit code 0 when all agrees, 1 when something differs, 2 for trouble
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct Site {
    /// The site's name in addresses and messages, such as acme
    slug: String,
    /// The workspace (a tenant) it is of; a new site needs one
    #[arg(long)]
    workspace: Option<String>,
    /// Its title [default: the slug]
    #[arg(long)]
    title: Option<String>,
    #[arg(long)]
    description: Option<String>,
    /// Three letters; it stays [default: USD]
    #[arg(long)]
    currency: Option<String>,
    /// A host of its own; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Where else it is to be found; may be repeated
    #[arg(long = "link", value_name = "NAME=URL", value_parser = link)]
    links: Vec<(String, String)>,
    /// The price of sending, such as 4.90
    #[arg(long, value_name = "AMOUNT")]
    shipping: Option<String>,
    /// Sent for nothing from this subtotal on
    #[arg(long, value_name = "AMOUNT")]
    free_shipping_from: Option<String>,
    /// The tax on goods and shipping, between 0 and 1
    #[arg(long, value_name = "RATE")]
    tax: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Sites {
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Import {
    /// The file, or - for standard input
    file: PathBuf,
    /// The site whose catalogue it is
    #[arg(long, value_name = "SLUG")]
    site: String,
    /// The format of the file [default: by its name's end]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Csv,
    Json,
}

#[derive(Args)]
pub(crate) struct Key {
    /// The name of the key
    name: String,
    #[arg(long)]
    workspace: String,
    /// A scope of the key, such as write:orders; without any, it is good for everything; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// How long it is good, such as 30d, 12h or 45m [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = gateway::product::config::duration)]
    expires: Option<std::time::Duration>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Keys {
    #[arg(long)]
    workspace: String,
    /// Revoke the key of this id, at once
    #[arg(long, value_name = "ID")]
    revoke: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Clients {
    /// The clients that this workspace registered [default: those that registered themselves]
    #[arg(long)]
    workspace: Option<String>,
    /// Remove the client of this id, at once, with all its grants
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    remove: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Grants {
    /// Only those for this workspace
    #[arg(long)]
    workspace: Option<String>,
    /// Only those of this client
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// End the grant of this id, at once, with all its tokens
    #[arg(long, value_name = "ID", conflicts_with_all = ["workspace", "client"])]
    remove: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
struct At {
    #[command(flatten)]
    at: OperatorArgs,
    #[command(flatten)]
    output: Output,
    /// The same as --output json
    #[arg(long)]
    json: bool,
}

impl At {
    fn ask(&self, wish: ShopOperation) -> anyhow::Result<Value> {
        ask(&self.at, admin::request(wish)?)
    }

    fn print(&self, value: &Value, person: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
        let output = if self.json { OutputFormat::Json } else { self.output.output };
        print(&Output { output }, value, person)
    }
}

fn link(said: &str) -> Result<(String, String), String> {
    match said.split_once('=') {
        Some((name, url)) if !name.is_empty() => Ok((name.to_owned(), url.to_owned())),
        Some(_) | None => Err("write NAME=URL".into()),
    }
}

pub(crate) fn run(command: &Shop) -> ExitCode {
    let (outcome, trouble) = match command {
        Shop::Site(site) => (self::site(site), 1),
        Shop::Sites(sites) => (self::sites(sites), 1),
        Shop::Import(import) => (self::import(import), 1),
        Shop::Key(key) => (self::key(key), 1),
        Shop::Keys(keys) => (self::keys(keys), 1),
        Shop::Clients(clients) => (self::clients(clients), 1),
        Shop::Grants(grants) => (self::grants(grants), 1),
        Shop::Verify(verify) => (self::verify(verify), 2),
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

fn site(site: &Site) -> anyhow::Result<bool> {
    let said = |all: &[String]| (!all.is_empty()).then(|| all.to_vec());
    let links: BTreeMap<String, String> = site.links.iter().cloned().collect();
    let draft = Draft {
        workspace: site.workspace.clone(),
        title: site.title.clone(),
        description: site.description.clone(),
        currency: site.currency.clone(),
        hosts: said(&site.hosts),
        links: (!links.is_empty()).then_some(links),
        shipping: site.shipping.clone(),
        free_shipping_from: site.free_shipping_from.clone(),
        tax: site.tax.clone(),
    };
    let done = site.at.ask(ShopOperation::Site { slug: site.slug.clone(), site: draft })?;
    site.at.print(&done, |done| {
        format!(
            "{} ({}, {}) of the workspace {} is {}",
            text(&done["slug"]),
            text(&done["title"]),
            text(&done["currency"]),
            text(&done["workspace"]),
            text(&done["outcome"])
        )
    })?;
    Ok(true)
}

fn sites(sites: &Sites) -> anyhow::Result<bool> {
    let all = sites.at.ask(ShopOperation::Sites)?;
    sites.at.print(&all, |all| {
        let mut lines = vec![format!("{:24}  {:16}  {:8}  {:>9}  TITLE", "SITE", "WORKSPACE", "CURRENCY", "PRODUCTS")];
        lines.extend(all["sites"].as_array().into_iter().flatten().map(|site| {
            let (slug, workspace, currency) = (text(&site["slug"]), text(&site["workspace"]), text(&site["currency"]));
            let products = site["products"].to_string();
            format!("{slug:24}  {workspace:16}  {currency:8}  {products:>9}  {}", text(&site["title"]))
        }));
        lines.join("\n")
    })?;
    Ok(true)
}

/// A file's format, by its name.
fn format_of(file: &Path) -> anyhow::Result<Format> {
    match file.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Ok(Format::Csv),
        Some("json") => Ok(Format::Json),
        Some(_) | None => {
            bail!("cannot tell what {} is by its name; say --format csv or --format json", file.display())
        }
    }
}

fn import(import: &Import) -> anyhow::Result<bool> {
    let format = import.format.map_or_else(|| format_of(&import.file), Ok)?;
    let mut read = String::new();
    // A line of text grows in JSON, by half in likely cases.
    let most = LINE * 2 / 3;
    let from: Box<dyn Read> = if import.file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(&import.file);
        Box::new(opened.with_context(|| format!("cannot open {}", import.file.display()))?)
    };
    from.take(most + 1)
        .read_to_string(&mut read)
        .with_context(|| format!("cannot read {}; it must be UTF-8", import.file.display()))?;
    if read.len() as u64 > most {
        bail!("{} has more than {} MiB; import it in parts", import.file.display(), most >> 20);
    }
    let wish =
        ShopOperation::Import { slug: import.site.clone(), csv: format == Format::Csv, text: CatalogueText(read) };
    let done = import.at.ask(wish)?;
    import.at.print(&done, |done| {
        format!(
            "{}: {} products made, {} changed, {} coupons",
            text(&done["site"]),
            done["made"],
            done["changed"],
            done["coupons"]
        )
    })?;
    Ok(true)
}

fn key(key: &Key) -> anyhow::Result<bool> {
    let made = key.at.ask(ShopOperation::KeyCreate {
        workspace: key.workspace.clone(),
        name: key.name.clone(),
        scopes: key.scopes.clone(),
        expires_in_ms: key.expires.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    })?;
    key.at.print(&made, |made| {
        format!(
            "{}  {}\nthe key is shown once; send it as Authorization: Bearer",
            text(&made["id"]),
            text(&made["secret"])
        )
    })?;
    Ok(true)
}

fn keys(keys: &Keys) -> anyhow::Result<bool> {
    let workspace = keys.workspace.clone();
    if let Some(id) = &keys.revoke {
        let done = keys.at.ask(ShopOperation::KeyRevoke { workspace, id: id.clone() })?;
        keys.at.print(&done, |done| {
            let ended = format!("{} clients and {} grants", done["clients"], done["grants"]);
            format!("{} is revoked, and {ended} that were made with it are gone", text(&done["id"]))
        })?;
        return Ok(true);
    }
    let all = keys.at.ask(ShopOperation::KeyList { workspace })?;
    keys.at.print(&all, |all| {
        let mut lines = vec![format!("{:20}  {:24}  {:24}  SCOPES", "ID", "NAME", "EXPIRES")];
        lines.extend(all["keys"].as_array().into_iter().flatten().map(|key| {
            let scopes: Vec<&str> = key["scopes"].as_array().into_iter().flatten().map(text).collect();
            let scopes = if scopes.is_empty() { "(everything)".to_owned() } else { scopes.join(" ") };
            format!("{:20}  {:24}  {:24}  {scopes}", text(&key["id"]), text(&key["name"]), text(&key["expires_at"]))
        }));
        lines.join("\n")
    })?;
    Ok(true)
}

fn words(list: &Value) -> String {
    list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
}

/// The note under a list that was cut.
fn left_off(all: &Value) -> Option<String> {
    let more = all["left_off"].as_u64().filter(|more| *more > 0)?;
    Some(format!("and {more} more; name a workspace or a client to see fewer"))
}

fn clients(clients: &Clients) -> anyhow::Result<bool> {
    if let Some(id) = &clients.remove {
        let done = clients.at.ask(ShopOperation::ClientRemove { id: id.clone() })?;
        clients.at.print(&done, |done| format!("{} is removed, with {} grants", text(&done["id"]), done["grants"]))?;
        return Ok(true);
    }
    let all = clients.at.ask(ShopOperation::ClientList { workspace: clients.workspace.clone() })?;
    clients.at.print(&all, |all| {
        let mut lines = vec![format!("{:30}  {:20}  {:24}  {:24}  SCOPES", "ID", "NAME", "MADE WITH", "CREATED")];
        lines.extend(all["clients"].as_array().into_iter().flatten().map(|client| {
            let (id, name) = (text(&client["id"]), text(&client["name"]));
            let (maker, created) = (text(&client["made_with"]), text(&client["created_at"]));
            format!("{id:30}  {name:20}  {maker:24}  {created:24}  {}", words(&client["scopes"]))
        }));
        lines.extend(left_off(all));
        lines.join("\n")
    })?;
    Ok(true)
}

fn grants(grants: &Grants) -> anyhow::Result<bool> {
    if let Some(id) = &grants.remove {
        let done = grants.at.ask(ShopOperation::GrantRemove { id: id.clone() })?;
        grants.at.print(&done, |done| format!("{} is ended", text(&done["id"])))?;
        return Ok(true);
    }
    let wish = ShopOperation::GrantList { workspace: grants.workspace.clone(), client: grants.client.clone() };
    let all = grants.at.ask(wish)?;
    grants.at.print(&all, |all| {
        let mut lines = vec![format!(
            "{:32}  {:30}  {:16}  {:24}  {:24}  SCOPES",
            "ID", "CLIENT", "WORKSPACE", "MADE WITH", "ENDS"
        )];
        lines.extend(all["grants"].as_array().into_iter().flatten().map(|grant| {
            let (id, client) = (text(&grant["id"]), text(&grant["client"]));
            let (workspace, maker) = (text(&grant["workspace"]), text(&grant["made_with"]));
            let (ends, scopes) = (text(&grant["expires_at"]), words(&grant["scopes"]));
            format!("{id:32}  {client:30}  {workspace:16}  {maker:24}  {ends:24}  {scopes}")
        }));
        lines.extend(left_off(all));
        lines.join("\n")
    })?;
    Ok(true)
}

fn verify(verify: &Verify) -> anyhow::Result<bool> {
    let report = verify.at.ask(ShopOperation::Verify)?;
    let clean = report["clean"].as_bool().context("the server answered something else than a report")?;
    verify.at.print(&report, |report| {
        let differences = report["differences"].as_array().into_iter().flatten();
        let mut lines: Vec<String> = differences.map(|difference| format!("! {}", text(difference))).collect();
        match report["left_off"].as_u64() {
            Some(more) if more > 0 => lines.push(format!("! and {more} more")),
            Some(_) | None => {}
        }
        lines.push(format!(
            "{} checkouts, {} orders, {} counted units: {}",
            report["checkouts"],
            report["orders"],
            report["units"],
            if clean { "all agrees" } else { "something differs" }
        ));
        lines.join("\n")
    })?;
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::{Arguments, DataArgs};
    use crate::store::StoreLocation;

    #[test]
    fn what_can_be_typed() {
        for typed in [
            &["site", "acme", "--workspace", "w", "--title", "Acme", "--currency", "EUR", "--host", "a.example"][..],
            &["site", "acme", "--link", "blog=https://b.example", "--shipping", "4.90", "--tax", "0.19"],
            &["sites", "--json"],
            &["import", "hats.csv", "--site", "acme"],
            &["import", "-", "--site", "acme", "--format", "json", "--data", "d"],
            &["key", "till", "--workspace", "w", "--scope", "write:orders", "--expires", "30d"],
            &["keys", "--workspace", "w", "--revoke", "key_1"],
            &["clients"],
            &["clients", "--workspace", "w", "--json"],
            &["clients", "--remove", "client_1"],
            &["grants", "--workspace", "w", "--client", "client_1"],
            &["grants", "--remove", "0123"],
            &["verify", "-o", "json"],
        ] {
            let parsed = Arguments::try_parse_from(["rialto", "shop"].iter().chain(typed));
            assert!(parsed.is_ok(), "{typed:?}: {}", parsed.err().unwrap());
        }
        for typed in [&["import", "hats.csv"][..], &["site"], &["site", "acme", "--link", "blog"], &["key", "till"]] {
            assert!(Arguments::try_parse_from(["rialto", "shop"].iter().chain(typed)).is_err(), "{typed:?}");
        }
    }

    fn at(folder: &Path) -> At {
        let (data, store) = (Some(folder.to_owned()), Some(StoreLocation::default()));
        At {
            at: OperatorArgs { whereabouts: DataArgs { config: None, data, store }, ..OperatorArgs::default() },
            output: Output { output: OutputFormat::Json },
            json: false,
        }
    }

    fn acme(draft: Draft) -> ShopOperation {
        ShopOperation::Site { slug: "acme".into(), site: draft }
    }

    #[test]
    fn a_shop_is_made_and_filled_without_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let desk = at(folder.path());
        assert!(desk.ask(ShopOperation::Verify).unwrap_err().to_string().contains("there is no data in"));
        let made = desk.ask(acme(Draft { workspace: Some("w".into()), ..Draft::default() })).unwrap();
        assert_eq!((text(&made["outcome"]), text(&made["currency"])), ("made", "USD"));
        let changed = desk.ask(acme(Draft { title: Some("Acme".into()), ..Draft::default() })).unwrap();
        assert_eq!((text(&changed["outcome"]), text(&changed["workspace"])), ("changed", "w"));
        let refused = desk.ask(acme(Draft { workspace: Some("x".into()), ..Draft::default() })).unwrap_err();
        assert!(refused.to_string().contains("another workspace"), "{refused}");

        let file = folder.path().join("hats.CSV");
        std::fs::write(&file, "id,name,price,stock\nsun,Sun hat,19.90,5\nbad,Bad hat,much,1\n").unwrap();
        let wanted = |file: &Path, site: &str| Import {
            file: file.to_owned(),
            site: site.to_owned(),
            format: None,
            at: at(folder.path()),
        };
        let refused = import(&wanted(&file, "acme")).unwrap_err().to_string();
        assert!(refused.contains("nothing was imported") && refused.contains("line 3"), "{refused}");
        std::fs::write(&file, "id,name,price,stock\nsun,Sun hat,19.90,5\n").unwrap();
        assert!(import(&wanted(&file, "nobody")).unwrap_err().to_string().contains("no such site"));
        assert!(import(&wanted(&file, "acme")).unwrap());
        let nameless = folder.path().join("hats");
        assert!(import(&wanted(&nameless, "acme")).unwrap_err().to_string().contains("--format"));
        let all = desk.ask(ShopOperation::Sites).unwrap();
        assert_eq!((&all["sites"][0]["products"], text(&all["sites"][0]["title"])), (&serde_json::json!(1), "Acme"));

        let wish = |scope: &str| ShopOperation::KeyCreate {
            workspace: "w".into(),
            name: "till".into(),
            scopes: vec![scope.into()],
            expires_in_ms: None,
        };
        assert!(desk.ask(wish("write:anything")).unwrap_err().to_string().contains("no scope"));
        let key = desk.ask(wish("write:orders")).unwrap();
        assert!(text(&key["secret"]).starts_with("aly_"), "{key}");
        let listed = desk.ask(ShopOperation::KeyList { workspace: "w".into() }).unwrap();
        assert_eq!((&listed["keys"][0]["id"], listed["keys"][0].get("secret")), (&key["id"], None));
        let revoke = || ShopOperation::KeyRevoke { workspace: "w".into(), id: text(&key["id"]).to_owned() };
        desk.ask(revoke()).unwrap();
        assert!(desk.ask(revoke()).unwrap_err().to_string().contains("no key"));
        assert!(verify(&Verify { at: at(folder.path()) }).unwrap());

        let noted = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
        for change in ["made", "changed", "imported", "key created", "key revoked"] {
            let line = format!("\"change\":\"{change}\"");
            assert_eq!(noted.matches(&line).count(), 1, "{change} in {noted}");
        }
        assert!(!noted.contains(text(&key["secret"])), "{noted}");
    }
}
