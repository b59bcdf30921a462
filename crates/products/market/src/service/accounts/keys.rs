//! API keys, and the authentication of callers. Only the hash of a key is stored: a reader of the store cannot act for
//! users.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, SideWrites};
use ledger::records::listed;
use ledger::{Row, UserId};
use market_rules::{FieldError, Via};
use model::ports::store::Conflict;
use model::{Expect, RecordChange, Time};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Credentials, Issued, NewApiKey, User, secrets, users};
use crate::service::records;
use crate::service::{Error, Market, MarketCaller, MarketEntity, NotKnown};

/// Permitted lengths of a secret that a person chose.
const CHOSEN: std::ops::RangeInclusive<usize> = 16..=256;

/// Number of cached keys, and their lifetime.
const SEEN: usize = 4_096;
const A_MOMENT: Duration = Duration::from_secs(1);

/// A stored key, under the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyRow {
    pub(super) tenant: Arc<str>,
    pub(super) who: KeyOwner,
    pub(super) made_at: Time,
}
impl Row for KeyRow {
    const NAME: &'static str = "key";
}

/// The user or users that a key acts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyOwner {
    User(UserId),
    /// All users who are linked to the platform.
    Platform(Arc<str>),
}

impl KeyOwner {
    fn may_act_for(&self, user: &User) -> bool {
        match self {
            KeyOwner::User(own) => *own == user.id,
            KeyOwner::Platform(platform) => user.platforms.contains(platform),
        }
    }

    fn user(&self) -> Option<&UserId> {
        match self {
            KeyOwner::User(user) => Some(user),
            KeyOwner::Platform(_) => None,
        }
    }
}

impl KeyRow {
    /// Stores the key under this secret, which must be new.
    pub(super) fn kept(&self, secret: &str) -> RecordChange {
        let list = match &self.who {
            KeyOwner::User(user) => records::joined(&["user", &self.tenant, user.as_str()]),
            KeyOwner::Platform(platform) => records::joined(&["platform", &self.tenant, platform]),
        };
        let lists = vec![listed(list, self.made_at.0)];
        records::KEYS.put(secrets::print(secret), Expect::Absent, self, lists)
    }
}

/// Cache of authenticated users by the hash of the key, so that repeated requests do not read the store. Entries are
/// short-lived, since other processes change users as well.
#[derive(Default)]
pub(crate) struct KeyCache(Mutex<HashMap<Shown, (Instant, Arc<User>)>>);

/// The hash of a key, and the user named in the request.
type Shown = ([u8; 32], UserId);

impl KeyCache {
    fn find(&self, shown: &Shown) -> Option<Arc<User>> {
        let seen = self.0.lock();
        let (at, user) = seen.get(shown)?;
        (at.elapsed() < A_MOMENT).then(|| user.clone())
    }

    fn keep(&self, shown: Shown, user: &Arc<User>) {
        let mut seen = self.0.lock();
        if seen.len() >= SEEN {
            seen.clear();
        }
        seen.insert(shown, (Instant::now(), user.clone()));
    }

    /// Forgets all entries after a change of a user or key.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }
}

impl Market {
    /// Issues a key. `secret` is for demos, whose keys stay the same; otherwise a new one is drawn. Issuing the same
    /// secret again for the same owner returns the same key.
    pub async fn issue_key(&self, key: NewApiKey, secret: Option<&str>) -> Result<Issued, Error> {
        let (who, prefix) = match key {
            NewApiKey::User(user) => match self.user(&user).await? {
                Some(user) => (KeyOwner::User(user.id), "uk_"),
                None => return Err(Error::Unknown(MarketEntity::User)),
            },
            NewApiKey::Platform(platform) => {
                users::check_name("platform", &platform)?;
                (KeyOwner::Platform(platform), "pk_")
            }
        };
        let api_key = match secret {
            Some(chosen) if CHOSEN.contains(&chosen.len()) && chosen.bytes().all(|b| b.is_ascii_graphic()) => {
                chosen.to_owned()
            }
            Some(_) => {
                let detail = "must be 16 to 256 ASCII letters, digits and signs, without spaces";
                return Err(FieldError::new("api_key", detail).into());
            }
            None => format!("{prefix}{}", secrets::text()?),
        };
        let row = KeyRow { tenant: self.config().tenant.clone(), who, made_at: self.now() };
        let issued = Issued { user: row.who.user().cloned(), api_key };
        match self.engine().keep(SideWrites { records: vec![row.kept(&issued.api_key)], ..SideWrites::default() }).await
        {
            Ok(()) => Ok(issued),
            Err(CommitError::Met(Conflict::Record(..))) => {
                let known = self.read(records::KEYS, secrets::print(&issued.api_key)).await?;
                match known {
                    Some((known, _)) if (&known.tenant, &known.who) == (&row.tenant, &row.who) => Ok(issued),
                    Some(_) | None => Err(Error::Taken("key")),
                }
            }
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// Authenticates the caller. An API key takes precedence over a token.
    pub async fn who(&self, shown: Credentials<'_>) -> Result<MarketCaller, Error> {
        let shown = shown.without_empty();
        let (user, via) = match (shown.api_key, shown.bearer) {
            (Some(key), _) => {
                let user = shown.user.ok_or(NotKnown::NoUser)?;
                (self.by_key(key, &user.into()).await?, Via::Agent)
            }
            (None, Some(token)) => (Arc::new(self.by_access(token).await?), Via::Person),
            (None, None) => return Err(NotKnown::Missing.into()),
        };
        let limits = user.limits(&self.config().limits);
        Ok(MarketCaller { tenant: user.tenant.clone(), user: user.id.clone(), via, limits })
    }

    async fn by_key(&self, secret: &str, user: &UserId) -> Result<Arc<User>, Error> {
        let tenant = self.config().tenant.clone();
        let shown = (secrets::hash(secret), user.clone());
        if let Some(known) = self.shared.seen.find(&shown).filter(|known| known.tenant == tenant) {
            return Ok(known);
        }
        let row = self.read(records::KEYS, records::hex(&shown.0)).await?.map(|(row, _)| row);
        let row = row.filter(|row| row.tenant == tenant).ok_or(NotKnown::Key)?;
        let user = self.user(user).await?.filter(|user| row.who.may_act_for(user));
        let user = Arc::new(user.ok_or(NotKnown::NotLinked)?);
        self.shared.seen.keep(shown, &user);
        Ok(user)
    }
}

impl<'a> Credentials<'a> {
    /// Headers without a value are ignored.
    fn without_empty(self) -> Credentials<'a> {
        let some = |text: Option<&'a str>| text.map(str::trim).filter(|text| !text.is_empty());
        Credentials { api_key: some(self.api_key), user: some(self.user), bearer: some(self.bearer) }
    }
}
