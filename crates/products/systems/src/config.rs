//! `orloj`: how systems are called at Orloj's endpoints. Each system's own `a2a` says whether it is, and by whom.

use std::sync::Arc;

use crate::ExposedSystem;
use anyhow::{Context, bail};
use gateway::settings::KeySettings;
use model::Again;
use schemars::JsonSchema;
use serde::Deserialize;
use systems_graph::spec::{A2aAuth, System};

use gateway::product::AgentFacts;
use gateway::product::config::{nearest, secret};
use systems_graph::Systems;

/// How Orloj's endpoints behave.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Orloj {
    /// Whether `tasks/send` waits for the end of its task (`wait`, the default) or answers at once (`return`).
    send_mode: SendMode,
    /// How long it waits, in seconds; then it answers with the task as it is. Default 1800.
    send_wait_max_s: Option<u64>,
    /// What a send means whose id has a task already: a new one in its place (`restart`, the default) or a mistake
    /// (`reject`). A task that waits for its caller takes it as the answer.
    duplicate_id: DuplicateId,
    /// A request's body, in bytes. Default 1048576.
    body_bytes: Option<usize>,
    /// Sends that wait, at a time. Default unlimited.
    max_waiting: Option<u32>,
    /// Streams at a time. Default unlimited.
    max_subscribe: Option<u32>,
    /// Requests a minute of one address. Default unlimited.
    rate_limit_per_minute: Option<u32>,
    /// The version that cards say. Default `1.0`.
    protocol_version: Option<String>,
    /// Tokens that are good at these endpoints and nowhere else. Keys of `auth` are good here, too: with scopes
    /// `system:NAME` for those systems, without any for all.
    tokens: Vec<Token>,
    pub resources: Resources,
}

/// What agents may be made while the server runs, over REST and with `rialto apply`. Systems may always be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// Their kinds. Default `echo`, `scripted` and `assistant`, which run nothing and reach nobody. Whoever may make a
    /// `command` runs programs on this machine, also as an `mcp` with a `command`; whoever may make an `http` reaches what
    /// this machine reaches.
    pub allow_kinds: Option<Vec<String>>,
    /// Let them refer to secrets of this machine, by `env:NAME` and `file:PATH`, and hand its environment to programs
    /// (`inherit_env`). Default false.
    pub allow_secrets: bool,
    /// Let them name addresses of this machine and of private networks, and leave the choice of addresses to others
    /// (`other_hosts`). Default false.
    pub allow_private_addresses: bool,
}

impl Resources {
    /// Whether the list contains this kind.
    pub fn allows(&self, kind: &str) -> bool {
        self.allow_kinds.iter().flatten().any(|allowed| allowed == kind)
    }

    fn check(&self) -> anyhow::Result<()> {
        for kind in self.allow_kinds.iter().flatten() {
            if !agents::KINDS.iter().any(|known| known.name == kind) {
                let known = agents::KINDS.iter().map(|known| known.name).collect::<Vec<_>>();
                let near = nearest(kind, known.iter().copied()).unwrap_or_default();
                bail!("orloj.resources.allow_kinds: there is no kind {kind:?}; did you mean {near:?}?");
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SendMode {
    #[default]
    Wait,
    Return,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DuplicateId {
    #[default]
    Restart,
    Reject,
}

/// A token that callers send as `Authorization: Bearer TOKEN`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Token {
    /// What logs call its owner.
    name: String,
    /// Where the token is: `env:NAME` or `file:PATH`.
    token: String,
    #[serde(default)]
    role: Role,
    /// With role `a2a`: the systems it is good for.
    #[serde(default)]
    systems: Vec<String>,
    /// Whose tasks its owner sees. Default `default`, where callers without a token are.
    #[serde(default)]
    tenant: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// Calls the systems it names.
    #[default]
    A2a,
    /// Calls every system, and changes what is served.
    Admin,
    /// Calls every system, and reads what is served.
    Writer,
    /// Calls no more than somebody without a token, and reads what is served.
    Reader,
}

impl Orloj {
    /// The server's settings. `systems` are all systems.
    pub fn settings(
        &self,
        configured: &Systems,
        remotes: Vec<(Arc<str>, String)>,
        exposed: Vec<ExposedSystem>,
    ) -> anyhow::Result<crate::SystemsSettings> {
        for (name, value, least, most) in [
            ("send_wait_max_s", self.send_wait_max_s, 1, 86_400),
            ("body_bytes", self.body_bytes.map(|n| n as u64), 1_024, 1 << 30),
            ("max_waiting", self.max_waiting.map(u64::from), 1, 1_000_000),
            ("max_subscribe", self.max_subscribe.map(u64::from), 1, 1_000_000),
            ("rate_limit_per_minute", self.rate_limit_per_minute.map(u64::from), 1, 1_000_000),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                bail!("orloj.{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        self.resources.check()?;
        let mut all = crate::SystemsSettings::new(exposed);
        all.wait_ms = match self.send_mode {
            SendMode::Wait => Some(self.send_wait_max_s.map_or(30 * 60_000, |seconds| seconds * 1_000)),
            SendMode::Return => None,
        };
        all.again = match self.duplicate_id {
            DuplicateId::Restart => Again::Restart,
            DuplicateId::Reject => Again::Refuse,
        };
        all.body_bytes = self.body_bytes.unwrap_or(all.body_bytes);
        (all.waiting, all.streams) = (self.max_waiting, self.max_subscribe);
        all.requests_per_minute = self.rate_limit_per_minute;
        if let Some(version) = &self.protocol_version {
            all.protocol_version.clone_from(version);
        }
        for token in &self.tokens {
            let key = token.read(configured).with_context(|| format!("orloj.tokens: the token {:?}", token.name))?;
            if all.tokens.iter().any(|known| known.name == key.name || known.secret == key.secret) {
                bail!("orloj.tokens: {:?} is there twice; each caller needs a name and a token of its own", token.name);
            }
            all.tokens.push(key);
        }
        all.remotes = remotes;
        Ok(all)
    }
}

impl Token {
    fn read(&self, configured: &Systems) -> anyhow::Result<KeySettings> {
        if self.name.trim().is_empty() {
            bail!("it needs a name");
        }
        let mut scopes = Vec::new();
        match self.role {
            Role::A2a if self.systems.is_empty() => bail!("systems: name those it is good for, or give it a role"),
            Role::A2a => {
                for named in &self.systems {
                    let name = named.rsplit('/').next().unwrap_or_default();
                    if !configured.0.iter().any(|(known, _)| known == name) {
                        bail!("systems: there is no system {named:?}");
                    }
                    scopes.push(format!("system:{name}"));
                }
            }
            Role::Admin | Role::Writer | Role::Reader if !self.systems.is_empty() => {
                bail!("systems: only a token of role a2a is bound to systems; leave them out")
            }
            // A token without scopes permits everything.
            Role::Admin => {}
            Role::Writer => scopes.extend(["writer".to_owned(), "system:*".to_owned()]),
            Role::Reader => scopes.push("reader".to_owned()),
        }
        Ok(KeySettings {
            name: self.name.as_str().into(),
            tenant: self.tenant.as_deref().unwrap_or("default").into(),
            secret: secret(&self.token)?,
            scopes,
            expires_at: None,
        })
    }
}

/// A system as the endpoints show it, if they do.
pub fn shown<'a>(name: &str, system: &System, agents: impl Iterator<Item = &'a str>) -> Option<ExposedSystem> {
    let a2a = system.a2a.filter(|a2a| a2a.enabled)?;
    let mut members: Vec<Arc<str>> = Vec::new();
    for agent in agents {
        if !members.iter().any(|known| **known == *agent) {
            members.push(agent.into());
        }
    }
    Some(ExposedSystem {
        name: name.into(),
        namespace: system.namespace().into(),
        public: match a2a.auth {
            A2aAuth::Public => true,
            A2aAuth::Bearer => false,
        },
        agents: members,
    })
}

/// The remote A2A agents.
pub(crate) fn remotes(agents: &[AgentFacts<'_>]) -> Vec<(Arc<str>, String)> {
    let url = |agent: &AgentFacts<'_>| {
        let written = agent.written?;
        let is_a2a = written.get("kind").and_then(|kind| kind.as_str()) == Some("a2a");
        let url = written.get("url").and_then(|url| url.as_str()).filter(|_| is_a2a)?;
        Some((Arc::from(agent.name), url.to_owned()))
    };
    // By name, as the registry shows them.
    let mut remotes: Vec<(Arc<str>, String)> = agents.iter().filter_map(url).collect();
    remotes.sort();
    remotes
}
