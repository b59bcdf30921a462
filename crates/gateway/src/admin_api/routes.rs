//! The table of routes, from which the handlers, the checks of queries and the OpenAPI document are taken.

use std::borrow::Cow;
use std::sync::OnceLock;

use dialects::framing::query;
use futures_util::future::BoxFuture;
use http::Method;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use web::body::Response;
use web::openapi::{ParamKind, QueryParam, SchemaOf, operation_id, schema_of};
use web::routes::{HeadRule, NoRoute, RouteRow, RouteTable};

use super::access::ApiRole;
use super::problem::ApiProblem;
use super::{
    ApiContext, BODY, agent_checks, agents, bundle, changes, commands, config, deliveries, events, history, keys,
    limits, messages, money, oidc, openapi, playground, policy, receivers, session, tasks, upkeep, wires,
};
use crate::effective_config::EffectiveConfig;
use crate::product::ProductKinds;

/// The answer of a handler.
pub type ApiFuture<'a> = BoxFuture<'a, Result<Response, ApiProblem>>;
pub type ApiHandler = for<'a> fn(&'a ApiContext<'a>) -> ApiFuture<'a>;

/// The longest id or name in a path.
pub const ID: usize = 512;
/// The longest page, and the usual one.
const PAGE: u32 = 200;
pub const USUAL_PAGE: u32 = 50;

/// An answer that is no refusal.
#[derive(Clone, Copy)]
pub enum Gives {
    /// JSON of one type.
    Json(SchemaOf),
    /// The same with status 201.
    Created(SchemaOf),
    /// A redirect of a browser, or a page that says why not.
    Redirect,
    /// The same, or a stream of such events where the request asks for one.
    Events { page: SchemaOf, event: SchemaOf },
    /// A stream of such events.
    Stream { event: SchemaOf },
}

/// A row of the table: an operation of the gateway's own, or of a product.
pub struct ApiRoute {
    verb: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// The least role.
    pub(super) role: ApiRole,
    /// It needs no role: its handler checks what the request has.
    pub(super) is_open: bool,
    /// It concerns the whole server, so that a caller of one tenant may not use it.
    pub(super) is_about_server: bool,
    pub(super) query: &'static [QueryParam],
    /// Its query may have more parameters than those.
    pub(super) is_query_open: bool,
    pub(super) takes: Option<SchemaOf>,
    /// The largest body; none where it may be as large as that of a call to an agent.
    pub(super) body: Option<usize>,
    pub(super) gives: Gives,
    /// Statuses of refusals beside those that every route has.
    pub(super) refuses: &'static [u16],
    pub(super) handler: ApiHandler,
}

impl RouteRow for ApiRoute {
    const HEAD: HeadRule = HeadRule::AfterGet;

    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

impl ApiRoute {
    const fn new(
        verb: &'static str,
        path: &'static str,
        summary: &'static str,
        role: ApiRole,
        gives: Gives,
        handler: ApiHandler,
    ) -> ApiRoute {
        let (query, refuses): (&[QueryParam], &[u16]) = (&[], &[]);
        ApiRoute {
            verb,
            path,
            summary,
            role,
            is_open: false,
            is_about_server: false,
            query,
            is_query_open: false,
            takes: None,
            body: Some(BODY),
            gives,
            refuses,
            handler,
        }
    }

    pub const fn get(path: &'static str, summary: &'static str, gives: Gives, handler: ApiHandler) -> ApiRoute {
        ApiRoute::new("GET", path, summary, ApiRole::Viewer, gives, handler)
    }

    pub const fn post(path: &'static str, summary: &'static str, gives: Gives, handler: ApiHandler) -> ApiRoute {
        ApiRoute::new("POST", path, summary, ApiRole::Operator, gives, handler)
    }

    pub const fn delete(path: &'static str, summary: &'static str, gives: Gives, handler: ApiHandler) -> ApiRoute {
        ApiRoute::new("DELETE", path, summary, ApiRole::Operator, gives, handler)
    }

    pub const fn by_operator(self) -> ApiRoute {
        ApiRoute { role: ApiRole::Operator, ..self }
    }

    pub const fn by_admin(self) -> ApiRoute {
        ApiRoute { role: ApiRole::Admin, ..self }
    }

    pub const fn open(self) -> ApiRoute {
        ApiRoute { is_open: true, ..self }
    }

    pub const fn about_server(self) -> ApiRoute {
        ApiRoute { is_about_server: true, ..self }
    }

    pub const fn query(self, query: &'static [QueryParam]) -> ApiRoute {
        ApiRoute { query, ..self }
    }

    const fn open_query(self) -> ApiRoute {
        ApiRoute { is_query_open: true, ..self }
    }

    pub const fn takes(self, schema: SchemaOf) -> ApiRoute {
        ApiRoute { takes: Some(schema), ..self }
    }

    const fn body_up_to(self, body: usize) -> ApiRoute {
        ApiRoute { body: Some(body), ..self }
    }

    /// Takes a body as large as that of a call to an agent.
    const fn takes_large(self, schema: SchemaOf) -> ApiRoute {
        ApiRoute { takes: Some(schema), body: None, ..self }
    }

    /// Readers may use it, too.
    const fn by_viewer(self) -> ApiRoute {
        ApiRoute { role: ApiRole::Viewer, ..self }
    }

    pub const fn refuses(self, refuses: &'static [u16]) -> ApiRoute {
        ApiRoute { refuses, ..self }
    }

    /// The name of the operation.
    pub fn id(&self) -> String {
        operation_id(self.verb, self.path)
    }

    /// All statuses of refusals.
    pub(super) fn refusals(&self) -> Vec<u16> {
        // A query or path that cannot be read, no credential, no role, too many calls, an error, no store.
        let mut all = vec![400, 401, 403, 429, 500, 503];
        if self.path.contains('{') {
            all.push(404);
        }
        if self.takes.is_some() {
            all.extend([413, 415]);
        }
        all.extend(self.refuses);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// An answer of this type.
pub const fn json<T: JsonSchema>() -> Gives {
    Gives::Json(schema_of::<T>)
}

/// Any JSON object.
pub(super) fn any_object(generator: &mut SchemaGenerator) -> schemars::Schema {
    schema_of::<serde_json::Map<String, Value>>(generator)
}

/// A parameter of a query.
pub const fn param(name: &'static str, description: &'static str, kind: ParamKind) -> QueryParam {
    QueryParam { name, description, kind }
}

/// The length of a page.
pub const fn limit() -> QueryParam {
    let kind = ParamKind::Number { least: 1, most: PAGE, usual: Some(USUAL_PAGE) };
    param("limit", "The most rows of the answer.", kind)
}

const TASKS: &[QueryParam] = &[
    param("tenant", "Only tasks of this tenant.", ParamKind::Text { most: 128 }),
    param("agent", "Only tasks of this agent.", ParamKind::Text { most: 128 }),
    param("state", "Only tasks in this state.", ParamKind::OneOf(tasks::states)),
    param("caller", "Only tasks that a caller of this name opened.", ParamKind::Text { most: 512 }),
    param(
        "q",
        "Only tasks with this text in an id, an alias, a context or the first message, in any case.",
        ParamKind::Text { most: 200 },
    ),
    limit(),
    param("cursor", "The `next` of the page before, with the same filters.", ParamKind::Text { most: 64 }),
];
const TASK: &[QueryParam] = &[param(
    "at",
    "The task as of the event of this number; as it is now without it.",
    ParamKind::Number { least: 1, most: u32::MAX, usual: None },
)];
const BUNDLE: &[QueryParam] = &[param(
    "content",
    "`none` for sizes instead of texts, data and files; `whole` without it.",
    ParamKind::OneOf(bundle::contents),
)];
const EVENTS: &[QueryParam] = &[
    param(
        "after",
        "Only events after the one of this number.",
        ParamKind::Number { least: 0, most: u32::MAX, usual: Some(0) },
    ),
    limit(),
];
const CHANGES: &[QueryParam] = &[
    param("tenant", "Only tasks of this tenant.", ParamKind::Text { most: 128 }),
    param("agent", "Only tasks of this agent.", ParamKind::Text { most: 128 }),
    param("after", "The `next` of the answer or event before.", ParamKind::Text { most: 64 }),
];
const RECEIVER: &[QueryParam] = &[param(
    "after",
    "Only requests after the one of this number.",
    ParamKind::Number { least: 0, most: u32::MAX, usual: Some(0) },
)];
/// The document lists the values: products bring some.
const WIRE: &[QueryParam] =
    &[param("as", "The form, one of `GET /wires`; 1.0 without it.", ParamKind::Text { most: 64 })];
const DELIVERIES: &[QueryParam] = &[
    param("state", "Only deliveries in this state.", ParamKind::OneOf(deliveries::states)),
    param("task", "Only deliveries of this task.", ParamKind::Text { most: ID }),
    limit(),
];
const SIGN_IN: &[QueryParam] =
    &[param("then", "The page of the console to come back to.", ParamKind::Text { most: oidc::THEN })];
const SIGNED_IN: &[QueryParam] = &[
    param("state", "The sign-in.", ParamKind::Text { most: 200 }),
    param("code", "The code for an ID token.", ParamKind::Text { most: 8_000 }),
    param("iss", "The provider, where it names itself.", ParamKind::Text { most: 2_000 }),
    param("error", "Why the provider signed nobody in.", ParamKind::Text { most: 200 }),
];
const AUDIT: &[QueryParam] = &[
    limit(),
    param("before", "The `next` of the page before.", ParamKind::Number { least: 0, most: u32::MAX, usual: None }),
];

/// The task in a form.
pub(super) const WIRE_OF_TASK: &str = "/tasks/{id}/wire";

/// The gateway's own operations.
pub(super) static ROUTES: &[ApiRoute] = &[
    ApiRoute::get("/openapi.json", "This document", Gives::Json(any_object), |context| {
        Box::pin(openapi::show(context))
    }),
    ApiRoute::get("/session", "The caller, its role and what it may do", json::<session::ApiSession>(), |context| {
        Box::pin(session::show(context))
    }),
    ApiRoute::post(
        "/session",
        "Begins a session of a browser with a key or a link; the answer sets its cookie",
        Gives::Created(schema_of::<session::ApiSession>),
        |context| Box::pin(session::begin(context)),
    )
    .open()
    .takes(schema_of::<session::ApiSignIn>),
    ApiRoute::delete(
        "/session",
        "Ends the session of the request's cookie",
        json::<session::ApiSignedOut>(),
        |context| Box::pin(session::end(context)),
    )
    .open(),
    ApiRoute::get("/session/options", "The ways to begin a session", json::<oidc::ApiSignInOptions>(), |context| {
        Box::pin(oidc::options(context))
    })
    .open(),
    ApiRoute::get("/session/oidc", "Sends a browser to the OpenID provider to sign in", Gives::Redirect, |context| {
        Box::pin(oidc::begin(context))
    })
    .open()
    .query(SIGN_IN),
    ApiRoute::get(
        "/session/oidc/callback",
        "The address that the OpenID provider sends a browser back to; begins a session",
        Gives::Redirect,
        |context| Box::pin(oidc::finish(context)),
    )
    .open()
    .query(SIGNED_IN)
    .open_query(),
    ApiRoute::get("/overview", "The state of the server in numbers", json::<upkeep::ApiOverview>(), |context| {
        Box::pin(upkeep::overview(context))
    }),
    ApiRoute::get(
        "/events",
        "Which tasks have changed after a cursor, or with `Accept: text/event-stream` as they change",
        Gives::Events { page: schema_of::<changes::ApiChanges>, event: schema_of::<changes::ApiChanges> },
        |context| Box::pin(changes::show(context)),
    )
    .query(CHANGES),
    ApiRoute::get("/overview/history", "Numbers of the last hour", json::<history::ApiHistory>(), |context| {
        Box::pin(history::show(context))
    })
    .about_server(),
    ApiRoute::get("/limits", "Limits, and what is used of them", json::<limits::ApiUsedLimits>(), |context| {
        Box::pin(limits::show(context))
    })
    .about_server(),
    ApiRoute::get("/tasks", "Tasks, newest first", json::<tasks::ApiTasks>(), |context| Box::pin(tasks::list(context)))
        .query(TASKS),
    ApiRoute::get("/tasks/{id}", "A task with its content and webhooks", json::<tasks::ApiTaskDetail>(), |context| {
        Box::pin(tasks::show(context))
    })
    .query(TASK),
    ApiRoute::delete("/tasks/{id}", "Cancels a task and removes it for good", json::<tasks::ApiPurged>(), |context| {
        Box::pin(tasks::purge(context))
    })
    .refuses(&[409]),
    ApiRoute::post("/tasks/{id}:cancel", "Cancels a task", json::<tasks::ApiCanceled>(), |context| {
        Box::pin(tasks::cancel(context))
    })
    .refuses(&[409]),
    ApiRoute::get(
        "/tasks/{id}/events",
        "The log of a task, or with `Accept: text/event-stream` the same live",
        Gives::Events { page: schema_of::<events::ApiEvents>, event: schema_of::<events::ApiEvent> },
        |context| Box::pin(events::show(context)),
    )
    .query(EVENTS),
    ApiRoute::get(WIRE_OF_TASK, "A task as one of the forms shows it", Gives::Json(any_object), |context| {
        Box::pin(wires::show(context))
    })
    .query(WIRE)
    .refuses(&[413]),
    ApiRoute::get(
        "/tasks/{id}/bundle",
        "A task as a file for a bug report, redacted; `rialto task import` stores a copy elsewhere",
        json::<bundle::ApiBundle>(),
        |context| Box::pin(bundle::show(context)),
    )
    .query(BUNDLE)
    .refuses(&[413]),
    ApiRoute::get(
        "/tasks/{id}/money",
        "What a task and the tasks that it opened cost",
        json::<money::ApiTaskMoney>(),
        |context| Box::pin(money::show(context)),
    ),
    ApiRoute::get("/wires", "The forms in which a task can be shown", json::<wires::ApiWires>(), |context| {
        Box::pin(wires::list(context))
    }),
    ApiRoute::post(
        "/tasks/{id}:answer",
        "Answers a task that waits, in the name of its owner",
        json::<tasks::ApiTaskRow>(),
        |context| Box::pin(messages::answer(context)),
    )
    .takes_large(schema_of::<messages::ApiAnswer>)
    .refuses(&[402, 409]),
    ApiRoute::post(
        "/tasks/{id}/deliveries:redeliver",
        "Delivers the webhooks of a task again",
        json::<deliveries::ApiRedelivered>(),
        |context| Box::pin(deliveries::redeliver(context)),
    )
    .takes(schema_of::<deliveries::ApiRedelivery>),
    ApiRoute::get("/agents", "The agents that are served", json::<agents::ApiAgents>(), |context| {
        Box::pin(agents::list(context))
    }),
    ApiRoute::get("/agents/{name}", "An agent, its access and limits", json::<agents::ApiAgentDetail>(), |context| {
        Box::pin(agents::show(context))
    }),
    ApiRoute::post(
        "/agents/{name}:send",
        "Opens a task of the caller with a message, and returns when it exists",
        json::<tasks::ApiTaskRow>(),
        |context| Box::pin(messages::send(context)),
    )
    .takes_large(schema_of::<messages::ApiMessageToSend>)
    .refuses(&[402]),
    ApiRoute::get(
        "/agents/{name}/cards",
        "The agent's card for readers of each version, with what they may trip over",
        json::<agent_checks::ApiCards>(),
        |context| Box::pin(agent_checks::cards(context)),
    ),
    ApiRoute::get(
        "/agents/{name}/drift",
        "Reads the card of an agent elsewhere again, and compares it with the one that was taken up",
        json::<agent_checks::ApiDrift>(),
        |context| Box::pin(agent_checks::drift(context)),
    )
    .by_operator()
    .about_server(),
    ApiRoute::post(
        "/agents/{name}:test",
        "Sends the agent a harmless message, and answers how it took it",
        json::<agent_checks::ApiAgentTest>(),
        |context| Box::pin(agent_checks::test(context)),
    ),
    ApiRoute::get(
        "/deliveries",
        "Webhooks and their progress, those that were given up first",
        json::<deliveries::ApiDeliveries>(),
        |context| Box::pin(deliveries::list(context)),
    )
    .query(DELIVERIES),
    ApiRoute::get("/keys", "The keys that operators made", json::<keys::ApiKeys>(), |context| {
        Box::pin(keys::list(context))
    })
    .by_admin(),
    ApiRoute::post(
        "/keys",
        "Makes a key; only this answer has its secret",
        Gives::Created(schema_of::<keys::ApiNewKey>),
        |context| Box::pin(keys::create(context)),
    )
    .by_admin()
    .takes(schema_of::<keys::ApiKeyWish>),
    ApiRoute::delete("/keys/{id}", "Revokes a key", json::<keys::ApiMadeKey>(), |context| {
        Box::pin(keys::revoke(context))
    })
    .by_admin(),
    ApiRoute::post(
        "/policy:check",
        "Whether a caller may make a call, and the scope or rule that decides",
        json::<policy::ApiDecision>(),
        |context| Box::pin(policy::check(context)),
    )
    .takes(schema_of::<policy::ApiQuestion>),
    ApiRoute::get("/health", "The report of `rialto doctor`", json::<upkeep::ApiHealth>(), |context| {
        Box::pin(upkeep::health(context))
    }),
    ApiRoute::get("/replicas", "The processes that share the store", json::<upkeep::ApiReplicas>(), |context| {
        Box::pin(upkeep::replicas(context))
    }),
    ApiRoute::get("/audit", "Lines of the audit log, newest first", json::<upkeep::ApiAudit>(), |context| {
        Box::pin(upkeep::audit(context))
    })
    .by_admin()
    .query(AUDIT),
    ApiRoute::get(
        "/config",
        "The config in force, every value with its source",
        json::<EffectiveConfig>(),
        |context| Box::pin(config::show(context)),
    )
    .by_admin()
    .about_server(),
    ApiRoute::post("/config:reload", "Reads the config again", json::<upkeep::ApiReload>(), |context| {
        Box::pin(upkeep::reload(context))
    })
    .by_admin()
    .about_server()
    .refuses(&[422]),
    ApiRoute::post(
        "/commands",
        "Performs a command of the `rialto` program, as the admin socket does; each needs a role of its own",
        Gives::Json(any_object),
        |context| Box::pin(commands::perform(context)),
    )
    .by_viewer()
    .takes_large(schema_of::<commands::ApiCommand>)
    .refuses(&[404, 409]),
    ApiRoute::post(
        "/playground:call",
        "Makes a request to another server, through the policy for outbound addresses, and sends its answer on",
        Gives::Stream { event: schema_of::<playground::ApiCallEvent> },
        |context| Box::pin(playground::call(context)),
    )
    .by_admin()
    .about_server()
    .takes(schema_of::<playground::ApiPlaygroundCall>)
    .body_up_to(playground::BODY)
    .refuses(&[502]),
    ApiRoute::post(
        "/receivers",
        "Makes an address for webhooks that notes the requests it gets, for an hour",
        Gives::Created(schema_of::<receivers::ApiReceiver>),
        |context| Box::pin(receivers::make(context)),
    ),
    ApiRoute::get(
        "/receivers/{id}",
        "The requests that came to a receiver, or with `Accept: text/event-stream` the same live",
        Gives::Events { page: schema_of::<receivers::ApiReceptions>, event: schema_of::<receivers::ApiReceived> },
        |context| Box::pin(receivers::show(context)),
    )
    .by_operator()
    .query(RECEIVER),
    ApiRoute::delete("/receivers/{id}", "Ends a receiver", json::<receivers::ApiReceiver>(), |context| {
        Box::pin(receivers::remove(context))
    }),
];

/// The rows of a build with these products.
pub fn all_routes(products: ProductKinds<'_>) -> Vec<&'static ApiRoute> {
    ROUTES.iter().chain(products.iter().flat_map(|product| product.api())).collect()
}

/// The operations of this build: the gateway's own, and those of its products.
pub(crate) struct ApiTable {
    pub(super) rows: Vec<&'static ApiRoute>,
    table: RouteTable<ApiRoute>,
    /// The OpenAPI document without the server's address.
    document: OnceLock<Value>,
}

impl ApiTable {
    pub(crate) fn new(products: ProductKinds<'_>) -> ApiTable {
        let rows = all_routes(products);
        ApiTable { table: RouteTable::new(rows.iter().copied()), rows, document: OnceLock::new() }
    }

    pub(super) fn document(&self) -> &Value {
        self.document.get_or_init(|| openapi::document(&self.rows))
    }

    /// The route of a request, and the parameters of its path.
    pub(super) fn find<'a>(
        &self,
        verb: &Method,
        path: &'a str,
    ) -> Result<(&'static ApiRoute, Vec<Cow<'a, str>>), ApiProblem> {
        let (route, params) = self.table.find(verb, path).map_err(|error| match error {
            NoRoute::Path => ApiProblem::nothing_at(path),
            NoRoute::Method { allow } => ApiProblem::method(allow),
        })?;
        // Ids are not longer and have no control characters.
        if params.iter().any(|one| one.len() > ID || one.chars().any(char::is_control)) {
            return Err(ApiProblem::nothing_at(path));
        }
        Ok((route, params))
    }
}

/// Parameters of a query, decoded.
type QueryPairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Reads the route's parameters; any other is refused.
pub(super) fn read_query<'a>(route: &ApiRoute, text: Option<&'a str>) -> Result<QueryPairs<'a>, ApiProblem> {
    let mut read: QueryPairs<'a> = Vec::new();
    for pair in query::pairs(text.unwrap_or_default()) {
        let (name, value) = pair?;
        let Some(param) = route.query.iter().find(|param| param.name == name) else {
            if route.is_query_open {
                continue;
            }
            let known: Vec<&str> = route.query.iter().map(|param| param.name).collect();
            let advice = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name: String = name.chars().take(64).collect();
            return Err(ApiProblem::field(name, format!("is no parameter here; the parameters are: {advice}")));
        };
        if read.iter().any(|(known, _)| *known == param.name) {
            return Err(ApiProblem::field(param.name, "is in the query more than once"));
        }
        param.check(&value).map_err(|says| ApiProblem::field(param.name, says))?;
        read.push((param.name.into(), value));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use web::routes::overlap;

    use super::*;

    #[test]
    fn no_two_routes_claim_one_path_and_ids_differ() {
        let paths: HashSet<&str> = ROUTES.iter().map(|route| route.path).collect();
        for a in &paths {
            for b in paths.iter().filter(|b| *b != a) {
                assert!(!overlap(a, b), "{a} {b}");
            }
        }
        let ids: HashSet<String> = ROUTES.iter().map(ApiRoute::id).collect();
        assert_eq!(ids.len(), ROUTES.len());
    }

    #[test]
    fn a_viewer_changes_nothing_and_only_an_admin_sees_keys_config_and_audit() {
        for route in ROUTES {
            let guarded =
                ["/keys", "/config", "/audit", "/playground"].iter().any(|start| route.path.starts_with(start));
            assert_eq!(route.role == ApiRole::Admin, guarded, "{}", route.path);
            // Each command has its own role.
            if route.verb != "GET" && !route.is_open && route.path != "/commands" {
                assert!(route.role >= ApiRole::Operator, "{}", route.path);
            }
        }
    }

    #[test]
    fn an_unknown_a_repeated_and_a_wrong_parameter_are_refused_by_name() {
        let table = ApiTable::new(&[]);
        let (route, _) = table.find(&Method::GET, "/tasks").unwrap();
        for (query, field) in [
            ("limits=1", "limits"),
            ("limit=1&limit=2", "limit"),
            ("limit=201", "limit"),
            ("state=done", "state"),
            ("q=", "q"),
            ("agent=%ff", "agent"),
        ] {
            let problem = read_query(route, Some(query)).unwrap_err();
            assert!(format!("{problem:?}").contains(&format!("field: Some({field:?})")), "{query}: {problem:?}");
        }
        assert_eq!(read_query(route, Some("limit=200&q=a%20b")).unwrap().len(), 2);
    }
}
