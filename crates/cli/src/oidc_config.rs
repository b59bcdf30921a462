//! The config's section `console.oidc`: the provider whose people may sign in to the console, and the roles they have.

use anyhow::{Context, bail};
use gateway::admin::{ApiRole, RedactedText};
use gateway::settings::{OidcSettings, RoleRule, RuleTenant};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::secret;
use crate::guard::Algorithm;

/// An OpenID provider at which people sign in to the console.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Oidc {
    /// Its address, exactly as its tokens have it in `iss`. Its configuration is at
    /// ISSUER/.well-known/openid-configuration.
    pub(crate) issuer: String,
    /// The id that it knows this server by. It sends people back to PUBLIC_URL/api/admin/v1/session/oidc/callback.
    pub(crate) client_id: String,
    /// Where the secret of that id is: `env:NAME` or `file:PATH`. Default: a public client, which has none.
    #[serde(default)]
    pub(crate) client_secret: Option<String>,
    /// Its name on the button. Default: its host.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The scopes that are asked for; `openid` is always among them. Default `openid`, `profile`, `email`.
    #[serde(default)]
    pub(crate) scopes: Option<Vec<String>>,
    /// How its ID tokens may be signed. Default RS256 and ES256.
    #[serde(default)]
    pub(crate) algorithms: Option<Vec<Algorithm>>,
    /// The claim that names the person, who is known as `jwt:ISSUER#NAME`, the issuer without `https://`. Default `sub`.
    #[serde(default)]
    pub(crate) name_claim: Option<String>,
    /// How far its clock may be off, in seconds. Default 60.
    #[serde(default)]
    pub(crate) leeway_s: Option<u64>,
    /// Who has a role. The first rule that fits an account's ID token counts; an account that none fits may not sign in.
    pub(crate) roles: Vec<OidcRole>,
}

/// A role for every account whose ID token has a value in a claim.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OidcRole {
    /// The claim, as `groups`, or a path, as `realm_access.roles`. `email` counts only where `email_verified` is true.
    pub(crate) claim: String,
    /// The claim is this text, or a list with it; `*` for any text, `true` for a claim that is true.
    pub(crate) value: String,
    pub(crate) role: OidcRoleName,
    /// The tenant of the account; an admin of `default` sees all tenants.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The claim that names the tenant, instead of `tenant`. A token that names none, or `default`, does not fit.
    #[serde(default)]
    pub(crate) tenant_claim: Option<String>,
    /// The role holds for every tenant. Default false.
    #[serde(default)]
    pub(crate) all_tenants: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OidcRoleName {
    /// Reads.
    Viewer,
    /// Changes tasks and deliveries, too.
    Operator,
    /// Does everything.
    Admin,
}

impl Oidc {
    pub(crate) fn settings(&self) -> anyhow::Result<OidcSettings> {
        let rules = self.roles.iter().map(OidcRole::settings).collect::<anyhow::Result<_>>();
        let mut settings = OidcSettings::new(&*self.issuer, &*self.client_id, rules.context("console.oidc.roles")?);
        let reference = self.client_secret.as_deref();
        let secret = reference.map(secret).transpose().context("console.oidc.client_secret")?;
        settings.client_secret = secret.map(RedactedText);
        if let Some(name) = &self.name {
            settings.name.clone_from(name);
        }
        if let Some(scopes) = &self.scopes {
            settings.scopes.clone_from(scopes);
        }
        if let Some(list) = &self.algorithms {
            settings.algorithms = list.iter().map(|one| (*one).into()).collect();
        }
        if let Some(claim) = &self.name_claim {
            settings.name_claim.clone_from(claim);
        }
        settings.leeway_s = self.leeway_s.unwrap_or(settings.leeway_s);
        Ok(settings)
    }
}

impl OidcRole {
    fn settings(&self) -> anyhow::Result<RoleRule> {
        let tenant = match (&self.tenant, &self.tenant_claim) {
            (Some(tenant), None) if !tenant.is_empty() => RuleTenant::Named(tenant.as_str().into()),
            (None, Some(claim)) if !claim.is_empty() => RuleTenant::Claim(claim.clone()),
            _ => bail!("the rule for {} {:?} needs either tenant or tenant_claim", self.claim, self.value),
        };
        Ok(RoleRule {
            claim: self.claim.clone(),
            value: self.value.clone(),
            role: match self.role {
                OidcRoleName::Viewer => ApiRole::Viewer,
                OidcRoleName::Operator => ApiRole::Operator,
                OidcRoleName::Admin => ApiRole::Admin,
            },
            tenant,
            all_tenants: self.all_tenants,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn written(oidc: &str) -> anyhow::Result<gateway::settings::OidcSettings> {
        let text =
            format!("console: {{ oidc: {{ issuer: 'https://login.example/realms/a', client_id: rialto, {oidc} }} }}\n");
        Config::parse(&text)?.console.oidc.expect("a section").settings()
    }

    #[test]
    fn a_provider_has_usual_settings_and_rules_in_their_order() {
        let settings = written(
            "roles: [{ claim: groups, value: ops, role: admin, tenant: default }, \
             { claim: sub, value: '*', role: viewer, tenant_claim: org, all_tenants: true }]",
        )
        .unwrap();
        assert_eq!((settings.name.as_str(), settings.name_claim.as_str()), ("login.example", "sub"));
        assert_eq!(settings.scopes, ["openid", "profile", "email"]);
        assert_eq!(settings.rules.len(), 2);
        assert!(settings.rules[1].all_tenants && !settings.rules[0].all_tenants);
    }

    #[test]
    fn mistakes_are_told_and_a_secret_stays_out_of_the_file() {
        let rule = "roles: [{ claim: groups, value: ops, role: admin, tenant: default }]";
        for (oidc, says) in [
            ("roles: [{ claim: groups, value: ops, role: admin }]".to_owned(), "either tenant or tenant_claim"),
            (
                "roles: [{ claim: groups, value: ops, role: admin, tenant: a, tenant_claim: b }]".to_owned(),
                "either tenant or tenant_claim",
            ),
            ("roles: [{ claim: groups, value: ops, role: root, tenant: a }]".to_owned(), "role"),
            ("name: Example".to_owned(), "roles"),
            (format!("client_secret: hunter2, {rule}"), "env:NAME"),
            (format!("client_sekret: 'env:X', {rule}"), "client_secret"),
        ] {
            let error = format!("{:#}", written(&oidc).unwrap_err());
            assert!(error.contains(says) && !error.contains("hunter2"), "{oidc}: {error}");
        }
    }
}
