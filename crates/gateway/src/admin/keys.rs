//! Creating, listing and revoking keys. A secret is shown once, when it is made; only its hash is stored.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Engine;
use model::ports::Future;
use model::ports::store::{Commit, Outcome, StoreError};
use model::{AccessKey, Expect, Fault, Kind, RecordChange, Time};
use serde_json::{Value, json};

use super::{Requester, audit};
use crate::auth::{self, Callers, hash};

/// A key is good for a hundred years at most.
const LONGEST_MS: u64 = 36_525 * 86_400_000;
/// The most scopes of a key, and the longest: its line in the audit log stays short.
const SCOPES: usize = 100;
const SCOPE: usize = 256;

/// The properties of a new key.
pub(super) struct NewKeyRequest {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) scopes: Vec<String>,
    pub(super) expires_in_ms: Option<u64>,
}

pub(super) async fn create(engine: &Engine, wish: NewKeyRequest) -> Result<(AccessKey, Value), Fault> {
    let bad = |what: &str| Fault::params(what, format!("a key needs a {what} of 1 to 128 printable characters"));
    for (what, text) in [("name", &wish.name), ("tenant", &wish.tenant)] {
        if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
            return Err(bad(what));
        }
    }
    if wish.scopes.len() > SCOPES || wish.scopes.iter().any(|scope| scope.len() > SCOPE) {
        return Err(Fault::params("scopes", format!("a key has at most {SCOPES} scopes of at most {SCOPE} bytes")));
    }
    if wish.expires_in_ms.is_some_and(|ms| ms > LONGEST_MS) {
        return Err(Fault::params("expires_in_ms", format!("must be at most {LONGEST_MS}")));
    }
    if auth::is_reserved(&wish.name) {
        return Err(Fault::params("name", auth::reserved(&wish.name)));
    }
    let (key, secret) = make(wish)?;
    keep(engine, &key).await?;
    let mut shown = show(&key, key.created_at);
    shown["secret"] = json!(secret);
    Ok((key, shown))
}

/// A key and its secret, not stored yet.
fn make(wish: NewKeyRequest) -> Result<(AccessKey, String), Fault> {
    let text = drawn(|random| getrandom::fill(random).map_err(|e| Fault::internal(e.to_string())))?;
    // The id names the key in public; the secret begins with it, so that its owner can tell which key it is.
    let (id, rest) = text.split_at(10);
    let prefix = format!("rk_{id}");
    let secret = format!("{prefix}_{rest}");
    let now = Time(jiff::Timestamp::now().as_millisecond());
    let key = AccessKey {
        id: id.into(),
        name: wish.name.into(),
        tenant: wish.tenant.into(),
        scopes: wish.scopes,
        hash: hash(&secret),
        prefix,
        created_at: now,
        expires_at: wish.expires_in_ms.map(|ms| now.plus_ms(ms)),
        revoked_at: None,
    };
    Ok((key, secret))
}

/// The key of a store's first caller.
pub struct FirstKey {
    pub id: String,
    pub secret: String,
}

/// The record of a store's first key, so that only one process and start makes it.
const FIRST: &str = "first_key";

/// Makes the first key of a store that never had one. The caller of this function shows the secret once; it is not
/// stored.
pub fn first<'a>(
    engine: &'a Engine,
    callers: &'a Callers,
    folder: &'a Path,
) -> Future<'a, Result<Option<FirstKey>, Fault>> {
    Box::pin(async move {
        let store = engine.store();
        let unavailable = |trouble: StoreError| Fault::new(Kind::Unavailable, trouble.to_string());
        let made = store.record(FIRST.into(), FIRST.into()).await.map_err(unavailable)?;
        if made.is_some() || !engine.access_keys().await?.is_empty() {
            return Ok(None);
        }
        let wish =
            NewKeyRequest { name: "first".into(), tenant: "default".into(), scopes: Vec::new(), expires_in_ms: None };
        let (key, secret) = make(wish)?;
        let record = RecordChange::Put {
            kind: FIRST.into(),
            key: FIRST.into(),
            expect: Expect::Absent,
            body: key.id.as_bytes().to_vec().into(),
            lists: Vec::new(),
        };
        let commit = Commit { access: vec![key.clone()], records: vec![record], ..Commit::default() };
        match store.commit(commit).await {
            Outcome::Done => {}
            // Another replica made it, and has shown it.
            Outcome::Conflict(_) => return Ok(None),
            Outcome::Refused(trouble) | Outcome::Unknown(trouble) => return Err(unavailable(trouble)),
        }
        audit(folder, "created", &key, None);
        callers.take(&key);
        Ok(Some(FirstKey { id: key.id.to_string(), secret }))
    })
}

/// The keys of a tenant, or of all.
pub(super) async fn list(engine: &Engine, tenant: Option<&str>) -> Result<Value, Fault> {
    let now = Time(jiff::Timestamp::now().as_millisecond());
    let keys = engine.access_keys().await?;
    let keys = keys.iter().filter(|key| tenant.is_none_or(|tenant| *tenant == *key.tenant));
    Ok(json!({ "keys": keys.map(|key| show(key, now)).collect::<Vec<_>>() }))
}

/// Revokes by id, or by the beginning of the secret that lists show. `tenant` limits it to the keys of a tenant.
pub(super) async fn revoke(engine: &Engine, tenant: Option<&str>, id: &str) -> Result<(AccessKey, Value), Fault> {
    let keys = engine.access_keys().await?;
    let mut keys = keys.into_iter().filter(|key| tenant.is_none_or(|tenant| *tenant == *key.tenant));
    let found = keys.find(|key| *key.id == *id || key.prefix == id);
    let mut key = found.ok_or_else(|| Fault::params("id", format!("there is no key {id:?}; see rialto keys list")))?;
    let now = Time(jiff::Timestamp::now().as_millisecond());
    if key.revoked_at.is_none() {
        key.revoked_at = Some(now);
        keep(engine, &key).await?;
    }
    let shown = show(&key, now);
    Ok((key, shown))
}

async fn keep(engine: &Engine, key: &AccessKey) -> Result<(), Fault> {
    match engine.store().commit(Commit { access: vec![key.clone()], ..Commit::default() }).await {
        Outcome::Done => Ok(()),
        Outcome::Conflict(_) => Err(Fault::internal("a key met a conflict")),
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => {
            Err(Fault::new(Kind::Unavailable, trouble.to_string()))
        }
    }
}

/// Random text for an id and a secret. An id must not begin with a dash, which would make it an option on a command
/// line.
fn drawn(mut fill: impl FnMut(&mut [u8; 40]) -> Result<(), Fault>) -> Result<String, Fault> {
    let mut random = [0; 40];
    loop {
        fill(&mut random)?;
        let text = URL_SAFE_NO_PAD.encode(random);
        if !text.starts_with('-') {
            return Ok(text);
        }
    }
}

fn show(key: &AccessKey, now: Time) -> Value {
    let state = match (key.revoked_at, key.is_valid(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "valid",
        (None, false) => "expired",
    };
    json!({
        "id": &*key.id,
        "name": &*key.name,
        "tenant": &*key.tenant,
        "scopes": key.scopes,
        "prefix": key.prefix,
        "state": state,
        "created_at": key.created_at.to_string(),
        "expires_at": key.expires_at.map(|t| t.to_string()),
        "revoked_at": key.revoked_at.map(|t| t.to_string()),
    })
}

/// Loads every key of the store into the callers.
pub fn load<'a>(engine: &'a Engine, callers: &'a Callers) -> Future<'a, Result<(), Fault>> {
    Box::pin(async move {
        for key in engine.access_keys().await? {
            callers.take(&key);
        }
        Ok(())
    })
}

/// Logs a change of a key, never with a secret.
pub(super) fn audit(folder: &Path, change: &str, key: &AccessKey, by: Option<Requester<'_>>) {
    let now = Time(jiff::Timestamp::now().as_millisecond());
    let mut line = json!({ "at": now.to_string(), "change": change, "key": &*key.id, "name": &*key.name, "tenant": &*key.tenant, "scopes": key.scopes });
    if let Some(requester) = by {
        line["what"] = json!("keys");
        requester.sign(&mut line);
    }
    audit::append(folder, &line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_looks_like_an_option() {
        let mut draws = [[0xfb; 40], [0xf8; 40], [7; 40]].into_iter();
        let text = drawn(|random| {
            *random = draws.next().unwrap();
            Ok(())
        });
        assert!(URL_SAFE_NO_PAD.encode([0xfb; 40]).starts_with('-'));
        assert_eq!(text.unwrap(), URL_SAFE_NO_PAD.encode([7; 40]));
        assert!(draws.next().is_none());
    }
}
