//! A seal for tests: a text can be opened only under the name it was sealed with.

use std::sync::Arc;

use bytes::Bytes;
use model::ports::Future;
use model::ports::webhook::{WebhookDetail, WebhookOutcome, WebhookRequest, WebhookSender};
use model::{Fault, PushConfig, PushSpec, TaskId};

pub(crate) struct Seal;

/// Not readable as stored, which is enough for a test.
fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0xa5).collect()
}

impl WebhookSender for Seal {
    fn check(&self, _: &PushConfig) -> Result<(), Fault> {
        Ok(())
    }
    fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault> {
        Ok(turned(&serde_json::to_vec(&(task.0.to_string(), spec)).unwrap()).into())
    }
    fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault> {
        let (of, spec): (String, PushSpec) = serde_json::from_slice(&turned(sealed)).map_err(Fault::internal)?;
        if of == task.0.to_string() { Ok(spec) } else { Err(Fault::internal("sealed for another")) }
    }
    fn telling(&self, _: &str) -> WebhookDetail {
        WebhookDetail::States
    }
    fn endpoint(&self, spec: &PushSpec) -> Arc<str> {
        spec.url.as_str().into()
    }
    fn deliver(&self, _: WebhookRequest) -> Future<'static, WebhookOutcome> {
        Box::pin(std::future::ready(WebhookOutcome::Untold))
    }
}
