//! Assistants from the config to their service.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gateway::GatewayVersion;
use gateway::product::{Demo, Prepared, ProductHost, ProductService, Setup};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::AssistantsService;
use crate::langgraph::LangGraphProfile;

/// The key of the section, in the config and in the demo's file.
const SECTION: &str = "langgraph";

/// How LangSmith's endpoint behaves.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Langgraph {
    /// `documented` (default): as the product's page says; `current`: as its newer servers do.
    pub profile: Option<LanggraphProfile>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LanggraphProfile {
    #[default]
    Documented,
    Current,
}

impl From<LanggraphProfile> for LangGraphProfile {
    fn from(profile: LanggraphProfile) -> Self {
        match profile {
            LanggraphProfile::Documented => Self::Documented,
            LanggraphProfile::Current => Self::Current,
        }
    }
}

/// Assistants have an endpoint of their own in the demo and where the config asks for it.
pub(crate) fn prepare(setup: &Setup<'_>) -> Option<Box<dyn Prepared>> {
    let wanted = setup.section::<Langgraph>(SECTION).map(|wanted| wanted.profile.unwrap_or_default().into());
    let profile = wanted.or(setup.is_demo.then_some(LangGraphProfile::Documented))?;
    Some(Box::new(PreparedAssistants { profile }))
}

struct PreparedAssistants {
    profile: LangGraphProfile,
}

impl Prepared for PreparedAssistants {
    fn open<'a>(&'a self, _host: ProductHost<'a>) -> BoxFuture<'a, anyhow::Result<Option<Arc<dyn ProductService>>>> {
        let service = Arc::new(AssistantsService::new(self.profile)) as Arc<dyn ProductService>;
        Box::pin(std::future::ready(Ok(Some(service))))
    }
}

/// The demo's assistants, by the members of its section.
const ASSISTANTS: [(&str, &str); 3] =
    [("assistant_id", "assistant"), ("interrupt_assistant_id", "interrupt"), ("parallel_assistant_id", "parallel")];

impl Demo for AssistantsService {
    fn name(&self) -> &'static str {
        SECTION
    }

    fn section<'a>(&'a self, server: &'a GatewayVersion) -> BoxFuture<'a, anyhow::Result<Map<String, Value>>> {
        let id = |(member, agent): (&str, &str)| {
            let id = server.mounts.id_of(agent)?;
            Some((member.to_owned(), Value::from(id.to_string())))
        };
        let section = ASSISTANTS.into_iter().filter_map(id).collect();
        Box::pin(std::future::ready(Ok(section)))
    }

    fn open<'a>(&'a self, _all: &'a Map<String, Value>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
