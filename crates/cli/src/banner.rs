//! The first screen: config file, address, agents, data, and a command to try. It fits a terminal of 80 columns and
//! 24 lines; the demo's credentials are only in `demo.json` and `rialto demo`.

use std::io::Write;
use std::net::SocketAddr;

use gateway::GatewayVersion;
use gateway::admin::FirstKey;

use crate::plan::Plan;
use crate::store::StoreLocation;

const COLUMNS: usize = 80;
/// Most characters of agents' names to show; the rest is a count.
const NAMES: usize = 170;
/// The variable with the key in the commands shown.
const VARIABLE: &str = "RIALTO_KEY";

/// The base URL for callers on this machine; a wildcard address is shown as loopback.
pub(crate) fn base(plan: &Plan, address: SocketAddr) -> String {
    let scheme = if plan.config.tls.is_some() { "https" } else { "http" };
    if address.ip().is_unspecified() {
        return format!("{scheme}://localhost:{}", address.port());
    }
    format!("{scheme}://{address}")
}

pub(crate) fn print(
    plan: &Plan,
    address: SocketAddr,
    server: &GatewayVersion,
    first_key: Option<&FirstKey>,
    link: Option<&str>,
) {
    let text = screen(plan, address, &names(server), first_key, link);
    // A closed standard output does not stop the server.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// The agents, with the root agent first.
fn names(server: &GatewayVersion) -> Vec<String> {
    let others = server.agents().iter().filter(|agent| *agent != server.default_agent()).map(|agent| agent.to_string());
    std::iter::once(format!("{} (at the root)", server.default_agent())).chain(others).collect()
}

fn screen(
    plan: &Plan,
    address: SocketAddr,
    agents: &[String],
    first_key: Option<&FirstKey>,
    link: Option<&str>,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let from = match &plan.file {
        Some(file) => format!("with the config {}", file.display()),
        None if plan.is_demo() => "the demo: no config file, for this machine only".to_owned(),
        None => "without a config file".to_owned(),
    };
    let base = base(plan, address);
    let mut text = format!("Rialto {version}, {from}\n\n");
    let mut fact = |name: &str, value: &str| {
        for (i, line) in wrap(value, COLUMNS - 11).iter().enumerate() {
            text.push_str(&format!("  {:7}  {line}\n", if i == 0 { name } else { "" }));
        }
    };
    fact("address", &base);
    if let Some(public) = &plan.config.public_url {
        fact("public", public);
    }
    if let Some(token) = link {
        // Good for one sign-in; the browser keeps what follows the `#` to itself.
        fact("console", &format!("{base}/console/#link={token}"));
    }
    fact("agents", &listed(agents));
    if let Some(store) = plan.config.store.as_ref().and_then(StoreLocation::shown) {
        fact("store", &store);
    }
    fact("data", &plan.data.display().to_string());
    fact("docs", "README.md and docs/ of the source; rialto --help");
    if let Some(key) = first_key {
        text.push_str("\nCallers need a key. The first one was made now and is shown only here:\n\n");
        text.push_str(&format!("  export {VARIABLE}={}\n", key.secret));
    }
    text.push_str("\nTry it in another terminal:\n\n");
    text.push_str(&format!("  curl -s {base}/message:send -H 'A2A-Version: 1.0' \\\n"));
    if plan.needs_key() {
        // The shell inserts the key, where the config names its variable.
        let variable = plan.config.auth.keys.first().and_then(|key| key.key.strip_prefix("env:")).unwrap_or(VARIABLE);
        text.push_str(&format!("    -H \"Authorization: Bearer ${variable}\" \\\n"));
    }
    text.push_str("    -H 'Content-Type: application/json' -d '{\"message\":{\"messageId\":\"m1\",\n");
    text.push_str("    \"role\":\"ROLE_USER\",\"parts\":[{\"text\":\"hello\"}]}}'\n");
    if plan.is_demo() {
        text.push_str(&format!("\nThe demo's credentials, and the use of each: rialto demo{}\n", flags(plan)));
    } else if first_key.is_some() {
        text.push_str(&format!("\nMore keys: rialto keys create NAME --tenant default{}\n", flags(plan)));
    }
    text.push('\n');
    text
}

/// The flags with which another command finds the same data.
fn flags(plan: &Plan) -> String {
    match &plan.file {
        Some(file) if file.as_os_str() != crate::command::CONFIG_HERE => format!(" --config {}", file.display()),
        Some(_) => String::new(),
        None if plan.data.as_os_str() == crate::config::DATA_HERE => String::new(),
        None => format!(" --data {}", plan.data.display()),
    }
}

fn listed(agents: &[String]) -> String {
    let mut letters = 0;
    let fits = |agent: &&String| {
        letters += agent.len() + 2;
        letters <= NAMES
    };
    let shown: Vec<&str> = agents.iter().take_while(fits).map(String::as_str).collect();
    match agents.len() - shown.len() {
        0 => format!("{}; each at /a2a/NAME", shown.join(", ")),
        more => format!("{} and {more} more; each at /a2a/NAME", shown.join(", ")),
    }
}

/// Breaks a text between words; a word that is too long gets its own line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= columns);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DataArgs, Serve};
    use crate::config::Config;

    fn plan(yaml: Option<&str>, listen: &str) -> Plan {
        let config = yaml.map(|_| "rialto.yaml".into());
        let whereabouts = DataArgs { config, ..DataArgs::default() };
        let options = Serve { whereabouts, listen: Some(listen.parse().unwrap()), ..Serve::default() };
        Plan::of(&options, Config::parse(yaml.unwrap_or_default()).unwrap(), None).unwrap()
    }

    /// Every form of the first screen, with every line it can have.
    #[test]
    fn the_first_screen_fits_80_columns_and_24_lines() {
        let key = FirstKey { id: "0123456789".into(), secret: format!("rk_0123456789_{}", "x".repeat(44)) };
        let few: Vec<String> = ["echo (at the root)", "scripted", "assistant"].map(str::to_owned).into();
        let many: Vec<String> = (0..200).map(|n| format!("agent-number-{n}")).collect();
        let database = "store: postgres://rialto@a-host-with-a-name.example.com:5432/rialto\npublic_url: https://agents.example.com\n";
        for (plan, first_key, says) in [
            (plan(None, "127.0.0.1:8080"), None, &["the demo", "rialto demo", "/console/#link="][..]),
            (
                plan(None, "0.0.0.0:8080"),
                Some(&key),
                &[
                    "without a config",
                    "export RIALTO_KEY=rk_0123456789_",
                    "keys create",
                    "http://localhost:8080/message:send",
                ],
            ),
            (plan(None, "0.0.0.0:8080"), None, &["Bearer $RIALTO_KEY"]),
            (
                plan(Some(database), "127.0.0.1:65535"),
                None,
                &["with the config rialto.yaml", "store    postgres://", "https://agents.example.com"],
            ),
            (
                plan(
                    Some("auth: { required: true, keys: [{ name: a, tenant: t, key: 'env:ALICE' }] }\n"),
                    "[::1]:8080",
                ),
                None,
                &["Bearer $ALICE", "http://[::1]:8080"],
            ),
        ] {
            let link = plan.exposed().is_none().then_some("0123456789abcdefghijkl");
            for agents in [&few, &many] {
                let text = screen(&plan, plan.listen, agents, first_key, link);
                assert!(text.lines().count() <= 24, "{text}");
                for line in text.lines() {
                    assert!(line.chars().count() <= COLUMNS, "{line:?} in\n{text}");
                }
                for piece in says {
                    assert!(text.contains(piece), "{piece:?} is not in\n{text}");
                }
                let first = text.lines().next().unwrap();
                assert_eq!(first.contains("rialto.yaml"), plan.file.is_some(), "{first}");
            }
        }
        assert!(
            screen(&plan(None, "127.0.0.1:1"), "127.0.0.1:1".parse().unwrap(), &many, None, None)
                .contains("more; each at")
        );
    }
}
