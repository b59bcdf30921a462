//! One task in every wire form of this build: the versions of A2A, the text of its messages over gRPC, and the forms that
//! products bring.

use std::sync::Arc;

use dialects::wire::{JsonWire, TaskView};
use dialects::{PROTO_WIRES, ProtoWire, a2a_v0_1, a2a_v0_3, a2a_v1};
use engine::{Answers, owners_scope};
use model::{Fault, Task};
use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::problem::ApiProblem;
use super::tasks::{read, respond};
use super::{ApiContext, ok};
use crate::fronts;
use crate::product::ProductKind;

/// The versions of A2A over JSON: the name here, the wire, and the dialects of tasks that are opened in it.
const VERSIONS: [(&str, &str, &[&str]); 5] = [
    ("1.0", a2a_v1::NAME, &[a2a_v1::NAME]),
    ("0.3", a2a_v0_3::NAME, &[a2a_v0_3::NAME]),
    ("0.3-rest", a2a_v0_3::REST_NAME, &[a2a_v0_3::REST_NAME]),
    ("0.2", a2a_v0_3::NAME, &[]),
    ("0.1", a2a_v0_1::NAME, &[a2a_v0_1::NAME]),
];

/// A form in which a task can be shown.
struct WireForm {
    name: String,
    title: String,
    dialects: Vec<&'static str>,
    wire: FormWire,
}

#[derive(Clone, Copy)]
enum FormWire {
    Json(&'static dyn JsonWire),
    Proto(&'static dyn ProtoWire),
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WireKind")]
enum ApiWireKind {
    Json,
    Text,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Wire")]
pub(super) struct ApiWire {
    /// The value of `as`.
    name: String,
    title: String,
    /// `json`, or `text` for `{"text": TEXT}`.
    kind: ApiWireKind,
    /// Its own tasks: those that say that they were opened in one of these dialects.
    dialects: Vec<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Wires")]
pub(super) struct ApiWires {
    wires: Vec<ApiWire>,
}

/// The text of a message of gRPC.
#[derive(Serialize)]
struct MessageText {
    text: String,
}

/// Every form, those of A2A first.
fn forms(products: &[&'static dyn ProductKind]) -> Vec<WireForm> {
    let versions = VERSIONS.iter().filter_map(|(name, wire, dialects)| {
        let (name, dialects) = ((*name).to_owned(), dialects.to_vec());
        let title = match name.strip_suffix("-rest") {
            Some(version) => format!("A2A {version} over HTTP+JSON"),
            None => format!("A2A {name}"),
        };
        Some(WireForm { name, title, dialects, wire: FormWire::Json(dialects::wire(wire)?) })
    });
    let protos = PROTO_WIRES.iter().map(|wire| {
        let (major, minor) = wire.version();
        let name = if (major, minor) == (1, 0) { "grpc".to_owned() } else { format!("grpc-{major}.{minor}") };
        let title = format!("A2A {major}.{minor} over gRPC");
        WireForm { name, title, dialects: vec![wire.name()], wire: FormWire::Proto(*wire) }
    });
    let products = products.iter().flat_map(|product| product.wires()).map(|wire| {
        let name = wire.name();
        WireForm { name: name.to_owned(), title: name.to_owned(), dialects: vec![name], wire: FormWire::Json(*wire) }
    });
    versions.chain(protos).chain(products).collect()
}

/// The names of all forms.
pub(super) fn names(products: &[&'static dyn ProductKind]) -> Vec<String> {
    forms(products).into_iter().map(|form| form.name).collect()
}

pub(super) async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let wires = forms(context.door.products).into_iter().map(|WireForm { name, title, dialects, wire }| {
        let kind = match wire {
            FormWire::Json(_) => ApiWireKind::Json,
            FormWire::Proto(_) => ApiWireKind::Text,
        };
        ApiWire { name, title, kind, dialects }
    });
    ok(&ApiWires { wires: wires.collect() })
}

/// The task as its owner gets it in a form, by the task's own id.
pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let products = context.door.products;
    let named = context.http.query_param("as").unwrap_or(a2a_v1::VERSION);
    let form = forms(products).into_iter().find(|form| form.name == named);
    let form = form.ok_or_else(|| ApiProblem::field("as", format!("must be one of {}", names(products).join(", "))))?;
    let task = read(context).await?;
    match form.wire {
        FormWire::Json(wire) => in_json(context, task, wire).await,
        FormWire::Proto(wire) => in_text(context, &task, wire).await,
    }
}

async fn in_json(
    context: &ApiContext<'_>,
    task: Arc<Task>,
    wire: &'static dyn JsonWire,
) -> Result<Response, ApiProblem> {
    let facts = wire.facts();
    let task = match (facts.session_history, facts.answers_in_history) {
        (false, _) => task,
        (true, in_history) => {
            let answers = if in_history { Answers::InHistory } else { Answers::Apart };
            let place = owners_scope(&task, wire.name());
            context.server.engine.with_session(&place, task, answers).await?
        }
    };
    let shown = facts.threaded_id.then(|| fronts::threaded(&task.context, task.id));
    let mut response = respond(context, &task, |w| wire.task(w, &task, &TaskView::WHOLE, shown.as_deref())).await?;
    fronts::sign(&mut response, wire);
    Ok(response)
}

async fn in_text(context: &ApiContext<'_>, task: &Task, wire: &'static dyn ProtoWire) -> Result<Response, ApiProblem> {
    let text = fronts::grpc::task_text(context.server, context.http.head, wire, task).await?;
    let body = serde_json::to_vec(&MessageText { text }).map_err(Fault::internal)?;
    let mut response = context.counted_json(body)?;
    fronts::sign(&mut response, wire);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_form_of_a2a_has_a_name_and_the_dialects_of_its_tasks_are_its_own() {
        let forms = forms(&[]);
        let names: BTreeSet<&str> = forms.iter().map(|form| form.name.as_str()).collect();
        assert_eq!(names, ["0.1", "0.2", "0.3", "0.3-rest", "1.0", "grpc", "grpc-0.3"].into());
        let dialects: Vec<&str> = forms.iter().flat_map(|form| form.dialects.iter().copied()).collect();
        // A task is never opened in the form of requests that may be of either of two generations.
        let opened: BTreeSet<&str> =
            dialects::codecs().map(dialects::Codec::name).filter(|name| *name != dialects::a2a_v0::NAME).collect();
        assert_eq!(dialects.iter().copied().collect::<BTreeSet<_>>(), opened);
        assert_eq!(dialects.len(), opened.len());
    }
}
