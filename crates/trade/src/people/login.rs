//! Logins: passwords that are slow to try, and tokens that say who has logged in.
//!
//! A password costs 19 MiB and a while of a core to look at, whether its account is there or not. Only so many are looked
//! at together, only so many wait, and an account whose passwords were wrong too often has to wait as well.

use std::collections::HashMap;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use market::{FieldError, UserId};
use model::{Fault, Time};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Tokens, User, secrets};
use crate::{Market, NotKnown, Refused};

/// Passwords looked at together.
pub(super) const TOGETHER: usize = 4;
/// And waiting for it.
pub(super) const WAITING: usize = 32;
/// Wrong passwords of one account within the window.
pub(super) const WRONG: u32 = 10;
const WINDOW_MS: i64 = 5 * 60 * 1_000;
/// Accounts whose wrong passwords are counted.
pub(super) const COUNTED: usize = 20_000;

const PASSWORD: std::ops::RangeInclusive<usize> = 8..=256;
/// No token of ours is longer.
const TOKEN_BYTES: usize = 2_048;

/// The door people come in by.
pub(crate) struct Door {
    pub(super) together: Arc<Semaphore>,
    /// Those at it and those who wait.
    pub(super) all: Arc<Semaphore>,
    tries: Mutex<Tries>,
}

impl Default for Door {
    fn default() -> Door {
        Door {
            together: Arc::new(Semaphore::new(TOGETHER)),
            all: Arc::new(Semaphore::new(TOGETHER + WAITING)),
            tries: Mutex::default(),
        }
    }
}

impl Door {
    /// A place among those who wait, if there is one left.
    fn place(&self) -> Result<OwnedSemaphorePermit, Refused> {
        self.all.clone().try_acquire_owned().map_err(|_| Refused::TooFast { retry_after_s: 1 })
    }

    /// Does something slow with a password, when it is its turn.
    async fn slowly<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Refused> {
        let turn = self.together.clone().acquire_owned().await.map_err(Fault::internal)?;
        // Whoever goes away meanwhile does not make room: the work goes on.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((turn, place));
            done
        });
        Ok(done.await.map_err(Fault::internal)??)
    }
}

/// How often passwords of an account were tried since its window began, by the hash of the account's key.
#[derive(Default)]
pub(super) struct Tries(pub(super) HashMap<[u8; 32], (Time, u32)>);

impl Tries {
    /// Counts a try before it is made, so that many at a time are not many more.
    pub(super) fn count(&mut self, account: [u8; 32], now: Time) -> Result<(), Refused> {
        let over = |since: Time| now.0.saturating_sub(since.0) >= WINDOW_MS;
        if !self.0.contains_key(&account) && self.0.len() >= COUNTED {
            self.0.retain(|_, (since, _)| !over(*since));
            // Of those left the one with the fewest tries is forgotten: whoever tries many accounts does not get another
            // account's tries forgotten.
            if self.0.len() >= COUNTED
                && let Some(least) =
                    self.0.iter().min_by_key(|(_, (since, count))| (*count, *since)).map(|(key, _)| *key)
            {
                self.0.remove(&least);
            }
        }
        let (since, count) = self.0.entry(account).or_insert((now, 0));
        if over(*since) {
            (*since, *count) = (now, 0);
        }
        if *count >= WRONG {
            let left_ms = WINDOW_MS - now.0.saturating_sub(since.0);
            return Err(Refused::TooFast { retry_after_s: u64::try_from(left_ms).unwrap_or_default().div_ceil(1_000) });
        }
        *count += 1;
        Ok(())
    }

    fn forget(&mut self, account: &[u8; 32]) {
        self.0.remove(account);
    }
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Access,
    Refresh,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    sub: UserId,
    tenant: Arc<str>,
    typ: Kind,
    /// In seconds.
    iat: i64,
    exp: i64,
}

pub(super) fn check_password(password: &str) -> Result<(), FieldError> {
    let length = password.chars().take(PASSWORD.end() + 1).count();
    if PASSWORD.contains(&length) {
        return Ok(());
    }
    let detail = format!("must be {} to {} characters long", PASSWORD.start(), PASSWORD.end());
    Err(FieldError::new("password", detail))
}

/// A password as it is kept.
pub(super) async fn hashed(market: &Market, password: String) -> Result<Arc<str>, Refused> {
    let salt: [u8; 16] = secrets::draw()?;
    let hash = move || {
        let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        hash.map(|hash| Arc::from(hash.to_string())).map_err(|error| Fault::internal(error.to_string()))
    };
    let door = &market.shared.door;
    door.slowly(door.place()?, hash).await
}

/// Whether the password is the one that is kept. Where none is kept, finding that out takes as long.
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
    pub async fn log_in(&self, account: &str, password: &str) -> Result<Tokens, Refused> {
        let user = self.of_account(account).await?;
        let user = self.let_in(account, password, user).await?;
        self.tokens(&user)
    }

    /// The user, if the password is right.
    pub(super) async fn let_in(&self, account: &str, password: &str, user: Option<User>) -> Result<User, Refused> {
        // What nobody's password can be is nobody's.
        if check_password(password).is_err() {
            return Err(NotKnown::Password.into());
        }
        let door = &self.shared.door;
        let counted: [u8; 32] = Sha256::digest(&*super::users::account_key(&self.config().tenant, account)).into();
        let place = door.place()?;
        door.tries.lock().count(counted, self.now())?;
        let (password, kept) = (password.to_owned(), user.as_ref().and_then(|user| user.password.clone()));
        let right = door.slowly(place, move || Ok(is_right(&password, kept.as_deref()))).await?;
        match user {
            Some(user) if right => {
                door.tries.lock().forget(&counted);
                Ok(user)
            }
            Some(_) | None => Err(NotKnown::Password.into()),
        }
    }

    /// Renews a login.
    pub async fn refresh(&self, refresh_token: &str) -> Result<Tokens, Refused> {
        let user = self.by_token(refresh_token, Kind::Refresh).await?;
        self.tokens(&user)
    }

    fn tokens(&self, user: &User) -> Result<Tokens, Refused> {
        let (config, now_s) = (self.config(), self.now().0.div_euclid(1_000));
        let key = EncodingKey::from_secret(&self.shared.secrets.login);
        let token = |typ: Kind, for_s: u64| {
            let exp = now_s.saturating_add(i64::try_from(for_s).unwrap_or(i64::MAX));
            let claims = Claims { sub: user.id.clone(), tenant: user.tenant.clone(), typ, iat: now_s, exp };
            jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).map_err(Fault::internal)
        };
        Ok(Tokens {
            access_token: token(Kind::Access, config.access_s)?,
            refresh_token: token(Kind::Refresh, config.refresh_s)?,
            expires_in_s: config.access_s,
            user: user.id.clone(),
        })
    }

    /// The user a token of ours speaks of.
    pub(super) async fn by_token(&self, token: &str, kind: Kind) -> Result<User, Refused> {
        if token.len() > TOKEN_BYTES {
            return Err(NotKnown::Token.into());
        }
        // Its times are looked at by the store's clock, which is the one they were written by.
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
        self.user(&claims.sub).await?.ok_or(NotKnown::Token.into())
    }
}
