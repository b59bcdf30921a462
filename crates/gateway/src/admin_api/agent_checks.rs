//! Checks of an agent: its cards for readers of every version, the card of an agent elsewhere against the one that it had, and
//! a message that tests it.

use std::time::{Duration, Instant};

use dialects::card_check::{self, CardFinding, CardVersion};
use dialects::{a2a_v0_3, a2a_v1, card};
use engine::SendAnswer;
use model::ports::agent::RemoteCards;
use model::{Caller, Fault, Json, Kind, Message, Part, Role, Send, Wait};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};
use crate::admin::messages::required_extensions;
use crate::mounts::{CARD, MountedAgent};
use crate::settings::CardForm;

/// How long the answer of a test waits for the agent, and the card of an agent elsewhere for its server.
const TEST_WAITS: Duration = Duration::from_secs(10);
const CARD_WAITS: Duration = Duration::from_secs(20);
/// The message of a test.
const TEST: &str = "This is a test by an operator of this server. Please answer briefly.";
/// Characters of the answer to a test.
const EXCERPT: usize = 500;
/// The most differences between two cards.
const DIFFERENCES: usize = 200;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CardFinding")]
pub(super) struct ApiCardFinding {
    /// A strict reader refuses the card, or does not find the agent. Otherwise it may miss something.
    error: bool,
    /// The place in the document; empty for the whole.
    path: String,
    says: String,
}

/// A card for readers of a version.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VersionCard")]
pub(super) struct ApiVersionCard {
    /// `1.0`, `0.3`, `0.2` or `0.1`.
    version: String,
    /// The document; null where the server serves none for these readers.
    card: Option<Map<String, Value>>,
    /// Errors first.
    findings: Vec<ApiCardFinding>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cards")]
pub(super) struct ApiCards {
    /// The address of the public card.
    url: String,
    /// `hybrid`, one document for readers of every version, or `clean`, for those of 1.0.
    form: String,
    versions: Vec<ApiVersionCard>,
}

impl From<CardFinding> for ApiCardFinding {
    fn from(finding: CardFinding) -> ApiCardFinding {
        ApiCardFinding { error: finding.is_error, path: finding.path, says: finding.says }
    }
}

/// The agent that the path names, if it is served.
fn mounted<'a>(context: &'a ApiContext<'_>) -> Result<&'a MountedAgent, ApiProblem> {
    let found = context.server.mounts.agent(context.http.id()).filter(|mounted| !mounted.retired);
    found.ok_or_else(|| ApiProblem::missing("there is no such agent"))
}

pub(super) async fn cards(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, mounted) = (context.server, mounted(context)?);
    let head = context.http.head;
    let is_hybrid = matches!(server.settings.card, CardForm::Hybrid);
    // 0.2 and 0.3 have one form; readers of 0.1 know the public card alone.
    let document = |version: CardVersion| {
        let named =
            |name: &str| dialects::wire(name).map(|wire| server.written_card(mounted, head, |facts| wire.card(facts)));
        match version {
            CardVersion::V1_0 => named(a2a_v1::NAME),
            CardVersion::V0_3 | CardVersion::V0_2 => named(a2a_v0_3::NAME),
            CardVersion::V0_1 => is_hybrid.then(|| server.written_card(mounted, head, card::hybrid)),
        }
    };
    let version = |version: CardVersion| -> Result<ApiVersionCard, Fault> {
        let written = document(version).map(|bytes| serde_json::from_slice::<Value>(&bytes)).transpose();
        let written = written.map_err(Fault::internal)?;
        let findings = match &written {
            Some(written) => card_check::check(version, written).into_iter().map(ApiCardFinding::from).collect(),
            None => vec![ApiCardFinding {
                error: true,
                path: String::new(),
                says: "the config has card: clean, and that form is for readers of 1.0".to_owned(),
            }],
        };
        let card = written.and_then(|written| match written {
            Value::Object(members) => Some(members),
            _ => None,
        });
        Ok(ApiVersionCard { version: version.name().to_owned(), card, findings })
    };
    let base = server.cards.base_url(&server.settings, head);
    ok(&ApiCards {
        url: format!("{base}/a2a/{}{CARD}", mounted.agent),
        form: if is_hybrid { "hybrid" } else { "clean" }.to_owned(),
        versions: CardVersion::ALL.into_iter().map(version).collect::<Result<_, Fault>>()?,
    })
}

/// A member of two cards that differs.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CardDifference")]
pub(super) struct ApiCardDifference {
    /// The place in the card, with skills, extensions and schemes by their ids.
    path: String,
    /// Null where there was no such member.
    before: Value,
    /// Null where there is no such member any more.
    now: Value,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "Drift")]
pub(super) struct ApiDrift {
    /// Whether the agent stands for one elsewhere. Without it, all other members are empty.
    remote: bool,
    /// The address that calls go to, without its query.
    url: Option<String>,
    /// The form of A2A that is spoken there.
    form: Option<String>,
    /// The card as this server took it up, and as it is now; null without one.
    before: Option<Value>,
    now: Option<Value>,
    differences: Vec<ApiCardDifference>,
    /// Why the card could not be read.
    trouble: Option<String>,
}

/// Reads the card of an agent elsewhere again, by the agent's own client and from the address of the config.
pub(super) async fn drift(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let name = mounted(context)?.agent.clone();
    let Some(reading) = context.server.engine.remote_card(&name) else { return ok(&ApiDrift::default()) };
    let read = tokio::time::timeout(CARD_WAITS, reading).await;
    let cards =
        read.unwrap_or_else(|_| Err(Fault::new(Kind::Unavailable, "the agent's server did not answer in time")));
    ok(&match cards {
        Err(fault) => ApiDrift { remote: true, trouble: Some(fault.message), ..ApiDrift::default() },
        Ok(RemoteCards { before, now, url, form }) => {
            let (before, now) = (before.as_ref().map(Json::to_value), now.as_ref().map(Json::to_value));
            let mut differences = Vec::new();
            if let (Some(before), Some(now)) = (&before, &now) {
                compare("", before, now, &mut differences);
            }
            ApiDrift { remote: true, url: Some(url), form: Some(form), before, now, differences, trouble: None }
        }
    })
}

fn compare(place: &str, before: &Value, now: &Value, found: &mut Vec<ApiCardDifference>) {
    if before == now || found.len() == DIFFERENCES {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, now) else {
        return found.push(ApiCardDifference { path: place.to_owned(), before: before.clone(), now: now.clone() });
    };
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names {
        let path = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let member = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
        compare(&path, &member(old), &member(new), found);
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentTest")]
pub(super) struct ApiAgentTest {
    /// The task that the message has opened; null where the agent refused it or answered by a message.
    task: Option<String>,
    /// The state of the task within ten seconds.
    state: Option<String>,
    /// The beginning of what the agent said.
    answer: Option<String>,
    took_ms: u64,
    /// Why the agent did not take the message.
    refused: Option<String>,
}

/// Sends a message to the agent, in the name and tenant of the operator. What the policy allows callers does not matter.
pub(super) async fn test(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, mounted) = (context.server, mounted(context)?);
    let known = &context.caller.known;
    let tenant = mounted.tenant_of(known);
    if context.tenant().is_some_and(|own| own != &*tenant) {
        return Err(ApiProblem::forbidden("the tasks of this agent are of another tenant than yours"));
    }
    let operator =
        Caller { tenant: tenant.clone(), name: known.name.clone(), authenticated: true, scopes: Default::default() };
    let place = mounted.place_in(operator, a2a_v1::NAME);
    let message = Message {
        id: Uuid::now_v7().to_string().into(),
        role: Role::User,
        parts: vec![Part::text(TEST)],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    };
    let wait = Wait::Rest { max_ms: Some(TEST_WAITS.as_millis() as u64) };
    let extensions = required_extensions(server, &mounted.agent);
    let send = Send { wait, extensions, ..Send::new(message) };
    if let Some(guard) = &mounted.send_guard {
        guard.admit(&server.engine, &place, &send, Some(known)).await?;
    }
    let began = Instant::now();
    let line = serde_json::json!({ "agent": &*mounted.agent, "tenant": &*tenant });
    let sent = context.change(move |admin| {
        Box::pin(async move {
            let sent = admin.engine.send(&place, send).await;
            admin.changed("agents", "tested", line);
            Ok(sent)
        })
    });
    let sent = sent.await?;
    let took_ms = began.elapsed().as_millis() as u64;
    let excerpt = |text: String| Some(text.chars().take(EXCERPT).collect::<String>()).filter(|text| !text.is_empty());
    let empty = ApiAgentTest { task: None, state: None, answer: None, took_ms, refused: None };
    ok(&match sent {
        Ok(SendAnswer::Task(task)) => {
            let said = task.status.message.as_ref().map(|message| message.text());
            let made = task
                .artifacts
                .last()
                .map(|artifact| artifact.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join(" "));
            ApiAgentTest {
                task: Some(task.id.to_string()),
                state: Some(task.state().word().to_owned()),
                answer: said.filter(|said| !said.is_empty()).or(made).and_then(excerpt),
                ..empty
            }
        }
        Ok(SendAnswer::Reply(reply)) => ApiAgentTest { answer: excerpt(reply.message.text()), ..empty },
        Err(fault) => ApiAgentTest { refused: Some(fault.message), ..empty },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_differ_are_found_with_their_places() {
        let before = json!({ "name": "a", "skills": { "s": { "name": "s", "tags": ["x"] }, "old": {} }, "push": true });
        let now = json!({ "name": "a", "skills": { "s": { "name": "s", "tags": ["y"] }, "new": 1 }, "push": false });
        let mut found = Vec::new();
        compare("", &before, &now, &mut found);
        let mut places: Vec<_> = found.iter().map(|one| (one.path.as_str(), one.now.clone())).collect();
        places.sort_by_key(|(path, _)| *path);
        let expected = [
            ("push", json!(false)),
            ("skills.new", json!(1)),
            ("skills.old", Value::Null),
            ("skills.s.tags", json!(["y"])),
        ];
        assert_eq!(places, expected);
        let many: Map<String, Value> = (0..1_000).map(|number| (number.to_string(), json!(number))).collect();
        found.clear();
        compare("", &json!({}), &Value::Object(many), &mut found);
        assert_eq!(found.len(), DIFFERENCES);
    }
}
