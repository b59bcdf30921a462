//! Shops, for operators: sites, catalogues, keys to workspaces, clients and grants of OAuth, and whether stock and money add up.

use std::fmt;
use std::path::Path;

use ::shop::import::Format;
use ::shop::site::Draft;
use ::shop::{Site, Slug};
use engine::Engine;
use jiff::Timestamp;
use model::{Fault, Kind, Time};
use retail::{Config, Refused, Report, Shop, What};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::audit;
use crate::oauth::{ClientShown, GrantShown, KeyShown, NewKey, Oauth, Rules};

/// So many differences are told; who has more has one trouble, not many.
const TOLD: usize = 1_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wish {
    /// Makes a site, or changes what is said of it.
    Site {
        slug: String,
        site: Draft,
    },
    Sites,
    /// Takes a catalogue, or nothing of it.
    Import {
        slug: String,
        csv: bool,
        text: Text,
    },
    KeyCreate {
        workspace: String,
        name: String,
        #[serde(default)]
        scopes: Vec<String>,
        #[serde(default)]
        expires_in_ms: Option<u64>,
    },
    KeyList {
        workspace: String,
    },
    KeyRevoke {
        workspace: String,
        id: String,
    },
    /// The clients that a workspace registered; without one, those that registered themselves.
    ClientList {
        #[serde(default)]
        workspace: Option<String>,
    },
    /// Removes a client, with every grant it has.
    ClientRemove {
        id: String,
    },
    GrantList {
        #[serde(default)]
        workspace: Option<String>,
        #[serde(default)]
        client: Option<String>,
    },
    /// Ends a grant, with all its tokens.
    GrantRemove {
        id: String,
    },
    Verify,
}

/// What is too long for a log.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

pub(super) async fn perform(
    engine: &Engine,
    running: Option<Shop>,
    rules: Rules,
    folder: &Path,
    wish: Wish,
) -> Result<Value, Fault> {
    let shop = match running {
        Some(shop) => shop,
        None => Shop::start(engine.clone(), Config::default(), false).await?,
    };
    let keys = Oauth::new(engine.clone(), rules);
    match wish {
        Wish::Site { slug, site } => put_site(&shop, folder, &slug, &site).await.map_err(told),
        Wish::Sites => {
            let mut shown = Vec::new();
            for site in shop.sites(None).await.map_err(told)? {
                let mut one = show(&site);
                one["products"] = json!(shop.product_count(&site.slug).await.map_err(told)?);
                shown.push(one);
            }
            Ok(json!({ "sites": shown }))
        }
        Wish::Import { slug, csv, text } => {
            let format = if csv { Format::Csv } else { Format::Json };
            let slug = Slug::check(&slug).map_err(|refusal| told(refusal.into()))?;
            let done = shop.import(&slug, format, &text.0).await.map_err(told)?;
            let shown = json!({
                "site": slug.as_str(), "made": done.made, "changed": done.changed, "coupons": done.coupons,
            });
            let mut line = shown.clone();
            line["change"] = json!("imported");
            note(folder, line);
            Ok(shown)
        }
        Wish::KeyCreate { workspace, name, scopes, expires_in_ms } => {
            let expires_at = expires_in_ms.map(|ms| shop.now().plus_ms(ms));
            let new = NewKey { workspace: workspace.into(), name, scopes, expires_at };
            let (secret, key) = keys.make_key(new).await?;
            let mut shown = show_key(&key);
            note(folder, with(&shown, "key created"));
            shown["secret"] = json!(secret);
            Ok(shown)
        }
        Wish::KeyList { workspace } => {
            let all = keys.keys(&workspace).await?;
            Ok(json!({ "keys": all.iter().map(show_key).collect::<Vec<_>>() }))
        }
        Wish::KeyRevoke { workspace, id } => {
            let Some(ended) = keys.revoke_key(&workspace, &id).await? else {
                let says = format!("the workspace {workspace:?} has no key {id:?}; see rialto shop keys");
                return Err(Fault::new(Kind::InvalidParams, says));
            };
            let shown = json!({
                "id": id, "workspace": workspace, "revoked": true, "clients": ended.clients, "grants": ended.grants,
            });
            note(folder, with(&shown, "key revoked"));
            Ok(shown)
        }
        Wish::ClientList { workspace } => {
            let (shown, all) = keys.clients(workspace.as_deref(), TOLD).await?;
            let left_off = all.saturating_sub(shown.len());
            Ok(json!({ "clients": shown.iter().map(show_client).collect::<Vec<_>>(), "left_off": left_off }))
        }
        Wish::ClientRemove { id } => {
            let Some(ended) = keys.remove_client(&id).await? else {
                let says = format!("there is no client {id:?}; see rialto shop clients");
                return Err(Fault::new(Kind::InvalidParams, says));
            };
            let shown = json!({ "id": id, "removed": true, "grants": ended.grants });
            note(folder, with(&shown, "client removed"));
            Ok(shown)
        }
        Wish::GrantList { workspace, client } => {
            let (shown, all) = keys.grants(workspace.as_deref(), client.as_deref(), TOLD).await?;
            let left_off = all.saturating_sub(shown.len());
            Ok(json!({ "grants": shown.iter().map(show_grant).collect::<Vec<_>>(), "left_off": left_off }))
        }
        Wish::GrantRemove { id } => {
            if !keys.remove_grant(&id).await? {
                let says = format!("there is no grant {id:?}; see rialto shop grants");
                return Err(Fault::new(Kind::InvalidParams, says));
            }
            let shown = json!({ "id": id, "removed": true });
            note(folder, with(&shown, "grant removed"));
            Ok(shown)
        }
        Wish::Verify => shop.verify().await.map(|report| verified(&report)).map_err(told),
    }
}

async fn put_site(shop: &Shop, folder: &Path, slug: &str, draft: &Draft) -> Result<Value, Refused> {
    let slug = Slug::check(slug)?;
    let had = match shop.site(&slug).await {
        Ok(site) => Some(site),
        Err(Refused::Unknown(What::Site)) => None,
        Err(refused) => return Err(refused),
    };
    let outcome = if had.is_some() { "changed" } else { "made" };
    let site = draft.make(slug, had, shop.now())?;
    shop.put_site(&site).await?;
    let mut shown = show(&site);
    note(folder, with(&shown, outcome));
    shown["outcome"] = json!(outcome);
    Ok(shown)
}

fn show(site: &Site) -> Value {
    let links = site.links.iter().map(|link| (link.name.to_string(), json!(&*link.url)));
    json!({
        "slug": site.slug.as_str(),
        "workspace": site.workspace.as_str(),
        "title": &*site.title,
        "description": &*site.description,
        "currency": site.currency.code(),
        "hosts": site.hosts,
        "links": links.collect::<serde_json::Map<_, _>>(),
        "shipping": site.currency.say(site.terms.shipping),
        "created_at": site.created_at.to_string(),
    })
}

fn show_key(key: &KeyShown) -> Value {
    json!({
        "id": &*key.id,
        "workspace": &*key.workspace,
        "name": key.name,
        "scopes": key.scopes,
        "created_at": key.made_at.to_string(),
        "expires_at": key.expires_at.map(|at| at.to_string()),
    })
}

fn show_client(client: &ClientShown) -> Value {
    json!({
        "id": &*client.id,
        "name": client.name,
        "workspace": client.workspace,
        "made_with": client.made_with,
        "scopes": client.scopes,
        "redirect_uris": client.redirects,
        "created_at": client.made_at.to_string(),
    })
}

fn show_grant(grant: &GrantShown) -> Value {
    json!({
        "id": grant.id,
        "client": &*grant.client,
        "workspace": &*grant.workspace,
        "subject": &*grant.subject,
        "made_with": grant.made_with,
        "scopes": grant.scopes,
        "created_at": grant.made_at.to_string(),
        "expires_at": grant.expires_at.to_string(),
    })
}

fn verified(report: &Report) -> Value {
    let differences: Vec<String> = report.differences.iter().take(TOLD).map(ToString::to_string).collect();
    json!({
        "clean": report.differences.is_empty(),
        "checkouts": report.sessions,
        "orders": report.orders,
        "units": report.units,
        "differences": differences,
        "left_off": report.differences.len().saturating_sub(TOLD),
    })
}

fn with(shown: &Value, change: &str) -> Value {
    let mut line = shown.clone();
    line["change"] = json!(change);
    line
}

fn note(folder: &Path, mut line: Value) {
    line["at"] = json!(Time(Timestamp::now().as_millisecond()).to_string());
    line["what"] = json!("shop");
    audit::append(folder, &line);
}

/// To an operator; of a catalogue everything that is wrong, a line each.
fn told(refused: Refused) -> Fault {
    match refused {
        Refused::Fault(fault) => fault,
        Refused::Catalogue(all) => {
            let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
            Fault::new(Kind::InvalidParams, format!("nothing was imported:\n{}", lines.join("\n")))
        }
        Refused::Workspace => {
            Fault::new(Kind::InvalidParams, "the site belongs to another workspace, and stays with it")
        }
        Refused::Unknown(What::Site) => {
            let says = "there is no such site; see rialto shop sites, or make it with rialto shop site";
            Fault::new(Kind::InvalidParams, says)
        }
        refused @ (Refused::Rule(_)
        | Refused::Unknown(_)
        | Refused::Unread(_)
        | Refused::Unauthenticated(_)
        | Refused::Scope(_)
        | Refused::KeyReused
        | Refused::TooManyCarts) => Fault::new(Kind::InvalidParams, refused.to_string()),
    }
}
