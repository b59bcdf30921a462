//! The operator's command `shop`: sites, catalogues, API keys of workspaces, OAuth clients and grants, and the check of stock
//! and money.

use std::fmt;

use crate::service::{Error as ServiceError, Shop, ShopConfig, ShopEntity, ShopReport};
use futures_util::FutureExt as _;
use model::{Fault, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shop_rules::import::CatalogueFormat;
use shop_rules::site::SiteDraft;
use shop_rules::{Site, Slug};
use tokio::sync::Mutex;

use super::ShopService;
use crate::oauth::{ApiKeySummary, ClientSummary, GrantSummary, NewWorkspaceKey, Oauth};
use gateway::admin::{AdminCommand, AdminContext, AdminRequest, ApiRole, CommandAccess, wrong_arguments};

/// Most differences, clients or grants in a response.
const MAX_LISTED: usize = 1_000;

/// The check reads all orders and entries into memory, so that callers of the admin API run one at a time.
static CHECKS: Mutex<()> = Mutex::const_new(());

pub static COMMANDS: [AdminCommand; 1] = [AdminCommand {
    name: "shop",
    creates_data: |arguments| matches!(arguments["wish"]["what"].as_str(), Some("site" | "key_create")),
    is_audited: true,
    has_secrets: true,
    access,
    perform: |context, arguments| perform(context, arguments).boxed(),
}];

/// Sites are of several workspaces, so every operation is about the whole server. Keys, clients and grants are for admins
/// alone, as keys of the server are.
fn access(arguments: &Value) -> CommandAccess {
    CommandAccess::about_server(match arguments["wish"]["what"].as_str() {
        Some("sites" | "verify") => ApiRole::Viewer,
        Some(_) | None => ApiRole::Admin,
    })
}

/// The command's arguments.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(rename = "wish")]
    operation: ShopOperation,
}

/// The command that performs an operation.
pub fn request(operation: ShopOperation) -> Result<AdminRequest, serde_json::Error> {
    Ok(AdminRequest::Product(&COMMANDS[0], serde_json::to_value(Arguments { operation })?))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum ShopOperation {
    /// Creates a site, or changes it.
    Site {
        slug: String,
        site: SiteDraft,
    },
    Sites,
    /// Imports a catalogue; one with errors is not imported at all.
    Import {
        slug: String,
        csv: bool,
        text: CatalogueText,
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

/// A catalogue's text. Its debug form has only the length.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CatalogueText(pub String);

impl fmt::Debug for CatalogueText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

async fn perform(context: &AdminContext<'_>, arguments: Value) -> Result<Value, Fault> {
    let Arguments { operation } = serde_json::from_value(arguments).map_err(wrong_arguments)?;
    let engine = context.engine;
    let server = context.running.map(|running| running.serving.now());
    let aly = server.as_deref().and_then(ShopService::settings);
    let rules = aly.map(|aly| aly.oauth.clone()).unwrap_or_default();
    let shop = match aly.and_then(|aly| aly.shop.clone()) {
        Some(shop) => shop,
        None => Shop::start(engine.clone(), ShopConfig::default(), false).await?,
    };
    let keys = Oauth::new(engine.clone(), rules);
    match operation {
        ShopOperation::Site { slug, site } => put_site(&shop, context, &slug, &site).await.map_err(operator_fault),
        ShopOperation::Sites => {
            let mut shown = Vec::new();
            for site in shop.sites(None).await.map_err(operator_fault)? {
                let mut one = show(&site);
                one["products"] = json!(shop.product_count(&site.slug).await.map_err(operator_fault)?);
                shown.push(one);
            }
            Ok(json!({ "sites": shown }))
        }
        ShopOperation::Import { slug, csv, text } => {
            let format = if csv { CatalogueFormat::Csv } else { CatalogueFormat::Json };
            let slug = Slug::check(&slug).map_err(|refusal| operator_fault(refusal.into()))?;
            let done = shop.import(&slug, format, &text.0).await.map_err(operator_fault)?;
            let shown = json!({
                "site": slug.as_str(), "made": done.made, "changed": done.changed, "coupons": done.coupons,
            });
            let mut line = shown.clone();
            line["change"] = json!("imported");
            context.audit("shop", line);
            Ok(shown)
        }
        ShopOperation::KeyCreate { workspace, name, scopes, expires_in_ms } => {
            let expires_at = expires_in_ms.map(|ms| shop.now().plus_ms(ms));
            let new = NewWorkspaceKey { workspace: workspace.into(), name, scopes, expires_at };
            let (secret, key) = keys.make_key(new).await?;
            let mut shown = show_key(&key);
            context.audit("shop", with(&shown, "key created"));
            shown["secret"] = json!(secret);
            Ok(shown)
        }
        ShopOperation::KeyList { workspace } => {
            let all = keys.keys(&workspace).await?;
            Ok(json!({ "keys": all.iter().map(show_key).collect::<Vec<_>>() }))
        }
        ShopOperation::KeyRevoke { workspace, id } => {
            let Some(ended) = keys.revoke_key(&workspace, &id).await? else {
                let says = format!("the workspace {workspace:?} has no key {id:?}; see rialto shop keys");
                return Err(Fault::new(Kind::InvalidParams, says));
            };
            let shown = json!({
                "id": id, "workspace": workspace, "revoked": true, "clients": ended.clients, "grants": ended.grants,
            });
            context.audit("shop", with(&shown, "key revoked"));
            Ok(shown)
        }
        ShopOperation::ClientList { workspace } => {
            let (shown, all) = keys.clients(workspace.as_deref(), MAX_LISTED).await?;
            let left_off = all.saturating_sub(shown.len());
            Ok(json!({ "clients": shown.iter().map(show_client).collect::<Vec<_>>(), "left_off": left_off }))
        }
        ShopOperation::ClientRemove { id } => {
            let Some(ended) = keys.remove_client(&id).await? else {
                let says = format!("there is no client {id:?}; see rialto shop clients");
                return Err(Fault::new(Kind::InvalidParams, says));
            };
            let shown = json!({ "id": id, "removed": true, "grants": ended.grants });
            context.audit("shop", with(&shown, "client removed"));
            Ok(shown)
        }
        ShopOperation::GrantList { workspace, client } => {
            let (shown, all) = keys.grants(workspace.as_deref(), client.as_deref(), MAX_LISTED).await?;
            let left_off = all.saturating_sub(shown.len());
            Ok(json!({ "grants": shown.iter().map(show_grant).collect::<Vec<_>>(), "left_off": left_off }))
        }
        ShopOperation::GrantRemove { id } => {
            if !keys.remove_grant(&id).await? {
                let says = format!("there is no grant {id:?}; see rialto shop grants");
                return Err(Fault::new(Kind::InvalidParams, says));
            }
            let shown = json!({ "id": id, "removed": true });
            context.audit("shop", with(&shown, "grant removed"));
            Ok(shown)
        }
        ShopOperation::Verify => {
            let busy =
                |_| Fault::new(Kind::Unavailable, "a check runs already; ask again when it is done").retry_after(5);
            let _running = context.requester.map(|_| CHECKS.try_lock().map_err(busy)).transpose()?;
            shop.verify().await.map(|report| verified(&report)).map_err(operator_fault)
        }
    }
}

async fn put_site(
    shop: &Shop,
    context: &AdminContext<'_>,
    slug: &str,
    draft: &SiteDraft,
) -> Result<Value, ServiceError> {
    let slug = Slug::check(slug)?;
    let had = match shop.site(&slug).await {
        Ok(site) => Some(site),
        Err(ServiceError::Unknown(ShopEntity::Site)) => None,
        Err(refused) => return Err(refused),
    };
    let outcome = if had.is_some() { "changed" } else { "made" };
    let site = draft.make(slug, had, shop.now())?;
    shop.put_site(&site).await?;
    let mut shown = show(&site);
    context.audit("shop", with(&shown, outcome));
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

fn show_key(key: &ApiKeySummary) -> Value {
    json!({
        "id": &*key.id,
        "workspace": &*key.workspace,
        "name": key.name,
        "scopes": key.scopes,
        "created_at": key.made_at.to_string(),
        "expires_at": key.expires_at.map(|at| at.to_string()),
    })
}

fn show_client(client: &ClientSummary) -> Value {
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

fn show_grant(grant: &GrantSummary) -> Value {
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

fn verified(report: &ShopReport) -> Value {
    let differences: Vec<String> = report.differences.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    json!({
        "clean": report.differences.is_empty(),
        "checkouts": report.sessions,
        "orders": report.orders,
        "units": report.units,
        "differences": differences,
        "left_off": report.differences.len().saturating_sub(MAX_LISTED),
    })
}

fn with(shown: &Value, change: &str) -> Value {
    let mut line = shown.clone();
    line["change"] = json!(change);
    line
}

/// A fault with a message for operators; all errors of a catalogue, one per line.
pub(crate) fn operator_fault(refused: ServiceError) -> Fault {
    match refused {
        ServiceError::Fault(fault) => fault,
        ServiceError::Catalogue(all) => {
            let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
            Fault::new(Kind::InvalidParams, format!("nothing was imported:\n{}", lines.join("\n")))
        }
        ServiceError::Workspace => {
            Fault::new(Kind::InvalidParams, "the site belongs to another workspace, and stays with it")
        }
        ServiceError::Unknown(ShopEntity::Site) => {
            let says = "there is no such site; see rialto shop sites, or make it with rialto shop site";
            Fault::new(Kind::InvalidParams, says)
        }
        refused @ (ServiceError::Rule(_)
        | ServiceError::Unknown(_)
        | ServiceError::Request(_)
        | ServiceError::Unauthenticated(_)
        | ServiceError::Scope(_)
        | ServiceError::KeyReused
        | ServiceError::TooManyCarts) => Fault::new(Kind::InvalidParams, refused.to_string()),
    }
}
