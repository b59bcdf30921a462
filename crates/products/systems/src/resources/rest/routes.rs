//! The routes of the REST endpoints below `/v1`: path, access and handler of each. `/v1/agents/{name}/a2a` and cards are
//! routes of the product.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::LazyLock;

use http::Method;
use web::body::Response;
use web::routes::{HeadRule, NoRoute, RouteRow, RouteTable};

use super::error::Error;
use super::{ResourcesContext, approvals, tasks, watch};
use crate::resources::ResourceKind::{Agent, AgentSystem};

/// The access that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceAccess {
    Read,
    /// To start runs and to decide approvals.
    Run,
    /// To change resources.
    Change,
}

type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + 'a>>;

pub(super) struct ResourceRoute {
    verb: &'static str,
    path: &'static str,
    pub(super) access: ResourceAccess,
    pub(super) handler: for<'a> fn(&'a ResourcesContext<'a>) -> HandlerFuture<'a>,
}

impl RouteRow for ResourceRoute {
    const HEAD: HeadRule = HeadRule::AfterGet;

    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

macro_rules! routes {
    ($context:ident; $($verb:ident $path:literal $access:ident => $answer:expr;)+) => {
        &[$(ResourceRoute {
            verb: stringify!($verb),
            path: $path,
            access: ResourceAccess::$access,
            handler: |$context| Box::pin($answer),
        }),+]
    };
}

static ROUTES: &[ResourceRoute] = routes! {
    context;
    GET "/agents" Read => context.list(Agent);
    POST "/agents" Change => context.create(Agent);
    GET "/agents/watch" Read => watch::resources(context, Agent);
    GET "/agents/{name}" Read => context.get(Agent);
    PUT "/agents/{name}" Change => context.replace(Agent);
    DELETE "/agents/{name}" Change => context.delete(Agent);
    GET "/agents/{name}/status" Read => context.get(Agent);
    GET "/agent-systems" Read => context.list(AgentSystem);
    POST "/agent-systems" Change => context.create(AgentSystem);
    GET "/agent-systems/watch" Read => watch::resources(context, AgentSystem);
    GET "/agent-systems/{name}" Read => context.get(AgentSystem);
    PUT "/agent-systems/{name}" Change => context.replace(AgentSystem);
    DELETE "/agent-systems/{name}" Change => context.delete(AgentSystem);
    GET "/agent-systems/{name}/status" Read => context.get(AgentSystem);
    GET "/tasks" Read => tasks::list(context);
    POST "/tasks" Run => tasks::create(context);
    GET "/tasks/watch" Read => tasks::watch(context);
    GET "/tasks/{name}" Read => tasks::get(context);
    DELETE "/tasks/{name}" Run => tasks::delete(context);
    GET "/tasks/{name}/status" Read => tasks::get(context);
    GET "/tasks/{name}/messages" Read => tasks::list_messages(context);
    GET "/tasks/{name}/logs" Read => tasks::list_logs(context);
    GET "/tool-approvals" Read => approvals::list(context);
    GET "/tool-approvals/{name}" Read => approvals::get(context);
    POST "/tool-approvals/{name}/approve" Run => approvals::decide(context, true);
    POST "/tool-approvals/{name}/deny" Run => approvals::decide(context, false);
};

static TABLE: LazyLock<RouteTable<ResourceRoute>> = LazyLock::new(|| RouteTable::new(ROUTES));

/// Finds the route of a request, and the parameters of its path.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static ResourceRoute, Vec<Cow<'a, str>>), Error> {
    TABLE.find(verb, path).map_err(|error| match error {
        NoRoute::Path => Error::missing("there is nothing at this address"),
        NoRoute::Method { allow } => Error::method(allow),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_a_path_are_named_with_head_behind_get() {
        for (path, allow) in [
            ("/agents", "GET, HEAD, POST"),
            ("/agent-systems/watch", "GET, HEAD"),
            ("/agents/upper", "GET, HEAD, PUT, DELETE"),
            ("/agents/upper/status", "GET, HEAD"),
            ("/tasks", "GET, HEAD, POST"),
            ("/tasks/watch", "GET, HEAD"),
            ("/tasks/a%20b", "GET, HEAD, DELETE"),
            ("/tasks/a/logs", "GET, HEAD"),
            ("/tool-approvals", "GET, HEAD"),
            ("/tool-approvals/a/deny", "POST"),
        ] {
            let error = find(&Method::PATCH, path).err().unwrap();
            assert_eq!(error.message, format!("this address answers to {allow} only"), "{path}");
        }
        for path in ["/agents/a/b", "/agents/a/status/x", "/tool-approvals/a/b", "/tasks/a/b"] {
            assert_eq!(find(&Method::GET, path).err().unwrap().message, "there is nothing at this address", "{path}");
        }
    }
}
