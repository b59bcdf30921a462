//! External agents of users, which run elsewhere, and their webhooks.
//!
//! The address and the secret of a webhook are sealed like those of task webhooks; its events are stored in the clear.
//! The subscriptions of a user are in one row, so that a step of a purchase reads one row for each party.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ledger::records::listed;
use ledger::{FreshKey, Row, TransactionId, UserId};
use market_rules::FieldError;
use market_rules::capability::called_at;
use model::ports::store::Conflict;
use model::ports::webhook::WebhookSender;
use model::{Expect, Fault, Kind, PushSpec, RecordChange, TaskId, Time};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::service::idempotency::{StoredResult, is_about_once};
use crate::service::records;
use crate::service::{DIALECT, Error, Event, Market, MarketCaller, MarketEntity, Once, Paged, Paging};

const ATTEMPTS: u32 = 8;
/// Number of cached users without external agents.
const QUIET: usize = 8_192;
/// Maximum number of external agents of one user.
const MOST: usize = 20;
const MAX_NAME: usize = 200;
const MAX_DESCRIPTION: usize = 2_000;
const MAX_AUTH: usize = 50;
const MAX_URL: usize = 2_000;
/// Permitted lengths of a webhook's secret, in characters.
const SECRET: std::ops::RangeInclusive<usize> = 16..=200;

/// An agent of a user that runs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    pub tenant: Arc<str>,
    /// `ext_` and letters.
    pub id: Arc<str>,
    pub owner: UserId,
    pub platform_url: Arc<str>,
    pub agent_name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Its authentication type, in the owner's words.
    pub auth_type: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) webhook: Option<Sealed>,
    pub created_at: Time,
    pub updated_at: Time,
}
impl Row for External {
    const NAME: &'static str = "external agent";
}

/// A stored webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    pub(crate) events: Vec<Event>,
    /// A sealed [`PushSpec`], in base64.
    spec: Arc<str>,
}

/// A webhook as its owner sees it, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `None` if it was sealed with another key.
    pub url: Option<String>,
    pub events: Vec<Event>,
}

/// A caller's input for an external agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewExternal {
    pub platform_url: Option<String>,
    pub agent_name: Option<String>,
    pub description: Option<String>,
    pub auth_type: Option<String>,
}

/// A change of a webhook: an absent field stays as it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebhookEdit {
    pub url: Option<String>,
    pub events: Option<Vec<String>>,
    pub secret: Option<String>,
}

/// A secret is in no log.
impl std::fmt::Debug for WebhookEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookEdit").field("events", &self.events).finish_non_exhaustive()
    }
}

/// The event subscriptions of a user's external agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hooks {
    pub(crate) agents: Vec<Hook>,
}
impl Row for Hooks {
    const NAME: &'static str = "hooks";
}

/// Cache of users without external agents, whose purchases need not read subscriptions. Used only where this process is
/// the only writer.
#[derive(Default)]
pub(crate) struct UsersWithoutAgents(Mutex<(u64, HashSet<Arc<str>>)>);

impl UsersWithoutAgents {
    /// The number of changes so far, and whether no agent of this user subscribes to events.
    fn look(&self, key: &Arc<str>) -> (u64, bool) {
        let quiet = self.0.lock();
        (quiet.0, quiet.1.contains(key))
    }

    /// Records that a user has no agents, unless something has changed since the read.
    fn keep(&self, key: Arc<str>, changes: u64) {
        let mut quiet = self.0.lock();
        if quiet.0 == changes {
            if quiet.1.len() >= QUIET {
                quiet.1.clear();
            }
            quiet.1.insert(key);
        }
    }

    fn changed(&self) {
        let mut quiet = self.0.lock();
        quiet.0 += 1;
        quiet.1.clear();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hook {
    pub(crate) agent: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Event>,
}

pub(crate) fn key(tenant: &str, id: &str) -> Arc<str> {
    records::joined(&[tenant, id])
}

fn owned(tenant: &str, owner: &UserId) -> Arc<str> {
    records::joined(&["owner", tenant, owner.as_str()])
}

/// The id that the encryption is bound to.
fn bound_to(one: &External) -> Result<TaskId, Fault> {
    let id = one.id.strip_prefix("ext_").and_then(|core| core.parse::<TransactionId>().ok());
    id.map(|id| id.0)
        .ok_or_else(|| Fault::internal(format!("the external agent {} has a name of another kind", one.id)))
}

impl External {
    fn put(&self, expect: Expect) -> RecordChange {
        let lists = vec![listed(owned(&self.tenant, &self.owner), self.created_at.0)];
        records::EXTERNALS.put(key(&self.tenant, &self.id), expect, self, lists)
    }

    fn hook(&self) -> Hook {
        let events = self.webhook.as_ref().map(|webhook| webhook.events.clone()).unwrap_or_default();
        Hook { agent: self.id.clone(), events }
    }
}

/// The input for an external agent, after validation.
struct Checked {
    platform_url: Arc<str>,
    agent_name: Arc<str>,
    description: Option<Arc<str>>,
    auth_type: Arc<str>,
}

impl NewExternal {
    fn check(&self) -> Result<Checked, Vec<FieldError>> {
        let mut wrong = Vec::new();
        let mut text = |field: &'static str, text: Option<&String>, most: usize| {
            let text = text.map(|text| text.trim()).filter(|text| !text.is_empty())?;
            if text.chars().count() > most || text.chars().any(|one| one.is_control() && one != '\n') {
                wrong.push(FieldError::new(field, format!("must have at most {most} printable characters")));
            }
            Some(Arc::<str>::from(text))
        };
        let name = text("agent_name", self.agent_name.as_ref(), MAX_NAME);
        let url = text("platform_url", self.platform_url.as_ref(), MAX_URL);
        let description = text("description", self.description.as_ref(), MAX_DESCRIPTION);
        let auth = text("auth_type", self.auth_type.as_ref(), MAX_AUTH).unwrap_or_else(|| "none".into());
        // The server never calls this address; it is shown to people.
        let is_web = |url: &str| Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()));
        match &url {
            None => wrong.push(FieldError::new("platform_url", "is required: where the agent is")),
            Some(url) if !is_web(url) => wrong.push(FieldError::new("platform_url", "must be a http or https address")),
            Some(_) => {}
        }
        match (url, name) {
            (Some(platform_url), Some(agent_name)) if wrong.is_empty() => {
                Ok(Checked { platform_url, agent_name, description, auth_type: auth })
            }
            (_, None) => {
                wrong.push(FieldError::new("agent_name", "is required"));
                Err(wrong)
            }
            (Some(_) | None, Some(_)) => Err(wrong),
        }
    }
}

fn external_of(made: StoredResult, id: Option<&str>) -> Result<External, Error> {
    match made {
        StoredResult::External(made) if id.is_none_or(|id| *made.id == *id) => Ok(*made),
        StoredResult::External(_)
        | StoredResult::Demand(_)
        | StoredResult::Transaction(_)
        | StoredResult::Capability(_)
        | StoredResult::Removed => Err(Error::KeyReused),
    }
}

impl Market {
    pub async fn add_external(
        &self,
        caller: &MarketCaller,
        new: &NewExternal,
        once: Option<Once>,
    ) -> Result<External, Error> {
        let perform = |fresh| self.new_external(caller, new, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, |made| external_of(made, None)).await
    }

    async fn new_external(
        &self,
        caller: &MarketCaller,
        new: &NewExternal,
        fresh: Option<FreshKey>,
    ) -> Result<External, Error> {
        let Checked { platform_url, agent_name, description, auth_type } = new.check().map_err(Error::Fields)?;
        let now = self.now();
        let made = External {
            tenant: caller.tenant.clone(),
            id: format!("ext_{}", TransactionId::from(self.engine().new_task_id())).into(),
            owner: caller.user.clone(),
            platform_url,
            agent_name,
            description,
            auth_type,
            webhook: None,
            created_at: now,
            updated_at: now,
        };
        for _ in 0..ATTEMPTS {
            let (mut hooks, expect) = self.hooks_to_change(caller).await?;
            if hooks.agents.len() >= MOST {
                let words = format!("you have {MOST} external agents, and more there may not be; remove one first");
                return Err(Fault::new(Kind::RateLimited, words).into());
            }
            hooks.agents.push(made.hook());
            let mut records = vec![made.put(Expect::Absent), put_hooks(caller, expect, &hooks)];
            records.extend(
                fresh.as_ref().map(|fresh| fresh.used_for(StoredResult::External(Box::new(made.clone())), now)),
            );
            match self.kept_hooks(records).await? {
                Ok(()) => return Ok(made),
                Err(met) if is_about_once(&met) => break,
                Err(_) => {}
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// The caller's external agents, the newest first.
    pub async fn externals(&self, caller: &MarketCaller, paging: Paging) -> Result<Paged<External>, Error> {
        self.page(records::EXTERNALS, owned(&caller.tenant, &caller.user), paging).await
    }

    /// An external agent of the caller; those of other users are unknown.
    pub async fn external(&self, caller: &MarketCaller, id: &str) -> Result<External, Error> {
        Ok(self.own_external(caller, id).await?.0)
    }

    async fn own_external(&self, caller: &MarketCaller, id: &str) -> Result<(External, u64), Error> {
        let found = self.read(records::EXTERNALS, key(&caller.tenant, id)).await?;
        found.filter(|(one, _)| one.owner == caller.user).ok_or(Error::Unknown(MarketEntity::External))
    }

    /// The webhook of an external agent, without its secret.
    pub fn webhook(&self, one: &External) -> Option<Webhook> {
        let sealed = one.webhook.as_ref()?;
        Some(Webhook { url: self.unsealed(one).ok().map(|(url, _)| url), events: sealed.events.clone() })
    }

    /// Sets a webhook, or changes it.
    pub async fn set_webhook(
        &self,
        caller: &MarketCaller,
        id: &str,
        edit: &WebhookEdit,
        once: Option<Once>,
    ) -> Result<External, Error> {
        self.change_external(caller, id, once, |one| Ok(Some(self.sealed(one, edit)?))).await
    }

    pub async fn remove_webhook(&self, caller: &MarketCaller, id: &str, once: Option<Once>) -> Result<External, Error> {
        self.change_external(caller, id, once, |_| Ok(None)).await
    }

    async fn change_external(
        &self,
        caller: &MarketCaller,
        id: &str,
        once: Option<Once>,
        webhook: impl Fn(&External) -> Result<Option<Sealed>, Error>,
    ) -> Result<External, Error> {
        let perform = |fresh| self.changed_external(caller, id, webhook, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, |made| external_of(made, Some(id))).await
    }

    async fn changed_external(
        &self,
        caller: &MarketCaller,
        id: &str,
        webhook: impl Fn(&External) -> Result<Option<Sealed>, Error>,
        fresh: Option<FreshKey>,
    ) -> Result<External, Error> {
        for _ in 0..ATTEMPTS {
            let (present, version) = self.own_external(caller, id).await?;
            let webhook = webhook(&present)?;
            let next = External { webhook, updated_at: self.now().max(present.updated_at), ..present };
            let (mut hooks, expect) = self.hooks_to_change(caller).await?;
            hooks.agents.retain(|hook| hook.agent != next.id);
            hooks.agents.push(next.hook());
            let mut records = vec![next.put(Expect::Version(version)), put_hooks(caller, expect, &hooks)];
            let made = || StoredResult::External(Box::new(next.clone()));
            records.extend(fresh.as_ref().map(|fresh| fresh.used_for(made(), next.updated_at)));
            match self.kept_hooks(records).await? {
                Ok(()) => return Ok(next),
                Err(met) if is_about_once(&met) => break,
                Err(_) => {}
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// Removes an external agent. Its pending notices are dropped.
    pub async fn remove_external(&self, caller: &MarketCaller, id: &str, once: Option<Once>) -> Result<(), Error> {
        let removed = |made| match made {
            StoredResult::Removed => Ok(()),
            StoredResult::External(_)
            | StoredResult::Demand(_)
            | StoredResult::Transaction(_)
            | StoredResult::Capability(_) => Err(Error::KeyReused),
        };
        let perform = |fresh| self.removed_external(caller, id, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, removed).await
    }

    async fn removed_external(&self, caller: &MarketCaller, id: &str, fresh: Option<FreshKey>) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let (present, version) = self.own_external(caller, id).await?;
            let (mut hooks, expect) = self.hooks_to_change(caller).await?;
            hooks.agents.retain(|hook| hook.agent != present.id);
            let mut records = vec![
                records::EXTERNALS.remove(key(&present.tenant, &present.id), Expect::Version(version)),
                put_hooks(caller, expect, &hooks),
            ];
            records.extend(fresh.as_ref().map(|fresh| fresh.used_for(StoredResult::Removed, self.now())));
            match self.kept_hooks(records).await? {
                Ok(()) => return Ok(()),
                Err(met) if is_about_once(&met) => break,
                Err(_) => {}
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    pub(crate) async fn hooks(&self, tenant: &str, user: &UserId) -> Result<Hooks, Error> {
        let key = records::user_key(tenant, user);
        let (quiet, is_shared) = (&self.shared.quiet, self.engine().store().is_shared());
        let (changes, is_quiet) = quiet.look(&key);
        if is_quiet && !is_shared {
            return Ok(Hooks::default());
        }
        let found = self.read(records::HOOKS, key.clone()).await?.map(|(hooks, _)| hooks);
        if found.is_none() && !is_shared {
            quiet.keep(key, changes);
        }
        Ok(found.unwrap_or_default())
    }

    async fn kept_hooks(&self, records: Vec<RecordChange>) -> Result<Result<(), Conflict>, Error> {
        let kept = self.kept(records).await;
        self.shared.quiet.changed();
        kept
    }

    async fn hooks_to_change(&self, caller: &MarketCaller) -> Result<(Hooks, Expect), Error> {
        let found = self.read(records::HOOKS, records::user_key(&caller.tenant, &caller.user)).await?;
        Ok(found.map_or((Hooks::default(), Expect::Absent), |(hooks, version)| (hooks, Expect::Version(version))))
    }

    fn seal(&self) -> Result<&Arc<dyn WebhookSender>, Fault> {
        self.engine().courier().ok_or_else(|| {
            let words = "this server sends no webhooks; its operator can let it with push.enabled";
            Fault::new(Kind::PushNotSupported, words)
        })
    }

    /// The webhook after the change; absent fields keep their values.
    fn sealed(&self, one: &External, edit: &WebhookEdit) -> Result<Sealed, Error> {
        let seal = self.seal()?;
        let before = match &one.webhook {
            // A secret that cannot be decrypted any more has to be set anew.
            Some(_) => self.unsealed(one).ok(),
            None => None,
        };
        let (old_url, old_secret) = before.unzip();
        let mut wrong = Vec::new();
        let url = edit.url.clone().or(old_url);
        match &url {
            None => wrong.push(FieldError::new("webhook_url", "is required")),
            Some(url) => wrong.extend(called_at("webhook_url", url, &self.config().capabilities)),
        }
        let secret = edit.secret.clone().or(old_secret);
        match &secret {
            None => wrong.push(FieldError::new("webhook_secret", "is required: what signs is told apart by it")),
            Some(secret) if !SECRET.contains(&secret.chars().count()) || secret.chars().any(char::is_control) => {
                let (least, most) = (SECRET.start(), SECRET.end());
                let detail = format!("must have {least} to {most} printable characters");
                wrong.push(FieldError::new("webhook_secret", detail));
            }
            Some(_) => {}
        }
        let events = match (&edit.events, &one.webhook) {
            (Some(names), _) => {
                let known: Vec<Event> = names.iter().filter_map(|name| Event::from_name(name)).collect();
                if known.len() != names.len() || known.is_empty() {
                    let all = Event::ALL.iter().map(|event| event.name()).collect::<Vec<_>>().join(", ");
                    wrong.push(FieldError::new("webhook_events", format!("must be one or more of {all}")));
                }
                known
            }
            (None, Some(webhook)) => webhook.events.clone(),
            (None, None) => Event::ALL.to_vec(),
        };
        let (Some(url), Some(secret), true) = (url, secret, wrong.is_empty()) else {
            return Err(Error::Fields(wrong));
        };
        let mut events = events;
        events.sort_unstable();
        events.dedup();
        let spec = PushSpec {
            url,
            token: None,
            scheme: None,
            credentials: Some(secret),
            dialect: DIALECT.into(),
            shown: None,
            trace: None,
        };
        let spec = URL_SAFE_NO_PAD.encode(seal.seal(bound_to(one)?, &spec)?);
        Ok(Sealed { events, spec: spec.into() })
    }

    /// The address and the secret of a webhook.
    pub(crate) fn unsealed(&self, one: &External) -> Result<(String, String), Fault> {
        let broken = || Fault::internal("a webhook in the store is damaged; set it again");
        let sealed = one.webhook.as_ref().ok_or_else(broken)?;
        let bytes = URL_SAFE_NO_PAD.decode(&*sealed.spec).map_err(|_| broken())?;
        let spec = self.seal()?.open(bound_to(one)?, &bytes)?;
        Ok((spec.url, spec.credentials.unwrap_or_default()))
    }
}

fn put_hooks(caller: &MarketCaller, expect: Expect, hooks: &Hooks) -> RecordChange {
    records::HOOKS.put(records::user_key(&caller.tenant, &caller.user), expect, hooks, Vec::new())
}
