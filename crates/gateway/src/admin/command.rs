//! Commands at the admin socket: those of the server itself ([`CoreRequest`]) and those of products ([`AdminCommand`]).
//! A line is a JSON object; its member `do` names the command.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use model::Fault;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::role::{self, CommandAccess};
use super::{AdminContext, CoreRequest};
use crate::product::ProductKind;

/// A product's command.
pub struct AdminCommand {
    /// The value of `do`.
    pub name: &'static str,
    /// Whether these arguments create data where there was none: such a command runs before the first start.
    pub creates_data: fn(&Value) -> bool,
    /// Whether it writes to the audit log.
    pub is_audited: bool,
    /// Whether it reads or writes secrets that are encrypted in the store.
    pub has_secrets: bool,
    /// Who may use it with these arguments by way of the admin API.
    pub access: fn(&Value) -> CommandAccess,
    pub perform: for<'a> fn(&'a AdminContext<'a>, Value) -> BoxFuture<'a, Result<Value, Fault>>,
}

/// A command with its arguments.
#[derive(Clone)]
pub enum AdminRequest {
    Core(CoreRequest),
    /// The arguments are the line's members without `do`.
    Product(&'static AdminCommand, Value),
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(rename = "do", borrow)]
    name: Cow<'a, str>,
}

impl AdminRequest {
    pub(crate) fn read(line: &str, products: &[&'static dyn ProductKind]) -> serde_json::Result<AdminRequest> {
        let named: Named<'_> = serde_json::from_str(line)?;
        let command = products.iter().flat_map(|product| product.admin()).find(|command| command.name == named.name);
        let Some(command) = command else { return serde_json::from_str(line).map(AdminRequest::Core) };
        let mut arguments: Map<String, Value> = serde_json::from_str(line)?;
        arguments.remove("do");
        Ok(AdminRequest::Product(command, Value::Object(arguments)))
    }

    /// The line for the socket.
    pub fn line(&self) -> serde_json::Result<String> {
        match self {
            AdminRequest::Core(request) => serde_json::to_string(request),
            AdminRequest::Product(command, arguments) => {
                let mut members = arguments.as_object().cloned().unwrap_or_default();
                members.insert("do".into(), command.name.into());
                serde_json::to_string(&members)
            }
        }
    }

    /// The name of the command and, for a product's, of its operation: without arguments, which may be secret.
    pub fn name(&self) -> String {
        match self {
            AdminRequest::Core(request) => request.name().to_owned(),
            AdminRequest::Product(command, arguments) => match arguments["wish"]["what"].as_str() {
                Some(what) => format!("{} {what}", command.name),
                None => command.name.to_owned(),
            },
        }
    }

    /// Who may use it by way of the admin API; none, if it is for the machine alone.
    pub(crate) fn access(&self) -> Option<CommandAccess> {
        match self {
            AdminRequest::Core(request) => role::of_core(request),
            AdminRequest::Product(command, arguments) => Some((command.access)(arguments)),
        }
    }

    /// Whether it creates data where there was none.
    pub fn creates_data(&self) -> bool {
        match self {
            AdminRequest::Core(request) => {
                matches!(request, CoreRequest::KeysCreate { .. } | CoreRequest::TaskImport { .. })
            }
            AdminRequest::Product(command, arguments) => (command.creates_data)(arguments),
        }
    }

    /// Whether it reads or writes secrets that are encrypted in the store.
    pub fn has_secrets(&self) -> bool {
        match self {
            AdminRequest::Core(_) => false,
            AdminRequest::Product(command, _) => command.has_secrets,
        }
    }

    /// Whether it writes to the audit log.
    pub fn is_audited(&self) -> bool {
        match self {
            AdminRequest::Core(request) => {
                matches!(request, CoreRequest::KeysCreate { .. } | CoreRequest::KeysRevoke { .. })
            }
            AdminRequest::Product(command, _) => command.is_audited,
        }
    }
}

impl From<CoreRequest> for AdminRequest {
    fn from(request: CoreRequest) -> AdminRequest {
        AdminRequest::Core(request)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::product::{Prepared, Setup};

    struct Bakery;

    static COMMANDS: [AdminCommand; 1] = [AdminCommand {
        name: "bakery",
        creates_data: |arguments| arguments["wish"]["what"] == "open",
        is_audited: true,
        has_secrets: true,
        access: |_| CommandAccess::about_server(role::ApiRole::Admin),
        perform: |_, arguments| async move { Ok(arguments) }.boxed(),
    }];

    impl ProductKind for Bakery {
        fn name(&self) -> &'static str {
            "bakery"
        }

        fn prepare(&self, _setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
            Ok(None)
        }

        fn admin(&self) -> &'static [AdminCommand] {
            &COMMANDS
        }
    }

    fn read(line: &str) -> Result<AdminRequest, String> {
        AdminRequest::read(line, &[&Bakery]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_product_s_line_reaches_its_command_and_only_the_names_are_logged() {
        let line = r#"{"do":"bakery","wish":{"what":"open","password":"hunter2"}}"#;
        let request = read(line).unwrap();
        assert_eq!(request.name(), "bakery open");
        assert!(request.creates_data() && request.is_audited() && request.has_secrets());
        let AdminRequest::Product(_, arguments) = &request else { panic!("a command of the server") };
        assert_eq!(arguments, &json!({ "wish": { "what": "open", "password": "hunter2" } }));
        assert_eq!(serde_json::from_str::<Value>(&request.line().unwrap()).unwrap()["do"], "bakery");
        assert_eq!(read(r#"{"do":"bakery"}"#).unwrap().name(), "bakery");
    }

    #[test]
    fn the_server_s_own_lines_are_read_as_before() {
        let request = read(r#"{"do":"keys_revoke","id":"k1"}"#).unwrap();
        assert_eq!(
            (request.name().as_str(), request.is_audited(), request.creates_data()),
            ("keys_revoke", true, false)
        );
        assert_eq!(request.line().unwrap(), r#"{"do":"keys_revoke","id":"k1"}"#);
        for wrong in [r#"{"do":"brewery"}"#, "{}", "[]", r#"{"do":"keys_revoke","id":"a","more":1}"#, r#"{"do":7}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
