//! Authorization codes and tokens: issue, exchange, renewal, lookup and revocation.
//!
//! A code and a refresh token can be used once. A second use means that one of its two users has stolen it, and the server
//! cannot know which one: the grant ends with all its tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Caller, Expect, Fault, Time};
use sha2::{Digest, Sha256};

use super::clients::{OWN_GRANT, REFRESH_GRANT};
use super::makers::Maker;
use super::records::{self, AccessToken, AuthorizationCode, Grant, MAX_ACCESS_TOKENS, MAX_ROTATED, OauthClient};
use super::{
    ACCESS, ATTEMPTS, CALLER_PREFIX, CODE, Error, Oauth, REFRESH, after, constant_time_eq, draw, hex, scopes, secret,
    secret_hash, too_busy,
};
use gateway::auth::Callers;

/// Expired records that are removed with every new code or grant: more than one, so that their number falls.
const MAX_REMOVED: u32 = 4;

/// The tokens of a token response.
#[derive(Debug)]
pub(super) struct IssuedTokens {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) expires_s: u32,
    pub(super) scopes: Vec<String>,
    pub(super) workspace: Arc<str>,
}

/// The consent of a person.
pub(super) struct Consent<'a> {
    pub(super) client: &'a OauthClient,
    pub(super) redirect: &'a str,
    pub(super) challenge: &'a str,
    pub(super) scopes: Vec<String>,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) maker: Maker,
}

/// A client's request to exchange a code for tokens.
pub(super) struct CodeExchange<'a> {
    pub(super) code: &'a str,
    pub(super) redirect: Option<&'a str>,
    pub(super) verifier: &'a str,
}

/// Data of a valid token, for introspection and for the caller it identifies.
pub(super) struct TokenInfo {
    pub(super) client: Arc<str>,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) scopes: Vec<String>,
    pub(super) made: Time,
    pub(super) expires: Time,
    pub(super) is_access: bool,
}

/// The grant's id in a token. A token is 16 bytes of the grant's id and 32 secret bytes.
fn grant_of(token: &str, prefix: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(prefix).filter(|text| text.len() == 64)?).ok()?;
    bytes.get(..16).map(hex)
}

fn token(prefix: &str, grant: &[u8; 16]) -> Result<String, Fault> {
    let mut bytes = grant.to_vec();
    bytes.extend(draw::<32>()?);
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

fn id_bytes(id: &str) -> Result<[u8; 16], Fault> {
    u128::from_str_radix(id, 16).map(u128::to_be_bytes).map_err(Fault::internal)
}

impl Grant {
    /// Issues another access token.
    fn issue(&mut self, scopes: Vec<String>, now: Time, access_s: u32) -> Result<String, Fault> {
        let text = token(ACCESS, &id_bytes(&self.id)?)?;
        self.access.retain(|access| access.expires > now);
        if self.access.len() >= MAX_ACCESS_TOKENS {
            self.access.remove(0);
        }
        self.access.push(AccessToken { hash: secret_hash(&text), scopes, made: now, expires: after(now, access_s) });
        Ok(text)
    }

    /// Replaces the refresh token.
    fn rotate(&mut self, now: Time, refresh_s: u32) -> Result<String, Fault> {
        let text = token(REFRESH, &id_bytes(&self.id)?)?;
        if let Some((used, _)) = self.refresh.replace((secret_hash(&text), after(now, refresh_s))) {
            if self.rotated.len() >= MAX_ROTATED {
                self.rotated.remove(0);
            }
            self.rotated.push(used);
        }
        Ok(text)
    }

    fn is_of(&self, client: &OauthClient) -> bool {
        self.client == client.id
    }
}

impl Oauth {
    /// Stores the consent and returns its code.
    pub(super) async fn agree(&self, agreed: Consent<'_>) -> Result<String, Error> {
        let now = self.now();
        let (ended, all) = self.list::<AuthorizationCode>(records::CODE, records::BY_END.into(), MAX_REMOVED).await?;
        let over: Vec<_> = ended.into_iter().filter(|(code, _)| code.expires <= now).collect();
        if all.saturating_sub(over.len() as u64) >= self.rules.codes {
            return Err(Error::new(
                "temporarily_unavailable",
                "too many codes are waiting; try again in a few minutes",
            ));
        }
        let text = secret(CODE)?;
        let Consent { client, redirect, challenge, scopes, workspace, subject, maker } = agreed;
        let code = AuthorizationCode {
            code: secret_hash(&text),
            client: client.id.clone(),
            redirect: redirect.to_owned(),
            challenge: challenge.to_owned(),
            workspace,
            subject,
            scopes,
            expires: after(now, self.rules.code_s),
            maker: Some(maker),
            grant: None,
        };
        if !self.keep(vec![records::put_code(&code, Expect::Absent)]).await? {
            return Err(too_busy().into());
        }
        for (code, version) in over {
            self.keep(vec![records::remove(records::CODE, &code.code, Expect::Version(version))]).await?;
        }
        Ok(text)
    }

    /// Exchanges a code for tokens.
    pub(super) async fn exchange(
        &self,
        callers: &Callers,
        client: (OauthClient, u64),
        fetch: CodeExchange<'_>,
    ) -> Result<IssuedTokens, Error> {
        let unknown = || Error::grant("the code is not good: it was used, has expired, or is another client's");
        let asks = client;
        let client = &asks.0;
        for _ in 0..ATTEMPTS {
            let found = self.read::<AuthorizationCode>(records::CODE, &secret_hash(fetch.code)).await?;
            let (mut code, version) = found.ok_or_else(unknown)?;
            if code.client != client.id {
                return Err(unknown());
            }
            if let Some(grant) = &code.grant {
                self.end(grant).await?;
                return Err(Error::grant("the code was used before: its tokens are revoked, ask the person again"));
            }
            let now = self.now();
            if code.expires <= now || fetch.redirect.is_some_and(|redirect| redirect != code.redirect) {
                return Err(unknown());
            }
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(fetch.verifier));
            if !constant_time_eq(&challenge, &code.challenge) {
                return Err(Error::grant("code_verifier is not what code_challenge was made of"));
            }
            if !self.is_code_good(callers, &code).await? {
                return Err(Error::grant(
                    "the key that the person agreed with is not good any more; ask the person again",
                ));
            }
            self.extend_client(&asks).await?;
            let mut grant = Grant {
                id: hex(&draw::<16>()?),
                client: client.id.clone(),
                workspace: code.workspace.clone(),
                subject: code.subject.clone(),
                scopes: code.scopes.clone(),
                maker: code.maker.clone(),
                made: now,
                access: Vec::new(),
                refresh: None,
                rotated: Vec::new(),
            };
            let access = grant.issue(grant.scopes.clone(), now, self.rules.access_s)?;
            let renews = client.may_use(REFRESH_GRANT).is_ok();
            let refresh = if renews { Some(grant.rotate(now, self.rules.refresh_s)?) } else { None };
            code.grant = Some(grant.id.clone());
            let changes =
                vec![records::put_grant(&grant, Expect::Absent), records::put_code(&code, Expect::Version(version))];
            if self.keep(changes).await? {
                self.remove_surplus(&grant).await?;
                let Grant { scopes, workspace, .. } = grant;
                return Ok(IssuedTokens { access, refresh, expires_s: self.rules.access_s, scopes, workspace });
            }
        }
        Err(too_busy().into())
    }

    /// Issues an access token for the client itself (client credentials).
    pub(super) async fn own_token(
        &self,
        client: (OauthClient, u64),
        scope: Option<&str>,
    ) -> Result<IssuedTokens, Error> {
        let (client, _) = client;
        client.may_use(OWN_GRANT)?;
        let Some(workspace) = client.workspace.clone().filter(|_| client.secret.is_some()) else {
            return Err(Error::new("unauthorized_client", "the client belongs to no workspace"));
        };
        let (scopes, now) = (client.asked(scope)?, self.now());
        let mut grant = Grant {
            id: hex(&draw::<16>()?),
            client: client.id.clone(),
            workspace: workspace.clone(),
            subject: client.id.clone(),
            scopes: scopes.clone(),
            maker: client.maker.clone(),
            made: now,
            access: Vec::new(),
            refresh: None,
            rotated: Vec::new(),
        };
        let access = grant.issue(scopes.clone(), now, self.rules.access_s)?;
        if !self.keep(vec![records::put_grant(&grant, Expect::Absent)]).await? {
            return Err(too_busy().into());
        }
        self.remove_surplus(&grant).await?;
        Ok(IssuedTokens { access, refresh: None, expires_s: self.rules.access_s, scopes, workspace })
    }

    /// Exchanges a refresh token for new tokens; the refresh token becomes invalid.
    pub(super) async fn renew(
        &self,
        callers: &Callers,
        client: (OauthClient, u64),
        refresh: &str,
        scope: Option<&str>,
    ) -> Result<IssuedTokens, Error> {
        let unknown =
            || Error::grant("the refresh token is not good: it has expired, was revoked or is another client's");
        let id = grant_of(refresh, REFRESH).ok_or_else(unknown)?;
        let hash = secret_hash(refresh);
        for _ in 0..ATTEMPTS {
            let (mut grant, version) = self.read::<Grant>(records::GRANT, &id).await?.ok_or_else(unknown)?;
            if !grant.is_of(&client.0) {
                return Err(unknown());
            }
            if grant.rotated.iter().any(|used| constant_time_eq(used, &hash)) {
                self.end(&id).await?;
                let message = "the refresh token was used before: its tokens are revoked, ask the person again";
                return Err(Error::grant(message));
            }
            let now = self.now();
            if !grant.refresh.as_ref().is_some_and(|(kept, end)| constant_time_eq(kept, &hash) && *end > now) {
                return Err(unknown());
            }
            if !self.is_grant_valid(callers, &grant).await? {
                self.end(&id).await?;
                return Err(unknown());
            }
            let narrowed = match scope.filter(|scope| !scope.trim().is_empty()) {
                Some(scope) => scopes(scope)?,
                None => grant.scopes.clone(),
            };
            if let Some(more) = narrowed.iter().find(|scope| !grant.scopes.contains(scope)) {
                return Err(Error::scope(format!("nobody agreed to {more}")));
            }
            self.extend_client(&client).await?;
            let access = grant.issue(narrowed.clone(), now, self.rules.access_s)?;
            let refresh = grant.rotate(now, self.rules.refresh_s)?;
            if self.keep(vec![records::put_grant(&grant, Expect::Version(version))]).await? {
                return Ok(IssuedTokens {
                    access,
                    refresh: Some(refresh),
                    expires_s: self.rules.access_s,
                    scopes: narrowed,
                    workspace: grant.workspace,
                });
            }
        }
        Err(too_busy().into())
    }

    /// Revokes a token of the client: an access token alone, a refresh token with its whole grant.
    pub(super) async fn revoke(&self, client: &OauthClient, token: &str) -> Result<(), Error> {
        let hash = secret_hash(token);
        if let Some(id) = grant_of(token, REFRESH) {
            let found = self.read::<Grant>(records::GRANT, &id).await?;
            let known = found.is_some_and(|(grant, _)| {
                let current = grant.refresh.iter().map(|(hash, _)| hash);
                grant.is_of(client) && current.chain(&grant.rotated).any(|kept| constant_time_eq(kept, &hash))
            });
            if known {
                self.end(&id).await?;
            }
            return Ok(());
        }
        let Some(id) = grant_of(token, ACCESS) else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            let Some((mut grant, version)) = self.read::<Grant>(records::GRANT, &id).await? else { return Ok(()) };
            let before = grant.access.len();
            grant.access.retain(|access| !constant_time_eq(&access.hash, &hash));
            if !grant.is_of(client) || grant.access.len() == before {
                return Ok(());
            }
            let change = if grant.access.is_empty() && grant.refresh.is_none() {
                records::remove(records::GRANT, &id, Expect::Version(version))
            } else {
                records::put_grant(&grant, Expect::Version(version))
            };
            if self.keep(vec![change]).await? {
                return Ok(());
            }
        }
        Err(too_busy().into())
    }

    /// The data of a token; `None` if it is not valid.
    pub(super) async fn facts(&self, callers: &Callers, token: &str) -> Result<Option<TokenInfo>, Fault> {
        let is_access = token.starts_with(ACCESS);
        let prefix = if is_access { ACCESS } else { REFRESH };
        let Some(id) = grant_of(token, prefix) else { return Ok(None) };
        let Some((grant, _)) = self.read::<Grant>(records::GRANT, &id).await? else { return Ok(None) };
        let (hash, now) = (secret_hash(token), self.now());
        let good = if is_access {
            let access = grant.access.iter().find(|access| constant_time_eq(&access.hash, &hash));
            access.map(|access| (access.scopes.clone(), access.made, access.expires))
        } else {
            let refresh = grant.refresh.as_ref().filter(|(kept, _)| constant_time_eq(kept, &hash));
            refresh.map(|(_, end)| (grant.scopes.clone(), grant.made, *end))
        };
        let Some((scopes, made, expires)) = good.filter(|(_, _, expires)| *expires > now) else { return Ok(None) };
        if !self.is_grant_valid(callers, &grant).await? {
            return Ok(None);
        }
        let Grant { client, workspace, subject, .. } = grant;
        Ok(Some(TokenInfo { client, workspace, subject, scopes, made, expires, is_access }))
    }

    pub(super) async fn by_access(&self, callers: &Callers, token: &str) -> Result<Option<Arc<Caller>>, Fault> {
        let facts = self.facts(callers, token).await?.filter(|facts| facts.is_access);
        Ok(facts.map(|facts| {
            let name = format!("{CALLER_PREFIX}{}", facts.subject).into();
            let scopes = facts.scopes.as_slice().into();
            Arc::new(Caller { tenant: facts.workspace, name, authenticated: true, scopes })
        }))
    }

    /// Removes a grant in whatever version it is stored.
    pub(super) async fn end(&self, grant: &str) -> Result<(), Fault> {
        self.keep(vec![records::remove(records::GRANT, grant, Expect::Any)]).await.map(drop)
    }

    /// Removes expired grants, and the oldest grants of the person beyond the limit.
    async fn remove_surplus(&self, new: &Grant) -> Result<(), Fault> {
        let now = self.now();
        let (ended, _) = self.list::<Grant>(records::GRANT, records::BY_END.into(), MAX_REMOVED).await?;
        let (oldest, all) = self.list::<Grant>(records::GRANT, records::of_person(new), MAX_REMOVED).await?;
        let over = ended.into_iter().filter(|(grant, _)| grant.expires() <= now);
        let many = oldest.into_iter().take(all.saturating_sub(u64::from(self.rules.grants)) as usize);
        for (grant, version) in over.chain(many) {
            if grant.id != new.id {
                self.keep(vec![records::remove(records::GRANT, &grant.id, Expect::Version(version))]).await?;
            }
        }
        Ok(())
    }
}
