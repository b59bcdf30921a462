//! A purchase that an agent of this server serves: it runs a turn, and its result is the delivery.
//!
//! The turn is a task of the seller. Its idempotency key and its context are derived from the purchase, so that any
//! later attempt, in any process, finds the same task.

use std::sync::Arc;

use engine::SendAnswer;
use ledger::TransactionId;
use market_rules::Transaction;
use market_rules::transaction::{Deliverable, MAX_DELIVERABLES, MAX_NAME, TransactionAction};
use model::call::Idempotency;
use model::{
    Artifact, BlobKind, CallScope, Cancel, Content, ContextId, Fault, Json, Kind, List, Message, Part, Role, Send,
    State, Task,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::WorkResult;
use crate::service::{DIALECT, Error, Market, Upload};

/// An agent's output, as a purchase's result.
#[derive(Debug, Default)]
struct AgentOutput {
    texts: Vec<String>,
    artifacts: Vec<Value>,
    files: Vec<Deliverable>,
    /// Files of this and of earlier artifacts.
    count: usize,
    /// Bytes so far, roughly: too large an output is stopped before all of it is in memory.
    bytes: usize,
}

/// Reasons why an output cannot be delivered.
enum Undeliverable {
    Words(String),
    Fault(Fault),
}

impl From<Fault> for Undeliverable {
    fn from(fault: Fault) -> Undeliverable {
        Undeliverable::Fault(fault)
    }
}

impl Market {
    /// Starts or finds the turn, waits for its end and delivers the result.
    pub(super) async fn serve_by_agent(
        &self,
        row: &Transaction,
        agent: &Arc<str>,
        again: bool,
    ) -> Result<WorkResult, Error> {
        let place = seller_at(row, agent);
        // Idempotency keys expire; the context of a task does not.
        let known = if again { self.child(&place, row.id).await? } else { None };
        if known.is_none() && self.engine().profile(agent).is_none() {
            return self.fail(row, format!("the agent {agent} that serves this is no longer here")).await;
        }
        let Some(mut states) = self.engine().follow_product(row.id.0).await? else { return Ok(WorkResult::Rests) };
        let ended = async {
            while let Some(state) = states.next().await {
                if state.state() != State::Working {
                    return;
                }
            }
        };
        let answer = async {
            match &known {
                Some(task) => self.rested(task).await.map(SendAnswer::Task),
                None => self.engine().send(&place, self.order_of(row, agent)).await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = ended => {
                // The purchase has ended, or the server stops.
                if !self.engine().is_draining() {
                    self.stop_agent(row, agent).await?;
                }
                return Ok(WorkResult::On);
            }
        };
        match answer {
            Ok(SendAnswer::Task(task)) => self.hand_over(row, &task).await,
            Ok(SendAnswer::Reply(reply)) => {
                let mut made = AgentOutput::default();
                let whole = self.add_parts(row, &reply.message.parts, &mut made).await;
                self.deliver(row, whole.map(|()| made)).await
            }
            Err(fault) if matches!(fault.kind, Kind::Unavailable | Kind::Internal | Kind::RateLimited) => {
                Err(Error::Fault(fault))
            }
            Err(fault) => self.fail(row, format!("the agent {agent} did not take it: {fault}")).await,
        }
    }

    /// The work as a message for the agent: facts as data and a text, in the media types that the agent reads.
    fn order_of(&self, row: &Transaction, agent: &str) -> Send {
        let input = row.input.as_ref().map(Json::to_value);
        let words = match &input {
            Some(Value::String(words)) => Some(words.clone()),
            Some(Value::Object(members)) => {
                let texts = ["text", "prompt", "query"].into_iter().filter_map(|name| members.get(name)?.as_str());
                texts.map(str::to_owned).next()
            }
            Some(_) | None => None,
        };
        let facts = json!({
            "capability_id": row.capability.as_str(),
            "transaction_id": row.id.tx(),
            "input": input,
            "booked_hours": row.booked_hours,
        });
        let modes = self.engine().profile(agent).map(|profile| profile.input_modes.clone()).unwrap_or_default();
        let reads = |media: &str| modes.is_empty() || modes.iter().any(|mode| covers(mode, media));
        let mut parts = Vec::new();
        if reads("application/json") || self.engine().limits().any_input_mode || !reads("text/plain") {
            parts.push(Part::data(Json::from_value(&facts)));
        }
        if let Some(words) = words.filter(|_| reads("text/plain")) {
            parts.push(Part::text(words));
        }
        if parts.is_empty() {
            // An agent that reads only text gets the facts as text.
            parts.push(Part::text(row.input.as_ref().map_or_else(|| facts.to_string(), |input| input.text().into())));
        }
        let link = json!({"uumit": {"transaction_id": row.id.tx(), "capability_id": row.capability.as_str()}});
        let key = format!("uumit/{}/serve", row.id);
        // The same purchase is the same request, even if the agent's media types have changed.
        let body = Sha256::digest(&key).into();
        let message = Message {
            id: key.as_str().into(),
            role: Role::User,
            parts,
            metadata: Some(Json::from_value(&link)),
            extensions: Vec::new(),
            references: vec![row.id.0.to_string()],
        };
        Send {
            context: Some(context_of(row.id)),
            history: Some(0),
            metadata: Some(Json::from_value(&link)),
            idempotency: Some(Idempotency { key, body }),
            ..Send::new(message)
        }
    }

    /// The task of a purchase, found by its context.
    async fn child(&self, place: &CallScope, id: TransactionId) -> Result<Option<Arc<Task>>, Error> {
        let list = List { context: Some(context_of(id)), page_size: Some(1), artifacts: true, ..List::default() };
        let page = self.engine().list(place, &list).await?;
        Ok(page.tasks.into_iter().next())
    }

    /// Waits until the task is at rest.
    async fn rested(&self, task: &Arc<Task>) -> Result<Arc<Task>, Fault> {
        let Some(mut states) = self.engine().follow_product(task.id).await? else {
            return Err(Fault::task_not_found(task.id));
        };
        let mut last = task.clone();
        while let Some(now) = states.next().await {
            let rests = now.core.is_at_rest();
            last = now;
            if rests {
                break;
            }
        }
        Ok(last)
    }

    /// Ends the purchase by the state of the turn.
    async fn hand_over(&self, row: &Transaction, task: &Task) -> Result<WorkResult, Error> {
        if !task.core.is_at_rest() {
            // The server stops before the turn ends; the next process continues.
            return Ok(WorkResult::Rests);
        }
        let words = task.status.message.as_ref().map(|message| message.text()).unwrap_or_default();
        let said = |what: &str| match words.as_str() {
            "" => what.to_owned(),
            words => format!("{what}: {words}"),
        };
        match task.state() {
            State::Completed => {
                let made = self.made(row, task).await;
                self.deliver(row, made).await
            }
            State::Failed => self.fail(row, said("the agent failed")).await,
            State::Rejected => self.fail(row, said("the agent rejected it")).await,
            State::Canceled => self.fail(row, said("the agent's work was cancelled")).await,
            State::InputRequired => {
                let failed = self.fail(row, said("the agent asked for more input, which a purchase cannot give")).await;
                self.stop_agent(row, &task.agent).await?;
                failed
            }
            State::AuthRequired => {
                let failed =
                    self.fail(row, said("the agent asked for credentials, which a purchase cannot give")).await;
                self.stop_agent(row, &task.agent).await?;
                failed
            }
            State::Submitted | State::Working => Ok(WorkResult::Rests),
        }
    }

    async fn deliver(&self, row: &Transaction, made: Result<AgentOutput, Undeliverable>) -> Result<WorkResult, Error> {
        let made = match made {
            Ok(made) => made,
            Err(Undeliverable::Fault(fault)) => return Err(fault.into()),
            Err(Undeliverable::Words(words)) => return self.fail(row, words).await,
        };
        let most = self.config().purchases.max_payload_bytes;
        let result = Json::from_value(&json!({"text": made.texts.join("\n"), "artifacts": made.artifacts}));
        if result.text().len() > most {
            return self.fail(row, too_large(most)).await;
        }
        self.on_behalf(row, TransactionAction::Deliver { result: Some(result), deliverables: made.files }).await
    }

    async fn made(&self, row: &Transaction, task: &Task) -> Result<AgentOutput, Undeliverable> {
        let mut made = AgentOutput::default();
        for artifact in &task.artifacts {
            self.add_artifact(row, artifact, &mut made).await?;
        }
        // Some agents answer in the message of their last status.
        if made.texts.is_empty()
            && let Some(last) = &task.status.message
        {
            made.texts.push(last.text());
        }
        Ok(made)
    }

    async fn add_artifact(
        &self,
        row: &Transaction,
        artifact: &Artifact,
        made: &mut AgentOutput,
    ) -> Result<(), Undeliverable> {
        let mut own = AgentOutput { bytes: made.bytes, count: made.count, ..AgentOutput::default() };
        self.add_parts(row, &artifact.parts, &mut own).await?;
        let mut whole = Map::new();
        whole.insert("artifact_id".into(), artifact.id.as_ref().into());
        if let Some(name) = &artifact.name {
            whole.insert("name".into(), name.as_str().into());
        }
        whole.insert("parts".into(), own.artifacts.into());
        made.artifacts.push(whole.into());
        made.texts.extend(own.texts);
        made.files.extend(own.files);
        (made.bytes, made.count) = (own.bytes, own.count);
        Ok(())
    }

    /// Parts as JSON; a file is named there and becomes a deliverable.
    async fn add_parts(&self, row: &Transaction, parts: &[Part], made: &mut AgentOutput) -> Result<(), Undeliverable> {
        let most = self.config().purchases.max_payload_bytes;
        for part in parts {
            let content = match &part.content {
                Content::Blob(blob) if blob.kind != BlobKind::Raw => {
                    made.bytes = made.bytes.saturating_add(usize::try_from(blob.len).unwrap_or(usize::MAX));
                    if made.bytes > most {
                        return Err(Undeliverable::Words(too_large(most)));
                    }
                    let bytes = self.engine().blob(&row.tenant, blob.hash).await?;
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    match blob.kind {
                        BlobKind::Text => Content::Text(text),
                        BlobKind::Data | BlobKind::Object | BlobKind::Raw => {
                            Content::Data(Json::parse(&text).unwrap_or_else(|| Json::from_value(&Value::Null)))
                        }
                    }
                }
                inline => {
                    if !matches!(inline, Content::Raw(_) | Content::Blob(_)) {
                        made.bytes = made.bytes.saturating_add(part.weight());
                    }
                    inline.clone()
                }
            };
            if made.bytes > most {
                return Err(Undeliverable::Words(too_large(most)));
            }
            if matches!(content, Content::Url(_) | Content::Raw(_) | Content::Blob(_)) {
                made.count += 1;
                if made.count > MAX_DELIVERABLES {
                    let words = format!(
                        "the agent made more than {MAX_DELIVERABLES} files, which is more than can be delivered"
                    );
                    return Err(Undeliverable::Words(words));
                }
            }
            let before = made.count.saturating_sub(1);
            let value = match content {
                Content::Text(text) => {
                    made.texts.push(text.clone());
                    json!({"type": "text", "text": text})
                }
                Content::Data(data) => json!({"type": "data", "data": data.to_value()}),
                Content::Url(url) => {
                    let file = elsewhere(part, before)?;
                    let value = json!({"type": "file", "deliverable_id": *file.deliverable_id,
                        "access_id": *file.access_id, "file_name": *file.file_name, "url": url});
                    made.files.push(file);
                    value
                }
                Content::Raw(_) | Content::Blob(_) => {
                    let file = self.keep_made(row, part, before).await?;
                    let value = json!({"type": "file", "deliverable_id": *file.deliverable_id,
                        "access_id": *file.access_id, "file_name": *file.file_name});
                    made.files.push(file);
                    value
                }
            };
            made.artifacts.push(value);
        }
        Ok(())
    }

    /// Stores a file of the agent's output with the purchase; a repeat finds the same file.
    async fn keep_made(&self, row: &Transaction, part: &Part, before: usize) -> Result<Deliverable, Undeliverable> {
        let most = self.config().files.file_bytes;
        let too_large =
            || Undeliverable::Words(format!("a file of the agent's is too large: it may have {most} bytes"));
        let bytes = match &part.content {
            Content::Raw(bytes) => bytes.clone(),
            Content::Blob(blob) if blob.len > most => return Err(too_large()),
            Content::Blob(blob) => self.engine().blob(&row.tenant, blob.hash).await?,
            Content::Text(_) | Content::Url(_) | Content::Data(_) => return Err(Fault::internal("not a file").into()),
        };
        let name: Arc<str> = name_of(part, before).into();
        // An empty file is named, without a download.
        if bytes.is_empty() {
            return elsewhere(part, before);
        }
        let media_type = part.media_type.as_deref().unwrap_or(crate::service::ANY_MEDIA).into();
        let upload = |media_type| Upload { name: name.clone(), media_type, bytes: bytes.clone() };
        let which = format!("agent {before}");
        let kept = match self.keep_file(row, upload(media_type), &which).await {
            // File names of agents are arbitrary.
            Err(Error::Fields(errors)) if errors.iter().any(|error| error.field == "Content-Type") => {
                self.keep_file(row, upload(crate::service::ANY_MEDIA.into()), &which).await
            }
            kept => kept,
        };
        match kept {
            Ok(file) => Ok(file.delivered_as(None)),
            Err(Error::Fault(fault)) if fault.kind == Kind::TooLarge => Err(too_large()),
            Err(Error::Fault(fault)) => Err(fault.into()),
            Err(refused) => Err(Undeliverable::Words(format!("a file of the agent's cannot be kept: {refused}"))),
        }
    }

    /// Cancels the turn of a purchase that has ended.
    pub(super) async fn stop_agent(&self, row: &Transaction, agent: &Arc<str>) -> Result<(), Error> {
        let place = seller_at(row, agent);
        let Some(task) = self.child(&place, row.id).await? else { return Ok(()) };
        if task.core.is_settled() {
            return Ok(());
        }
        let words = json!({"uumit": {"reason": format!("{} is {}", row.id.tx(), row.status.name())}});
        let cancel = Cancel { task: task.id.to_string(), metadata: Some(Json::from_value(&words)) };
        match self.engine().cancel(&place, cancel).await {
            Ok(_) => Ok(()),
            // The task has just ended.
            Err(fault) if fault.kind == Kind::TaskNotCancelable => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// The scope of the seller's task.
fn seller_at(row: &Transaction, agent: &Arc<str>) -> CallScope {
    let seller = model::Caller {
        tenant: row.tenant.clone(),
        name: row.seller.0.clone(),
        authenticated: true,
        scopes: Arc::default(),
    };
    CallScope::tenant(seller, agent.clone(), DIALECT)
}

fn context_of(id: TransactionId) -> ContextId {
    ContextId(id.tx().into())
}

fn too_large(most: usize) -> String {
    format!("the agent's result is too large to be delivered: it may have {most} bytes")
}

/// Whether a declared mode covers a media type, by the engine's rule.
fn covers(mode: &str, media: &str) -> bool {
    let mode = mode.split(';').next().unwrap_or(mode).trim().to_ascii_lowercase();
    match mode.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => media.split('/').next() == Some(family),
        None => mode == "*" || mode == media || (mode == "text" && media == "text/plain"),
    }
}

/// The name of a part, or a generated one.
fn name_of(part: &Part, before: usize) -> String {
    let named: String = part.filename.as_deref().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    match named.trim() {
        "" => format!("file-{}", before + 1),
        named => named.chars().take(MAX_NAME).collect(),
    }
}

/// A file that is stored elsewhere.
fn elsewhere(part: &Part, before: usize) -> Result<Deliverable, Undeliverable> {
    let drawn = || {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(Fault::internal)?;
        Ok::<Arc<str>, Fault>(crate::service::records::hex(&bytes))
    };
    Ok(Deliverable { deliverable_id: drawn()?, access_id: drawn()?, file_name: name_of(part, before).into() })
}
