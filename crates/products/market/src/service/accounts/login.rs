//! Logins: slow hashes of passwords, and tokens that name the logged-in user.
//!
//! Checking a password takes 19 MiB and some CPU time, whether its account exists or not. The numbers of concurrent and
//! of waiting checks are limited, and wrong passwords delay the next attempt (`attempts`). `sessions` decides which
//! tokens are valid.

use std::net::IpAddr;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use ledger::UserId;
use market_rules::FieldError;
use model::Fault;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::attempts::Attempts;
use super::{LoginTokens, User, secrets};
use crate::service::{Error, Market, NotKnown};

/// Concurrent checks of passwords.
pub(super) const TOGETHER: usize = 4;
/// Waiting checks of passwords.
pub(super) const WAITING: usize = 32;

const PASSWORD: std::ops::RangeInclusive<usize> = 8..=256;
/// Maximum length of a token.
const TOKEN_BYTES: usize = 2_048;

/// Limits of password checks.
pub(crate) struct LoginThrottle {
    pub(super) together: Arc<Semaphore>,
    /// Permits of running and waiting checks.
    pub(super) all: Arc<Semaphore>,
    attempts: Mutex<Attempts>,
}

impl Default for LoginThrottle {
    fn default() -> LoginThrottle {
        LoginThrottle {
            together: Arc::new(Semaphore::new(TOGETHER)),
            all: Arc::new(Semaphore::new(TOGETHER + WAITING)),
            attempts: Mutex::default(),
        }
    }
}

impl LoginThrottle {
    /// A permit to wait for a check, if one is left.
    fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.all.clone().try_acquire_owned().map_err(|_| Error::TooFast { retry_after_s: 1 })
    }

    /// Runs a slow operation on a password when a permit is free.
    async fn slowly<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.together.clone().acquire_owned().await.map_err(Fault::internal)?;
        // The permit is held until the work ends, also after the caller disconnects.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((turn, place));
            done
        });
        Ok(done.await.map_err(Fault::internal)??)
    }
}

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenKind {
    Access,
    Refresh,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) sub: UserId,
    tenant: Arc<str>,
    typ: TokenKind,
    /// In seconds.
    iat: i64,
    exp: i64,
    /// The id of the login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sid: Option<Arc<str>>,
    /// The id of the refresh token itself, or of the one issued with this access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<Arc<str>>,
}

impl Claims {
    /// The login, and the id of the refresh token.
    pub(super) fn login(&self) -> Option<(&Arc<str>, &str)> {
        self.sid.as_ref().zip(self.jti.as_deref())
    }
}

pub(super) fn check_password(password: &str) -> Result<(), FieldError> {
    let length = password.chars().take(PASSWORD.end() + 1).count();
    if PASSWORD.contains(&length) {
        return Ok(());
    }
    let detail = format!("must be {} to {} characters long", PASSWORD.start(), PASSWORD.end());
    Err(FieldError::new("password", detail))
}

/// The stored hash of a password.
pub(super) async fn hashed(market: &Market, password: String) -> Result<Arc<str>, Error> {
    let salt: [u8; 16] = secrets::draw()?;
    let hash = move || {
        let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        hash.map(|hash| Arc::from(hash.to_string())).map_err(|error| Fault::internal(error.to_string()))
    };
    let door = &market.shared.door;
    door.slowly(door.place()?, hash).await
}

/// Compares a password with the stored hash. Without a stored hash it takes the same time.
fn is_right(password: &str, kept: Option<&str>) -> bool {
    let argon = Argon2::default();
    match kept {
        Some(kept) => argon.verify_password(password.as_bytes(), kept).is_ok(),
        None => {
            let mut nothing = [0; 32];
            let _ = argon.hash_password_into(password.as_bytes(), &[0; 16], &mut nothing);
            std::hint::black_box(nothing);
            false
        }
    }
}

impl Market {
    /// Tokens for an account and its password. `address` is the client's.
    pub async fn log_in(&self, account: &str, password: &str, address: IpAddr) -> Result<LoginTokens, Error> {
        let user = self.of_account(account).await?;
        let user = self.let_in(account, password, user, address).await?;
        self.begin_login(&user).await
    }

    /// The user, if the password is right.
    pub(super) async fn let_in(
        &self,
        account: &str,
        password: &str,
        user: Option<User>,
        address: IpAddr,
    ) -> Result<User, Error> {
        // No user has an invalid password.
        if check_password(password).is_err() {
            return Err(NotKnown::Password.into());
        }
        let door = &self.shared.door;
        let counted: [u8; 32] = Sha256::digest(&*super::users::account_key(&self.config().tenant, account)).into();
        let place = door.place()?;
        door.attempts.lock().count(counted, address, self.now())?;
        let (password, kept) = (password.to_owned(), user.as_ref().and_then(|user| user.password.clone()));
        let right = door.slowly(place, move || Ok(is_right(&password, kept.as_deref()))).await?;
        match user {
            Some(user) if right => {
                door.attempts.lock().right(counted, address, self.now());
                Ok(user)
            }
            Some(_) | None => Err(NotKnown::Password.into()),
        }
    }

    pub(super) fn tokens(&self, user: &User, login: &Arc<str>, refresh: &Arc<str>) -> Result<LoginTokens, Error> {
        let (config, now_s) = (self.config(), self.now().0.div_euclid(1_000));
        let key = EncodingKey::from_secret(&self.shared.secrets.login);
        let token = |typ: TokenKind, for_s: u64| {
            let exp = now_s.saturating_add(i64::try_from(for_s).unwrap_or(i64::MAX));
            let (sub, tenant) = (user.id.clone(), user.tenant.clone());
            let (sid, jti) = (Some(login.clone()), Some(refresh.clone()));
            let claims = Claims { sub, tenant, typ, iat: now_s, exp, sid, jti };
            jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).map_err(Fault::internal)
        };
        Ok(LoginTokens {
            access_token: token(TokenKind::Access, config.access_s)?,
            refresh_token: token(TokenKind::Refresh, config.refresh_s)?,
            expires_in_s: config.access_s,
            user: user.id.clone(),
        })
    }

    /// The claims of a token that has not expired. Whether its login has ended is checked elsewhere.
    pub(super) fn claims(&self, token: &str, kind: TokenKind) -> Result<Claims, Error> {
        if token.len() > TOKEN_BYTES {
            return Err(NotKnown::Token.into());
        }
        // Times are compared with the store's clock, which wrote them.
        let mut how = Validation::new(Algorithm::HS256);
        how.required_spec_claims.clear();
        how.validate_exp = false;
        how.validate_aud = false;
        let key = DecodingKey::from_secret(&self.shared.secrets.login);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &how).map_err(|_| NotKnown::Token)?.claims;
        let good =
            claims.typ == kind && claims.tenant == self.config().tenant && self.now().0.div_euclid(1_000) < claims.exp;
        if !good {
            return Err(NotKnown::Token.into());
        }
        Ok(claims)
    }
}
