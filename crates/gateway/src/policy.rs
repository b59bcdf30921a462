//! The policy: rules of the config about callers and calls, compiled once.
//!
//! A rule names callers, scopes, tenants, agents, methods and skills; a list that it leaves out matches anything. A
//! matching `deny` wins over every `allow`; a call that no `allow` matches is denied. One function checks this for
//! every front, before any task is looked up, so that a refusal reveals nothing about tasks.
//!
//! Skills are those that a call names: a call that names several needs permission for each, and a call that names none
//! matches only rules without skills.

use std::borrow::Cow;
use std::fmt;

use model::{Call, Caller, Content, Fault, Json, Kind, PushCall};
use serde::Serialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::settings;

/// The name in rules for callers without a credential.
const ANONYMOUS: &str = "anonymous";
/// The members that name a skill; `tool` names a tool of an MCP server, which is a skill, too.
const SKILL: [&str; 4] = ["skill", "skillId", "skill_id", "tool"];

/// A rule as it is written. Lists hold patterns in which `*` matches anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    pub effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
}

impl Rule {
    /// A rule that matches everything.
    pub fn new(effect: Effect) -> Rule {
        Rule { effect, callers: None, scopes: None, tenants: None, agents: None, methods: None, skills: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Deny,
}

/// Methods, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Methods(u16);

/// By bit; the same names as in the log.
pub(crate) const NAMES: [&str; 11] = [
    "send",
    "stream",
    "get",
    "list",
    "cancel",
    "subscribe",
    "push_create",
    "push_get",
    "push_list",
    "push_delete",
    "extended_card",
];
const SEND: Methods = Methods(1);
const STREAM: Methods = Methods(1 << 1);
const CANCEL: Methods = Methods(1 << 4);
const PUSH_CREATE: Methods = Methods(1 << 6);

impl Methods {
    pub(crate) const EXTENDED_CARD: Methods = Methods(1 << 10);
    pub(crate) const EVERY: Methods = Methods((1 << NAMES.len()) - 1);
    /// get, list, subscribe, push_get, push_list
    pub(crate) const READ: Methods = Methods(1 << 2 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8);
    pub(crate) const WRITE: Methods = Methods(Methods::EVERY.0 & !Methods::READ.0 & !Methods::EXTENDED_CARD.0);
    /// send, stream, cancel
    pub(crate) const SAY: Methods = Methods(SEND.0 | STREAM.0 | CANCEL.0);
    /// All calls about push configs.
    pub(crate) const PUSH: Methods = Methods(1 << 6 | 1 << 7 | 1 << 8 | 1 << 9);

    /// The methods that a call needs: a send with a push config needs two.
    pub(crate) fn all_of(call: &Call) -> impl Iterator<Item = Methods> + use<> {
        let also = match call {
            Call::Send(send) | Call::Stream(send) => send.push.is_some().then_some(PUSH_CREATE),
            Call::Get(_)
            | Call::List(_)
            | Call::Cancel(_)
            | Call::Subscribe(_)
            | Call::Push(_)
            | Call::ExtendedCard => None,
        };
        std::iter::once(Methods::of(call)).chain(also)
    }

    fn of(call: &Call) -> Methods {
        Methods(match call {
            Call::Send(_) => SEND.0,
            Call::Stream(_) => STREAM.0,
            Call::Get(_) => 1 << 2,
            Call::List(_) => 1 << 3,
            Call::Cancel(_) => CANCEL.0,
            Call::Subscribe(_) => 1 << 5,
            Call::Push(PushCall::Create(_)) => PUSH_CREATE.0,
            Call::Push(PushCall::Get { .. }) => 1 << 7,
            Call::Push(PushCall::List { .. }) => 1 << 8,
            Call::Push(PushCall::Delete { .. }) => 1 << 9,
            Call::ExtendedCard => Methods::EXTENDED_CARD.0,
        })
    }

    fn named(name: &str) -> Option<Methods> {
        match name {
            "*" => Some(Methods::EVERY),
            "read" => Some(Methods::READ),
            "write" => Some(Methods::WRITE),
            name => Methods::single(name),
        }
    }

    /// The method with this name.
    pub(crate) fn single(name: &str) -> Option<Methods> {
        NAMES.iter().position(|known| *known == name).map(|bit| Methods(1 << bit))
    }

    /// Whether it is a send or a stream.
    pub(crate) fn is_message(self) -> bool {
        self == SEND || self == STREAM
    }

    pub(crate) fn meets(self, other: Methods) -> bool {
        self.0 & other.0 != 0
    }
}

/// A name, or a pattern of names.
pub(crate) enum Pattern {
    Exact(Box<str>),
    /// The pieces between the stars.
    Glob(Vec<Box<str>>),
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        if text.contains('*') {
            Pattern::Glob(text.split('*').map(Box::from).collect())
        } else {
            Pattern::Exact(text.into())
        }
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        let pieces = match self {
            Pattern::Exact(name) => return **name == *text,
            Pattern::Glob(pieces) => pieces,
        };
        let [first, middle @ .., last] = &pieces[..] else { return false };
        let Some(mut rest) = text.strip_prefix(&**first).and_then(|rest| rest.strip_suffix(&**last)) else {
            return false;
        };
        for piece in middle {
            match rest.find(&**piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

type Patterns = Option<Vec<Pattern>>;

fn any(patterns: &Patterns, text: &str) -> bool {
    patterns.as_ref().is_none_or(|list| list.iter().any(|one| one.fits(text)))
}

struct CompiledRule {
    effect: Effect,
    callers: Patterns,
    /// `anonymous` is in the list: the rule applies to callers without a credential even where one is required.
    anonymous: bool,
    scopes: Patterns,
    tenants: Patterns,
    agents: Patterns,
    methods: Methods,
    skills: Patterns,
}

/// One question to the rules.
#[derive(Clone, Copy)]
struct Question<'a> {
    caller: &'a Caller,
    tenant: &'a str,
    agent: &'a str,
    method: Methods,
    skill: Option<&'a str>,
    /// Whether the mount requires a credential.
    required: bool,
}

impl CompiledRule {
    fn new(rule: &Rule) -> Result<CompiledRule, String> {
        let list = |name: &str, list: &Option<Vec<String>>| match list {
            None => Ok(None),
            Some(list) if list.is_empty() => Err(format!("{name} is empty; leave it out to mean any")),
            Some(list) if list.iter().any(|one| one.trim().is_empty()) => Err(format!("{name} has an empty name")),
            Some(list) => Ok(Some(list.iter().map(|one| Pattern::new(one)).collect())),
        };
        let mut methods = Methods(0);
        for name in rule.methods.as_deref().unwrap_or(&["*".to_owned()]) {
            let known = Methods::named(name).ok_or_else(|| {
                format!("there is no method {name:?}; write read, write, * or one of {}", NAMES.join(", "))
            })?;
            methods.0 |= known.0;
        }
        if methods == Methods(0) {
            return Err("methods is empty; leave it out to mean any".into());
        }
        Ok(CompiledRule {
            effect: rule.effect,
            callers: list("callers", &rule.callers)?,
            anonymous: rule.callers.as_ref().is_some_and(|list| list.iter().any(|one| one == ANONYMOUS)),
            scopes: list("scopes", &rule.scopes)?,
            tenants: list("tenants", &rule.tenants)?,
            agents: list("agents", &rule.agents)?,
            methods,
            skills: list("skills", &rule.skills)?,
        })
    }

    fn fits(&self, q: &Question<'_>) -> bool {
        self.methods.meets(q.method)
            && any(&self.agents, q.agent)
            && any(&self.tenants, q.tenant)
            && self.fits_caller(q)
            && match (&self.skills, q.skill) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(_), Some(skill)) => any(&self.skills, skill),
            }
    }

    fn fits_caller(&self, q: &Question<'_>) -> bool {
        let caller = q.caller;
        if !caller.authenticated {
            // Where a credential is required, a rule with a wildcard does not admit callers without one.
            let meant = match self.effect {
                Effect::Allow if q.required => self.anonymous,
                Effect::Allow | Effect::Deny => self.anonymous || any(&self.callers, ANONYMOUS),
            };
            return meant && self.scopes.is_none();
        }
        // A credential with the name `anonymous` is not a caller without a credential.
        let named = any(&self.callers, &caller.name) && *caller.name != *ANONYMOUS;
        let scoped = |list: &Vec<Pattern>| {
            caller.scopes.is_empty() || caller.scopes.iter().any(|scope| list.iter().any(|one| one.fits(scope)))
        };
        named && self.scopes.as_ref().is_none_or(scoped)
    }
}

/// The rules in force.
pub struct Policy {
    rules: Vec<CompiledRule>,
    /// Some rule has skills.
    skills: bool,
    hash: String,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("rules", &self.rules.len()).field("hash", &self.hash).finish()
    }
}

impl Policy {
    pub fn new(rules: &[Rule]) -> Result<Policy, settings::Error> {
        let compiled = rules.iter().enumerate().map(|(i, rule)| {
            CompiledRule::new(rule).map_err(|text| settings::Error(format!("policy: rule {}: {text}", i + 1)))
        });
        let compiled: Vec<CompiledRule> = compiled.collect::<Result<_, _>>()?;
        let text = serde_json::to_string(rules).unwrap_or_default();
        let hash = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Policy { skills: compiled.iter().any(|rule| rule.skills.is_some()), rules: compiled, hash })
    }

    /// The same rules have the same hash, for the audit log.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn has_skills(&self) -> bool {
        self.skills
    }

    fn allows(&self, q: &Question<'_>) -> bool {
        self.deciding(q).is_some_and(|(_, effect)| effect == Effect::Allow)
    }

    /// The number of the rule that decides, counted from 1, and its effect; none where no rule fits.
    fn deciding(&self, q: &Question<'_>) -> Option<(usize, Effect)> {
        let mut allowed = None;
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.fits(q) {
                match rule.effect {
                    Effect::Deny => return Some((at + 1, Effect::Deny)),
                    Effect::Allow => allowed = allowed.or(Some((at + 1, Effect::Allow))),
                }
            }
        }
        allowed
    }

    /// The same for a call without a skill; with `only_denials`, as of an agent that the called system works with.
    pub(crate) fn decision(
        &self,
        caller: &Caller,
        agent: &str,
        method: Methods,
        required: bool,
        only_denials: bool,
    ) -> Option<(usize, Effect)> {
        let q = Question { caller, tenant: &caller.tenant, agent, method, skill: None, required };
        self.deciding(&q).filter(|(_, effect)| !only_denials || *effect == Effect::Deny)
    }

    /// Whether a caller without a credential may make any call at this agent, though one is required.
    pub(crate) fn opens(&self, agent: &str) -> bool {
        let opens = |rule: &CompiledRule| rule.effect == Effect::Allow && rule.anonymous && any(&rule.agents, agent);
        self.rules.iter().any(opens)
    }

    /// Whether a caller may use a skill, by sending or streaming.
    pub(crate) fn allows_skill(&self, caller: &Caller, tenant: &str, agent: &str, skill: &str, required: bool) -> bool {
        let may = |method| self.allows(&Question { caller, tenant, agent, method, skill: Some(skill), required });
        may(SEND) || may(STREAM)
    }

    /// Whether a rule denies a call at an agent that the called system works with. No rule has to allow it: permission
    /// for a system covers its agents, unless a rule denies it.
    pub(crate) fn denies(&self, caller: &Caller, tenant: &str, agent: &str, call: &Call, required: bool) -> bool {
        let q = Question { caller, tenant, agent, method: Methods::of(call), skill: None, required };
        self.rules.iter().any(|rule| rule.effect == Effect::Deny && rule.fits(&q))
    }

    /// Whether a call is allowed. The fault says which permission or credential is missing.
    pub(crate) fn check(
        &self,
        caller: &Caller,
        tenant: &str,
        agent: &str,
        call: &Call,
        required: bool,
    ) -> Result<(), Fault> {
        let named = if self.skills { skills(call) } else { Vec::new() };
        let ask = |method, skill: Option<&str>| {
            if self.allows(&Question { caller, tenant, agent, method, skill, required }) {
                return Ok(());
            }
            Err(refusal(caller, method, agent, skill))
        };
        for method in Methods::all_of(call) {
            if named.is_empty() {
                ask(method, None)?;
            }
            for skill in &named {
                if *skill == UNKNOWABLE {
                    return Err(Fault::params("metadata.skill", "a skill is named by a text"));
                }
                ask(method, Some(skill))?;
            }
        }
        Ok(())
    }
}

/// The name of a method.
pub(crate) fn named(method: Methods) -> &'static str {
    NAMES.get(method.0.trailing_zeros() as usize).copied().unwrap_or("?")
}

fn refusal(caller: &Caller, method: Methods, agent: &str, skill: Option<&str>) -> Fault {
    let method = named(method);
    let what = match skill {
        Some(skill) => format!("{method} at the agent {agent} with the skill {skill:?}"),
        None => format!("{method} at the agent {agent}"),
    };
    if caller.authenticated {
        let message = format!("you may not {what}: no rule allows it; ask the operator of this server");
        return Fault::new(Kind::Forbidden, message);
    }
    let message = format!("to {what}, say who you are: send Authorization: Bearer <key> or X-Api-Key: <key>");
    Fault::new(Kind::Unauthenticated, message)
}

/// Stands for a skill whose name cannot be read. No name has a line break.
const UNKNOWABLE: &str = "\n";

/// The skills that a call names, in its metadata or in its data.
fn skills(call: &Call) -> Vec<Cow<'_, str>> {
    let mut named = Vec::new();
    match call {
        Call::Send(send) | Call::Stream(send) => {
            let metadata = [send.metadata.as_ref(), send.message.metadata.as_ref()].into_iter().flatten();
            let data = send.message.parts.iter().filter_map(|part| match &part.content {
                Content::Data(json) => Some(json),
                Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
            });
            metadata.chain(data).for_each(|json| named_in(json, &mut named));
        }
        Call::Cancel(cancel) => cancel.metadata.iter().for_each(|json| named_in(json, &mut named)),
        Call::Get(_) | Call::List(_) | Call::Subscribe(_) | Call::Push(_) | Call::ExtendedCard => {}
    }
    named
}

fn named_in<'j>(json: &'j Json, named: &mut Vec<Cow<'j, str>>) {
    struct Members<'v, 'j>(&'v mut Vec<Cow<'j, str>>);
    impl<'j> Visitor<'j> for Members<'_, 'j> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<(), A::Error> {
            // A member that occurs twice names two skills, because agents differ in which of the two they read.
            while let Some(key) = map.next_key::<Cow<'j, str>>()? {
                let value: &'j RawValue = map.next_value()?;
                if SKILL.contains(&&*key) && value.get() != "null" {
                    // A value that is not a text cannot match a rule, but an agent may still take it for a skill, so no
                    // rule can allow it.
                    self.0.push(serde_json::from_str(value.get()).map_or(Cow::Borrowed(UNKNOWABLE), Cow::Owned));
                }
            }
            Ok(())
        }
    }
    if json.is_object() {
        let mut reader = serde_json::Deserializer::from_str(json.text());
        if serde::Deserializer::deserialize_map(&mut reader, Members(named)).is_err() {
            named.push(Cow::Borrowed(UNKNOWABLE));
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
