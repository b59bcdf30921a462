//! Roles of the admin API's callers, and the role that each command needs there.

use model::Caller;
use schemars::JsonSchema;
use serde::Serialize;

use super::CoreRequest;
use crate::scopes::{ADMIN, OPERATOR, VIEWER};

/// The right to use the admin API, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Role")]
pub enum ApiRole {
    /// Reads.
    Viewer,
    /// Changes tasks and deliveries, too.
    Operator,
    /// Does everything.
    Admin,
}

impl ApiRole {
    /// The scope that gives the role.
    pub(crate) fn scope(self) -> &'static str {
        match self {
            ApiRole::Viewer => VIEWER,
            ApiRole::Operator => OPERATOR,
            ApiRole::Admin => ADMIN,
        }
    }

    /// The highest role of a caller.
    pub(crate) fn of(caller: &Caller) -> Option<ApiRole> {
        let held = |role: &ApiRole| caller.scopes.iter().any(|scope| scope == role.scope());
        [ApiRole::Admin, ApiRole::Operator, ApiRole::Viewer].into_iter().find(held)
    }
}

/// Who may use a command by way of the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandAccess {
    /// The least role.
    pub role: ApiRole,
    /// It concerns the whole server, so that a caller of one tenant may not use it. Any other command keeps to the
    /// tenant of its [`super::Requester`].
    pub is_about_server: bool,
}

impl CommandAccess {
    /// Within the caller's tenant.
    pub const fn within_tenant(role: ApiRole) -> CommandAccess {
        CommandAccess { role, is_about_server: false }
    }

    pub const fn about_server(role: ApiRole) -> CommandAccess {
        CommandAccess { role, is_about_server: true }
    }
}

/// The access to a command of the server itself; none for one that works on the machine's own files.
pub(super) fn of_core(request: &CoreRequest) -> Option<CommandAccess> {
    Some(match request {
        CoreRequest::TaskList { .. }
        | CoreRequest::TaskShow { .. }
        | CoreRequest::PushList { .. }
        | CoreRequest::Doctor
        | CoreRequest::Health => CommandAccess::within_tenant(ApiRole::Viewer),
        CoreRequest::TaskCancel { .. } | CoreRequest::TaskPurge { .. } | CoreRequest::PushRedeliver { .. } => {
            CommandAccess::within_tenant(ApiRole::Operator)
        }
        CoreRequest::KeysCreate { .. } | CoreRequest::KeysList | CoreRequest::KeysRevoke { .. } => {
            CommandAccess::within_tenant(ApiRole::Admin)
        }
        // The log of a bundle names its tenant.
        CoreRequest::Reload | CoreRequest::TaskImport { .. } => CommandAccess::about_server(ApiRole::Admin),
        CoreRequest::Backup { .. } => return None,
    })
}
