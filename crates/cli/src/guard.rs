//! The config's sections on access and limits: tokens, visibility, mounts, policy, limits, TLS. Each section builds
//! its part of the server's settings.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use gateway::GatewayVersion;
use gateway::settings::{
    self, AuthMode, Effect, Issuer, KeySource, Network, RateLimit, Rule, ThrottleLimits, TlsFiles,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{LimitsConfig, secret};
use crate::plan::Plan;

/// An issuer of tokens. Its keys are one of `secret`, `jwks_url` and `discovery`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwtIssuer {
    /// Its name, exactly as its tokens have it in `iss`.
    pub(crate) issuer: String,
    /// What its tokens for this server have in `aud`: one name, or several of which one must be there.
    pub(crate) audience: OneOrMany,
    /// A secret shared with it, `env:NAME` or `file:PATH`, of 32 bytes or more: tokens are signed with HS256.
    #[serde(default)]
    pub(crate) secret: Option<String>,
    /// Where its public keys are.
    #[serde(default)]
    pub(crate) jwks_url: Option<String>,
    /// Its public keys are where ISSUER/.well-known/openid-configuration says.
    #[serde(default)]
    pub(crate) discovery: bool,
    /// How its tokens may be signed, where it has public keys. Default RS256 and ES256.
    #[serde(default)]
    pub(crate) algorithms: Option<Vec<Algorithm>>,
    /// How far its clock may be off, in seconds. Default 60.
    #[serde(default)]
    pub(crate) leeway_s: Option<u64>,
    /// The claim that names the caller's tenant. Default `tenant`.
    #[serde(default)]
    pub(crate) tenant_claim: Option<String>,
    /// The tenant of tokens without that claim. Default: they are refused.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The tenants it may speak for. Default any.
    #[serde(default)]
    pub(crate) tenants: Vec<String>,
    /// The claim that names the caller, who is known as `jwt:ISSUER#NAME`, the issuer without `https://`. Default `sub`.
    #[serde(default)]
    pub(crate) name_claim: Option<String>,
    /// The claim with the caller's scopes, a list or words in one text. Default `scope`, or else `scp`.
    #[serde(default)]
    pub(crate) scope_claim: Option<String>,
    /// The least time between two fetches of its keys, in milliseconds. Default 10000.
    #[serde(default)]
    pub(crate) refetch_floor_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    ES256,
    ES384,
    EdDSA,
}

impl From<Algorithm> for settings::Algorithm {
    fn from(algorithm: Algorithm) -> settings::Algorithm {
        match algorithm {
            Algorithm::RS256 => settings::Algorithm::RS256,
            Algorithm::RS384 => settings::Algorithm::RS384,
            Algorithm::RS512 => settings::Algorithm::RS512,
            Algorithm::PS256 => settings::Algorithm::PS256,
            Algorithm::ES256 => settings::Algorithm::ES256,
            Algorithm::ES384 => settings::Algorithm::ES384,
            Algorithm::EdDSA => settings::Algorithm::EdDSA,
        }
    }
}

impl JwtIssuer {
    pub(crate) fn settings(&self) -> anyhow::Result<Issuer> {
        self.read().with_context(|| format!("auth.jwt: the issuer {:?}", self.issuer))
    }

    fn read(&self) -> anyhow::Result<Issuer> {
        let audience = match &self.audience {
            OneOrMany::One(one) => vec![one.clone()],
            OneOrMany::Many(many) => many.clone(),
        };
        let algorithms = match &self.algorithms {
            Some(list) => list.iter().map(|one| (*one).into()).collect(),
            None => Issuer::ALGORITHMS.to_vec(),
        };
        let keys = match (&self.secret, &self.jwks_url, self.discovery) {
            (Some(_), None, false) if self.algorithms.is_some() => {
                bail!("a secret is for HS256 alone; leave algorithms out");
            }
            (Some(reference), None, false) => KeySource::Secret(secret(reference)?),
            (None, Some(url), false) => KeySource::Jwks { url: url.clone(), algorithms },
            (None, None, true) => KeySource::Discovery { algorithms },
            _ => bail!("its keys are one of secret, jwks_url and discovery: true"),
        };
        let mut issuer = Issuer::new(&*self.issuer, audience, keys);
        let claim = |slot: &mut String, given: &Option<String>| {
            if let Some(given) = given {
                slot.clone_from(given);
            }
        };
        claim(&mut issuer.tenant_claim, &self.tenant_claim);
        claim(&mut issuer.name_claim, &self.name_claim);
        claim(&mut issuer.scope_claim, &self.scope_claim);
        issuer.leeway_s = self.leeway_s.unwrap_or(issuer.leeway_s);
        issuer.floor_ms = self.refetch_floor_ms.unwrap_or(issuer.floor_ms);
        issuer.tenant = self.tenant.as_deref().map(Arc::from);
        issuer.tenants.clone_from(&self.tenants);
        Ok(issuer)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Visibility")]
pub(crate) enum VisibilityConfig {
    #[default]
    Tenant,
    Owner,
    Parties,
    Systems,
}

impl From<VisibilityConfig> for model::Visibility {
    fn from(visibility: VisibilityConfig) -> model::Visibility {
        match visibility {
            VisibilityConfig::Tenant => model::Visibility::Tenant,
            VisibilityConfig::Owner => model::Visibility::Owner,
            VisibilityConfig::Parties => model::Visibility::Parties,
            VisibilityConfig::Systems => model::Visibility::Systems,
        }
    }
}

/// What is special about an agent's mount.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mount {
    /// Who sees its tasks. Default: as the whole server has it.
    pub(crate) visibility: Option<VisibilityConfig>,
    /// The tenant of all its tasks; to callers of another tenant nothing is there. Default: the caller's own.
    pub(crate) tenant: Option<String>,
    /// Who takes part in every task, by the callers' names; needs the visibility `parties`.
    pub(crate) parties: Vec<String>,
    /// Whether callers need a key or token: `required`, `optional`, or `none` (nobody is asked). Default: as
    /// `auth.required` says.
    pub(crate) auth: Option<MountAuth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MountAuth {
    Required,
    Optional,
    None,
}

impl Mount {
    pub(crate) fn settings(&self) -> settings::MountSettings {
        settings::MountSettings {
            visibility: self.visibility.map(Into::into),
            tenant: self.tenant.as_deref().map(Arc::from),
            parties: self.parties.iter().map(|name| name.as_str().into()).collect(),
            door: self.auth.map(|auth| match auth {
                MountAuth::Required => AuthMode::Required,
                MountAuth::Optional => AuthMode::Optional,
                MountAuth::None => AuthMode::None,
            }),
        }
    }
}

/// Warns of an open mount on a server that otherwise needs keys, and of a server that needs keys and has none.
pub(crate) fn warn_of_doors(plan: &Plan, server: &GatewayVersion) {
    let needs_key = plan.needs_key();
    for (agent, mount) in &plan.config.mounts {
        if needs_key && matches!(mount.auth, Some(MountAuth::Optional | MountAuth::None)) {
            tracing::warn!(%agent, "anybody who reaches the server may call this agent: its mount needs no credential");
        }
    }
    if needs_key && !server.callers().has_any() {
        tracing::warn!("a key is required and there is none: make one with rialto keys create NAME --tenant T");
    }
}

/// A rule: what it allows, or what it denies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PolicyRule {
    Allow(Who),
    Deny(Who),
}

/// What a rule is about. Of every list one must fit, with `*` for anything; a list that is left out is not asked.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Who {
    /// Names of callers; `anonymous` is whoever has no key or token, also where one is required.
    pub(crate) callers: Option<Vec<String>>,
    /// Scopes of which the caller has one; a key or token without scopes has them all.
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) tenants: Option<Vec<String>>,
    pub(crate) agents: Option<Vec<String>>,
    /// `send`, `stream`, `get`, `list`, `cancel`, `subscribe`, `push_create`, `push_get`, `push_list`, `push_delete`,
    /// `extended_card`; `read` and `write` for those that read and change tasks, `*` for all.
    pub(crate) methods: Option<Vec<String>>,
    /// Skills that the call names, in `metadata.skill` (or `skillId`, `skill_id`, `tool`) or in a data part.
    pub(crate) skills: Option<Vec<String>>,
}

impl PolicyRule {
    pub(crate) fn settings(&self) -> Rule {
        let (effect, who) = match self {
            PolicyRule::Allow(who) => (Effect::Allow, who),
            PolicyRule::Deny(who) => (Effect::Deny, who),
        };
        let Who { callers, scopes, tenants, agents, methods, skills } = who.clone();
        Rule { effect, callers, scopes, tenants, agents, methods, skills }
    }
}

/// How many calls a minute; over it, 429. Default unlimited.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rates {
    /// Of one caller; of one address, for callers without a key or token.
    pub(crate) per_caller: Option<PerMinute>,
    /// From one address, whoever calls, before anything is read.
    pub(crate) per_ip: Option<PerMinute>,
    /// Of all callers of one tenant.
    pub(crate) per_tenant: Option<PerMinute>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PerMinute {
    pub(crate) per_minute: NonZeroU32,
    /// So many at once. Default: as many as in a minute.
    #[serde(default)]
    pub(crate) burst: Option<NonZeroU32>,
}

pub(crate) fn throttle(limits: &LimitsConfig, data: &Path) -> anyhow::Result<ThrottleLimits> {
    let rate = |rate: Option<PerMinute>| {
        rate.map(|PerMinute { per_minute, burst }| RateLimit { per_minute, burst: burst.unwrap_or(per_minute) })
    };
    Ok(ThrottleLimits {
        per_caller: rate(limits.rate.per_caller),
        per_ip: rate(limits.rate.per_ip),
        per_tenant: rate(limits.rate.per_tenant),
        streams_per_caller: limits.streams_per_caller,
        waiting_per_caller: limits.waiting_per_caller,
        daily_calls: limits.daily_calls,
        quota_file: Some(data.join("quota.json")),
    })
}

pub(crate) fn networks(texts: &[String]) -> anyhow::Result<Vec<Network>> {
    texts.iter().map(|text| text.parse().map_err(|error| anyhow!("trusted_proxies: {error}"))).collect()
}

/// Where the certificate and its key are, both PEM; they are read anew when they change.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// The certificate, and after it those that vouch for it.
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Tls {
    pub(crate) fn settings(&self) -> TlsFiles {
        TlsFiles { cert: self.cert.clone(), key: self.key.clone() }
    }
}

/// Parses a time of the config.
pub(crate) fn moment(text: &str) -> anyhow::Result<model::Time> {
    model::Time::parse(text).with_context(|| format!("{text:?} is not a time; write 2027-01-01T00:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_sections_are_read_as_the_manual_writes_them() {
        let config = Config::parse(
            r#"
visibility: owner
mounts:
  scripted: { visibility: parties, tenant: acme, parties: [bob], auth: none }
auth:
  keys:
    - { name: ada, tenant: acme, key: "env:A", scopes: ["tasks:write"], expires_at: "2030-01-01T00:00:00Z" }
  jwt:
    - { issuer: "https://idp.example", audience: rialto, discovery: true, tenant: acme }
    - { issuer: "other", audience: [a, b], jwks_url: "https://x.example/keys", algorithms: [EdDSA] }
policy:
  - allow: { callers: ["ann", "ci-*"], scopes: ["tasks:write"], methods: ["send", "stream"] }
  - deny: { agents: ["secret"] }
  - allow: { callers: ["anonymous"], skills: ["product-search"] }
limits:
  rate: { per_caller: { per_minute: 60, burst: 10 }, per_ip: { per_minute: 600 } }
  streams_per_caller: 5
  daily_calls: 1000
tls: { cert: a.pem, key: b.pem }
trusted_proxies: ["10.0.0.0/8"]
"#,
        )
        .unwrap();
        let issuer = config.auth.jwt[0].settings().unwrap();
        assert_eq!((issuer.audience.len(), issuer.tenant.as_deref()), (1, Some("acme")));
        let rules: Vec<Rule> = config.policy.as_ref().unwrap().iter().map(PolicyRule::settings).collect();
        assert_eq!(rules[1].effect, Effect::Deny);
        assert_eq!(rules[2].skills.as_deref(), Some(&["product-search".to_owned()][..]));
        let limits = throttle(&config.limits, Path::new("d")).unwrap();
        assert_eq!(limits.per_ip.unwrap().burst.get(), 600);
        assert_eq!(config.mounts["scripted"].settings().door, Some(AuthMode::None));
        assert!(networks(&config.trusted_proxies).is_ok());
        assert!(moment(config.auth.keys[0].expires_at.as_deref().unwrap()).is_ok());
    }

    #[test]
    fn an_issuer_has_one_source_of_keys() {
        for wrong in [
            "{ issuer: i, audience: a }",
            "{ issuer: i, audience: a, discovery: true, jwks_url: x }",
            "{ issuer: i, audience: a, secret: plain }",
            "{ issuer: i, audience: a, secret: env:PATH, algorithms: [RS256] }",
        ] {
            let config = Config::parse(&format!("auth:\n  jwt:\n    - {wrong}\n")).unwrap();
            assert!(config.auth.jwt[0].settings().is_err(), "{wrong}");
        }
        let error = Config::parse("auth:\n  jwt:\n    - { issuer: i, audience: a, algorithms: [HS256] }\n");
        assert!(error.is_err(), "a key set never has shared secrets");
        let error = Config::parse("policy:\n  - alow: {}\n").unwrap_err().to_string();
        assert!(error.contains("did you mean `allow`?"), "{error}");
    }
}
