//! Stored logins: one record each, so that a login can be renewed by one caller at a time, and ended.
//!
//! A token names its login. A refresh token is valid while its login names it: a renewal replaces it, and a second use
//! of the same token means that it was stolen, so that the login ends. A user's `logins_ended` grows when the password
//! changes or the user logs out everywhere: all logins of an earlier number end in the same commit. Tokens from before
//! logins were stored name none: they are valid until they expire or that number changes, and a refresh token among
//! them once.

use std::sync::Arc;

use engine::{CommitError, SideWrites};
use ledger::records::listed;
use ledger::{Row, UserId};
use model::ports::store::Conflict;
use model::{Expect, RecordChange, Time};
use serde::{Deserialize, Serialize};

use super::login::{Claims, TokenKind};
use super::{LoginTokens, User, secrets};
use crate::service::records::{self, ALL};
use crate::service::{Error, Market, NotKnown};

/// Logins of one user; a further login ends the oldest.
pub(super) const LOGINS: u64 = 50;
const ATTEMPTS: usize = 5;
const SWEEP: u32 = 200;

/// A login, under its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginRow {
    pub(super) tenant: Arc<str>,
    pub(super) user: UserId,
    /// The id of the valid refresh token.
    pub(super) refresh: Arc<str>,
    /// The user's `logins_ended` when the login began.
    #[serde(default)]
    pub(super) round: u64,
    pub(super) made_at: Time,
    pub(super) expires_at: Time,
}
impl Row for LoginRow {
    const NAME: &'static str = "login";
}

impl LoginRow {
    fn put(&self, id: &str, expect: Expect) -> RecordChange {
        // Lists are read from the highest rank: these begin with the earliest end and the earliest start.
        let lists = vec![listed(ALL, -self.expires_at.0), listed(of_user(&self.tenant, &self.user), -self.made_at.0)];
        records::LOGINS.put(id, expect, self, lists)
    }
}

fn of_user(tenant: &str, user: &UserId) -> Arc<str> {
    records::joined(&["user", tenant, user.as_str()])
}

fn remove(id: impl Into<Arc<str>>) -> RecordChange {
    records::LOGINS.remove(id.into(), Expect::Any)
}

impl Market {
    /// Tokens for a login that begins now.
    pub(super) async fn begin_login(&self, user: &User) -> Result<LoginTokens, Error> {
        let id = records::hex(&secrets::draw::<16>()?);
        let tokens = self.open_login(user, &id).await?.ok_or(market_rules::Error::Changed)?;
        self.make_room_for_login(user).await?;
        Ok(tokens)
    }

    /// Stores a login under this id; `None` if the id is taken.
    async fn open_login(&self, user: &User, id: &Arc<str>) -> Result<Option<LoginTokens>, Error> {
        let (refresh, now) = (records::hex(&secrets::draw::<16>()?), self.now());
        let row = LoginRow {
            tenant: user.tenant.clone(),
            user: user.id.clone(),
            refresh: refresh.clone(),
            round: user.logins_ended,
            made_at: now,
            expires_at: now.plus_ms(self.config().refresh_s.saturating_mul(1_000)),
        };
        match self
            .engine()
            .keep(SideWrites { records: vec![row.put(id, Expect::Absent)], ..SideWrites::default() })
            .await
        {
            Ok(()) => self.tokens(user, id, &refresh).map(Some),
            Err(CommitError::Met(Conflict::Record(..))) => Ok(None),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// Renews a login: the refresh token is used up.
    pub async fn refresh(&self, refresh_token: &str) -> Result<LoginTokens, Error> {
        let claims = self.claims(refresh_token, TokenKind::Refresh)?;
        let Some((id, shown)) = claims.login() else {
            return self.refresh_unnamed(refresh_token, &claims).await;
        };
        for _ in 0..ATTEMPTS {
            let user = self.user(&claims.sub).await?.ok_or(NotKnown::Token)?;
            let (mut row, version) = self.login(id, &user).await?.ok_or(NotKnown::Token)?;
            if *row.refresh != *shown {
                self.end_login(id).await?;
                return Err(NotKnown::Token.into());
            }
            let (refresh, now) = (records::hex(&secrets::draw::<16>()?), self.now());
            row.refresh = refresh.clone();
            row.expires_at = now.plus_ms(self.config().refresh_s.saturating_mul(1_000));
            let put = row.put(id, Expect::Version(version));
            match self.engine().keep(SideWrites { records: vec![put], ..SideWrites::default() }).await {
                Ok(()) => return self.tokens(&user, id, &refresh),
                // The login was renewed or ended concurrently.
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// Renews with a token that names no login. The new login is stored under the token's hash, so that the token works
    /// once.
    async fn refresh_unnamed(&self, token: &str, claims: &Claims) -> Result<LoginTokens, Error> {
        let user = self.user(&claims.sub).await?.filter(|user| user.logins_ended == 0).ok_or(NotKnown::Token)?;
        let id = secrets::print(token);
        match self.open_login(&user, &id).await? {
            Some(tokens) => Ok(tokens),
            None => {
                self.end_login(&id).await?;
                Err(NotKnown::Token.into())
            }
        }
    }

    /// A login of this user that has not ended.
    async fn login(&self, id: &str, user: &User) -> Result<Option<(LoginRow, u64)>, Error> {
        let found = self.read(records::LOGINS, id).await?;
        let now = self.now();
        Ok(found.filter(|(row, _)| {
            (&row.tenant, &row.user) == (&user.tenant, &user.id)
                && row.round == user.logins_ended
                && row.expires_at > now
        }))
    }

    /// The user of an access token, if its login has not ended.
    pub(super) async fn by_access(&self, token: &str) -> Result<User, Error> {
        let claims = self.claims(token, TokenKind::Access)?;
        let user = self.user(&claims.sub);
        let Some((id, _)) = claims.login() else {
            return user.await?.filter(|user| user.logins_ended == 0).ok_or(NotKnown::Token.into());
        };
        let user = user.await?.ok_or(NotKnown::Token)?;
        if self.login(id, &user).await?.is_none() {
            return Err(NotKnown::Token.into());
        }
        Ok(user)
    }

    async fn end_login(&self, id: &str) -> Result<(), Error> {
        Ok(self.engine().keep(SideWrites { records: vec![remove(id)], ..SideWrites::default() }).await?)
    }

    /// Ends the login of an access or refresh token. Repeating it has no effect.
    pub async fn log_out(&self, token: &str) -> Result<(), Error> {
        let claims = self.claims(token, TokenKind::Access).or_else(|_| self.claims(token, TokenKind::Refresh))?;
        match claims.login() {
            Some((id, _)) => self.end_login(id).await,
            // A token without a login can only be ended together with all others.
            None => match self.user(&claims.sub).await? {
                Some(user) if user.logins_ended == 0 => self.end_logins(&user.id, |_| ()).await.map(drop),
                Some(_) | None => Ok(()),
            },
        }
    }

    /// Ends every login of the user whose token this is.
    pub async fn log_out_everywhere(&self, access_token: &str) -> Result<(), Error> {
        let user = self.by_access(access_token).await?;
        self.end_logins(&user.id, |_| ()).await.map(drop)
    }

    /// Changes a password, ends all logins of the user and begins a new one. `address` is the client's.
    pub async fn change_password(
        &self,
        access_token: &str,
        current: &str,
        new: String,
        address: std::net::IpAddr,
    ) -> Result<LoginTokens, Error> {
        let user = self.by_access(access_token).await?;
        let account = user.account.clone().ok_or(NotKnown::Password)?;
        super::login::check_password(&new)
            .map_err(|error| market_rules::FieldError { field: "new_password", ..error })?;
        let user = self.let_in(&account, current, Some(user), address).await?;
        let hash = super::login::hashed(self, new).await?;
        let changed = self.end_logins(&user.id, |user| user.password = Some(hash.clone())).await?;
        self.begin_login(&changed).await
    }

    /// Ends every login of a user, with a change of the user in the same commit.
    pub(super) async fn end_logins(&self, user: &UserId, change: impl Fn(&mut User)) -> Result<User, Error> {
        let user = self
            .change_user(user, |user| {
                user.logins_ended = user.logins_ended.saturating_add(1);
                change(user);
                Ok(())
            })
            .await?;
        // The logins are invalid by now; this removes their records.
        loop {
            let (_, ids) = self.logins_of(&user, SWEEP).await?;
            let over: Vec<RecordChange> = ids
                .iter()
                .filter(|(row, _)| row.round != user.logins_ended)
                .map(|(_, id)| remove(id.clone()))
                .collect();
            let all = over.len() == SWEEP as usize;
            if !over.is_empty() {
                self.engine().keep(SideWrites { records: over, ..SideWrites::default() }).await?;
            }
            if !all {
                return Ok(user);
            }
        }
    }

    /// The number of logins of a user, and the oldest.
    async fn logins_of(&self, user: &User, limit: u32) -> Result<(u64, Vec<(LoginRow, Arc<str>)>), Error> {
        let list = of_user(&user.tenant, &user.id);
        self.first_logins(list, limit).await
    }

    async fn first_logins(&self, list: Arc<str>, limit: u32) -> Result<(u64, Vec<(LoginRow, Arc<str>)>), Error> {
        let (first, total) = records::LOGINS.first(self.store(), list, limit).await?;
        Ok((total, first.into_iter().map(|login| (login.row, login.key)).collect()))
    }

    /// Removes the oldest logins of a user above the limit.
    async fn make_room_for_login(&self, user: &User) -> Result<(), Error> {
        let (all, oldest) = self.logins_of(user, 4).await?;
        let many = usize::try_from(all.saturating_sub(LOGINS)).unwrap_or(usize::MAX);
        let over: Vec<RecordChange> = oldest.into_iter().take(many).map(|(_, id)| remove(id)).collect();
        if !over.is_empty() {
            self.engine().keep(SideWrites { records: over, ..SideWrites::default() }).await?;
        }
        Ok(())
    }
}
