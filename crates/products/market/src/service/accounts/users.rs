//! Users: creation, lookup, listing, and links to platforms.

use std::sync::Arc;

use engine::{CommitError, SideWrites};
use ledger::records::listed;
use ledger::{Row, UserId, Ut};
use market_rules::{FieldError, autonomy};
use model::ports::store::Conflict;
use model::{Expect, Listed};
use serde::{Deserialize, Serialize};

use super::{NewUser, User, login, secrets};
use crate::service::records::{self, ALL};
use crate::service::{Error, Market, MarketEntity, Paged, Paging};

/// Characters of a name: an account, a platform, a user's id.
const NAME: usize = 128;
/// Platforms a user may be linked to.
const PLATFORMS: usize = 64;
/// Attempts of a change that loses races.
const ATTEMPTS: usize = 5;

impl Row for User {
    const NAME: &'static str = "user";
}

/// The user that an account belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountRow {
    pub(super) user: UserId,
}
impl Row for AccountRow {
    const NAME: &'static str = "account name";
}

pub(super) fn account_key(tenant: &str, account: &str) -> Arc<str> {
    records::joined(&[tenant, account])
}

/// Whether this is a valid name of an account or a platform. Control characters separate the parts of record keys, so
/// names have none.
pub(super) fn is_name(text: &str) -> bool {
    let length = text.chars().take(NAME + 1).count();
    (1..=NAME).contains(&length) && !text.chars().any(char::is_control) && text.trim() == text
}

/// Whether this is a valid id of a user, which is used in headers and URLs unescaped.
pub(super) fn is_id(text: &str) -> bool {
    (1..=NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~@:+".contains(&b))
}

pub(super) fn check_name(field: &'static str, text: &str) -> Result<(), FieldError> {
    let detail = "must be 1 to 128 printable characters, without spaces around them";
    if is_name(text) { Ok(()) } else { Err(FieldError::new(field, detail)) }
}

impl User {
    /// The spending limits of the user's agents: its own, or the market's.
    pub(super) fn limits(&self, market: &autonomy::SpendingLimits) -> autonomy::SpendingLimits {
        match self.limits {
            Some((per_call, daily)) => autonomy::SpendingLimits {
                per_call: Ut::from_hundredths(per_call),
                daily: Ut::from_hundredths(daily),
                risk: market.risk,
            },
            None => *market,
        }
    }

    fn lists(&self) -> Vec<Listed> {
        vec![listed(records::joined(&[ALL, &self.tenant]), self.created_at.0)]
    }
}

impl Market {
    /// Creates a user. Its id and account must be unused.
    pub async fn open_user(&self, new: NewUser) -> Result<User, Error> {
        check(&new)?;
        let NewUser { id, account, password, mut platforms, limits, acts_alone } = new;
        let id = match id {
            Some(id) => id,
            None => UserId(uuid::Builder::from_random_bytes(secrets::draw()?).into_uuid().to_string().into()),
        };
        let password = match password {
            Some(password) => Some(login::hashed(self, password).await?),
            None => None,
        };
        platforms.sort();
        platforms.dedup();
        let user = User {
            tenant: self.config().tenant.clone(),
            id,
            account,
            password,
            platforms,
            limits: limits.map(|limits| (limits.per_call.hundredths(), limits.daily.hundredths())),
            acts_alone,
            logins_ended: 0,
            created_at: self.now(),
        };
        let key = records::user_key(&user.tenant, &user.id);
        let mut records = vec![records::USERS.put(key, Expect::Absent, &user, user.lists())];
        if let Some(account) = &user.account {
            let key = account_key(&user.tenant, account);
            records.push(records::ACCOUNTS.put(key, Expect::Absent, &AccountRow { user: user.id.clone() }, Vec::new()));
        }
        match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
            Ok(()) => Ok(user),
            Err(CommitError::Met(Conflict::Record(kind, ..))) if records::ACCOUNTS.is(&kind) => {
                Err(Error::Taken("account"))
            }
            Err(CommitError::Met(Conflict::Record(..))) => Err(Error::Taken("user")),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    pub async fn user(&self, id: &UserId) -> Result<Option<User>, Error> {
        Ok(self.read_user(id).await?.map(|(user, _)| user))
    }

    /// All users, the newest first.
    pub async fn users(&self, paging: Paging) -> Result<Paged<User>, Error> {
        let list = records::joined(&[ALL, &self.config().tenant]);
        self.page(records::USERS, list, paging).await
    }

    /// Links the user to a platform, whose keys may then act for it.
    pub async fn link(&self, user: &UserId, platform: &str) -> Result<User, Error> {
        check_name("platform", platform)?;
        self.change_user(user, |user| {
            user.platforms.push(platform.into());
            user.platforms.sort();
            user.platforms.dedup();
            Ok(check_platforms(&user.platforms)?)
        })
        .await
    }

    /// Changes a user, and retries on concurrent changes. A change without effect is not written.
    pub(super) async fn change_user(
        &self,
        id: &UserId,
        change: impl Fn(&mut User) -> Result<(), Error>,
    ) -> Result<User, Error> {
        for _ in 0..ATTEMPTS {
            let (mut user, version) = self.read_user(id).await?.ok_or(Error::Unknown(MarketEntity::User))?;
            let before = user.clone();
            change(&mut user)?;
            if user == before {
                return Ok(user);
            }
            let key = records::user_key(&user.tenant, &user.id);
            let put = records::USERS.put(key, Expect::Version(version), &user, user.lists());
            match self.engine().keep(SideWrites { records: vec![put], ..SideWrites::default() }).await {
                Ok(()) => {
                    self.shared.seen.forget();
                    return Ok(user);
                }
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    async fn read_user(&self, id: &UserId) -> Result<Option<(User, u64)>, Error> {
        if !is_id(id.as_str()) {
            return Ok(None);
        }
        self.read(records::USERS, records::user_key(&self.config().tenant, id)).await
    }

    /// The user an account belongs to.
    pub(super) async fn of_account(&self, account: &str) -> Result<Option<User>, Error> {
        if !is_name(account) {
            return Ok(None);
        }
        let key = account_key(&self.config().tenant, account);
        match self.read(records::ACCOUNTS, key).await? {
            Some((row, _)) => self.user(&row.user).await,
            None => Ok(None),
        }
    }
}

/// The errors of a new user's fields.
fn check(new: &NewUser) -> Result<(), Error> {
    let mut wrong = Vec::new();
    if let Some(id) = &new.id
        && !is_id(id.as_str())
    {
        wrong.push(FieldError::new("user_id", "must be 1 to 128 ASCII letters, digits or any of - _ . ~ @ : +"));
    }
    if let Some(account) = &new.account {
        wrong.extend(check_name("account", account).err());
    }
    if let Some(password) = &new.password {
        wrong.extend(login::check_password(password).err());
        if new.account.is_none() {
            wrong.push(FieldError::new("account", "is needed with a password: it is what the person logs in with"));
        }
    }
    for platform in &new.platforms {
        wrong.extend(check_name("platform", platform).err());
    }
    wrong.extend(check_platforms(&new.platforms).err());
    if let Some(limits) = &new.limits
        && (limits.per_call < Ut::ZERO || limits.daily < Ut::ZERO)
    {
        wrong.push(FieldError::new("limits", "must not be below zero"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::Fields(wrong)) }
}

fn check_platforms(platforms: &[Arc<str>]) -> Result<(), FieldError> {
    if platforms.len() <= PLATFORMS {
        return Ok(());
    }
    Err(FieldError::new("platforms", format!("must not be more than {PLATFORMS}")))
}
