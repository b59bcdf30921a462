//! Push configs in the older forms: nested in an object that names the task, with a list of schemes of which the first
//! counts.

use model::{Fault, PushConfig};

use super::decode::PreV1Decoder;
use super::{PreV1Form, shapes};
use crate::framing::fields::{header_safe, optional_id};
use crate::framing::json::Writer;
use crate::framing::shape::Text;

impl PreV1Decoder<'_> {
    pub(crate) fn push_config(&self, shape: shapes::PushConfig<'_>) -> Result<PushConfig, Fault> {
        let id = optional_id(shape.id, "id", self.limits)?;
        let Some(url) = shape.url.filter(|url| !url.0.is_empty()) else {
            return Err(Fault::params("url", "url is missing"));
        };
        let (scheme, credentials) = match shape.authentication {
            None => (None, None),
            Some(authentication) => {
                let first = authentication.schemes.and_then(|schemes| schemes.0.into_iter().next());
                let scheme = first.or(authentication.scheme).filter(|scheme| !scheme.0.is_empty());
                // Credentials without a scheme cannot be sent.
                let credentials = authentication.credentials.filter(|text| scheme.is_some() && !text.0.is_empty());
                (scheme, credentials)
            }
        };
        let safe = |text: Option<Text<'_>>, field| text.map(|text| header_safe(text, field)).transpose();
        Ok(PushConfig {
            task: None,
            id,
            url: header_safe(url, "url")?,
            token: safe(shape.token.filter(|token| !token.0.is_empty()), "token")?,
            scheme: safe(scheme, "authentication.schemes")?,
            credentials: safe(credentials, "authentication.credentials")?,
        })
    }
}

/// A config with its task.
pub(crate) fn config(w: &mut Writer, form: PreV1Form, config: &PushConfig) {
    let task = config.task.as_deref().unwrap_or_default();
    let id = config.id.as_deref();
    w.begin_object();
    match form {
        PreV1Form::Kind | PreV1Form::Both => w.key("taskId").string(task),
        PreV1Form::Proto => {
            w.key("name").display(format_args!("tasks/{task}/pushNotificationConfigs/{}", id.unwrap_or_default()));
        }
        PreV1Form::Type => w.key("id").string(task),
    }
    bare(w.key("pushNotificationConfig"), form, config);
    w.end_object();
}

/// A config alone.
pub(crate) fn bare(w: &mut Writer, form: PreV1Form, config: &PushConfig) {
    w.begin_object();
    if form.has_ids() {
        w.optional("id", config.id.as_deref());
    }
    w.key("url").string(&config.url);
    w.optional("token", config.token.as_deref());
    if let Some(scheme) = &config.scheme {
        w.key("authentication").begin_object();
        w.key("schemes").begin_array();
        w.string(scheme);
        w.end_array();
        w.optional("credentials", config.credentials.as_deref());
        w.end_object();
    }
    w.end_object();
}

/// All configs of a task: a bare array, but for the proto.
pub(crate) fn list(w: &mut Writer, form: PreV1Form, configs: &[PushConfig], next_page_token: &str) {
    if form.is_proto() {
        w.begin_object();
        w.key("configs");
    }
    w.begin_array();
    for one in configs {
        config(w, form, one);
    }
    w.end_array();
    if form.is_proto() {
        w.optional("nextPageToken", Some(next_page_token));
        w.end_object();
    }
}

/// The answer to a delete. The first generation has none: there a config is cleared by setting it to null.
pub(crate) fn deleted(w: &mut Writer, form: PreV1Form, task: &str) {
    match form {
        PreV1Form::Kind | PreV1Form::Both => w.null(),
        PreV1Form::Proto => {
            w.begin_object();
            w.end_object();
        }
        PreV1Form::Type => {
            w.begin_object();
            w.key("id").string(task);
            w.key("pushNotificationConfig").null();
            w.end_object();
        }
    }
}
