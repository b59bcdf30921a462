//! A running server on another machine, asked by its admin API: each command is the same object as at the admin socket, and
//! so is the answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use gateway::admin::AdminRequest;
use serde_json::Value;

use crate::command::{DataArgs, config_here};
use crate::config::secret;

/// The address of commands, below that of the server.
const COMMANDS: &str = "/api/admin/v1/commands";
/// The time for a connection, and the longest silence: a check of a large journal takes its time.
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(300);
/// The largest answer.
const ANSWER: usize = 64 << 20;

/// The heading of these options in the help.
const FAR: &str = "A server on another machine";

/// The running server to ask instead of the one on the data folder.
#[derive(Args, Clone, Default)]
pub(crate) struct ServerArgs {
    /// Its address, such as https://agents.example.com: the command is done there by the admin API [env: RIALTO_SERVER]
    #[arg(long, value_name = "URL", help_heading = FAR, conflicts_with_all = ["data", "store"])]
    pub(crate) server: Option<String>,
    /// A key or token with a role there: env:NAME, file:PATH, or the key itself, which others on this machine may see [env: RIALTO_KEY]
    #[arg(long, value_name = "KEY", help_heading = FAR, conflicts_with = "key_file")]
    pub(crate) key: Option<String>,
    /// The file with that key
    #[arg(long, value_name = "FILE", help_heading = FAR)]
    pub(crate) key_file: Option<PathBuf>,
    /// The certificate of the authority that the server's is from (PEM) [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", help_heading = FAR)]
    pub(crate) ca: Option<PathBuf>,
}

/// The place where an operator's command is done: the data, or a server elsewhere.
#[derive(Args, Clone, Default)]
pub(crate) struct OperatorArgs {
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
    #[command(flatten)]
    pub(crate) far: ServerArgs,
}

impl OperatorArgs {
    /// The server elsewhere, if one is named. The environment's is meant only where no data is named.
    pub(crate) fn server(&self) -> anyhow::Result<Option<RemoteServer>> {
        let DataArgs { config, data, store } = &self.whereabouts;
        let is_here = data.is_some() || store.is_some() || config.as_deref() != config_here().map(Path::new);
        let url = match &self.far.server {
            Some(url) => Some(url.clone()),
            None if is_here => None,
            None => std::env::var("RIALTO_SERVER").ok().filter(|url| !url.is_empty()),
        };
        url.map(|url| RemoteServer::new(&url, &self.far)).transpose()
    }
}

impl ServerArgs {
    /// The key or token, if there is one.
    pub(crate) fn secret(&self) -> anyhow::Result<Option<String>> {
        let written = match (&self.key, &self.key_file) {
            (Some(key), _) => Some(key.clone()),
            (None, Some(file)) => return secret(&format!("file:{}", file.display())).map(Some),
            (None, None) => std::env::var("RIALTO_KEY").ok().filter(|key| !key.is_empty()),
        };
        match written {
            Some(key) if key.starts_with("env:") || key.starts_with("file:") => secret(&key).map(Some),
            other => Ok(other),
        }
    }

    /// The client for the server's address.
    pub(crate) fn client(&self) -> anyhow::Result<reqwest::ClientBuilder> {
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &self.ca {
            let pem = std::fs::read(file).with_context(|| format!("cannot read --ca {}", file.display()))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem).unwrap_or_default();
            if certificates.is_empty() {
                bail!("{} has no certificate; --ca takes a file in PEM form", file.display());
            }
            client = client.tls_certs_only(certificates);
        }
        Ok(client)
    }
}

pub(crate) struct RemoteServer {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    base: String,
    key: String,
}

/// An answer as it was received.
struct Received {
    status: u16,
    media_type: String,
    location: Option<String>,
    body: Vec<u8>,
}

impl RemoteServer {
    fn new(url: &str, far: &ServerArgs) -> anyhow::Result<RemoteServer> {
        let base = checked(url)?;
        let key = far.secret()?.with_context(|| {
            format!("{base} needs a key with a role: name its file with --key-file, or set RIALTO_KEY")
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(RemoteServer { runtime, client: far.client()?.build()?, base, key })
    }

    /// Performs the command there.
    pub(crate) fn ask(&self, request: &AdminRequest) -> anyhow::Result<Value> {
        let received = self.runtime.block_on(self.send(request.line()?)).map_err(|error| self.unreachable(&error))?;
        self.read(&received)
    }

    async fn send(&self, body: String) -> reqwest::Result<Received> {
        let request = self.client.post(format!("{}{COMMANDS}", self.base)).bearer_auth(&self.key);
        let mut answer = request.header("content-type", "application/json").body(body).send().await?;
        let text = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let media_type = text("content-type").unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        let (status, location, mut body) = (answer.status().as_u16(), text("location"), Vec::new());
        while let Some(chunk) = answer.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER {
                break;
            }
        }
        Ok(Received { status, media_type, location, body })
    }

    fn read(&self, received: &Received) -> anyhow::Result<Value> {
        let Received { status, media_type, location, body } = received;
        let base = &self.base;
        let json = serde_json::from_slice::<Value>(body).ok();
        match (status, &**media_type, json) {
            (200, "application/json", Some(answer)) => Ok(answer),
            (_, "application/problem+json", Some(problem)) => {
                let detail = problem["detail"].as_str().unwrap_or_default();
                match status {
                    401 => bail!("{base} does not take this key: {detail}"),
                    404 if detail.contains(COMMANDS) => {
                        bail!(
                            "{base} is of an earlier release, which takes no commands: update it, or work on its machine"
                        )
                    }
                    413 => bail!("{detail}: send it in parts, or raise limits.body_bytes of the server"),
                    _ => bail!("{detail}"),
                }
            }
            (300..=399, ..) if location.is_some() => {
                let to = location.as_deref().unwrap_or_default();
                bail!("{base} leads to {to}: name the server's own address with --server")
            }
            (404, ..) => bail!(
                "{base} has no admin API: turn it on in the server's config with console: {{ enabled: true }}, or mend the \
                 address"
            ),
            (status, media_type, _) => {
                let kind = if media_type.is_empty() { "no media type" } else { media_type };
                bail!("{base} answered {status} with {kind}, so it is no server of Rialto: check the address")
            }
        }
    }

    /// The error of a request without an answer.
    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let base = &self.base;
        let cause = innermost(error);
        let advice = if cause.contains("NotValidForName") || cause.contains("not valid for name") {
            "its certificate is for another name: use the name that it has"
        } else if cause.contains("certificate") {
            "its certificate is not of an authority that this machine trusts: name that authority's with --ca FILE"
        } else if cause.contains("corrupt message") {
            "it does not answer in TLS: write http:// if that is meant"
        } else if error.is_timeout() {
            "it does not answer in time: check the address and the network"
        } else {
            "check the address, and that the server runs"
        };
        anyhow!("cannot reach {base}: {advice} ({cause})")
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// The server's address without a slash at its end.
fn checked(text: &str) -> anyhow::Result<String> {
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url =
        url.with_context(|| format!("--server {text:?} is no address; write https://host, or http://host:port"))?;
    if !url.username().is_empty() || url.password().is_some() {
        bail!("--server has no user or password in it: give the key with --key-file, or in RIALTO_KEY");
    }
    if url.query().is_some() || url.fragment().is_some() {
        bail!("--server {text:?} has more than an address: write https://host, or https://host/path");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::command::{Arguments, Command, Task};

    #[test]
    fn an_address_is_that_of_a_server() {
        assert_eq!(checked("https://agents.example.com/").unwrap(), "https://agents.example.com");
        assert_eq!(checked("http://127.0.0.1:8080").unwrap(), "http://127.0.0.1:8080");
        assert_eq!(checked("https://example.com/rialto/").unwrap(), "https://example.com/rialto");
        for (wrong, says) in [
            ("example.com", "is no address"),
            ("example.com:8080", "is no address"),
            ("ftp://example.com", "is no address"),
            ("https://key@example.com", "--key-file"),
            ("https://example.com/?key=x", "more than an address"),
            ("https://example.com/#x", "more than an address"),
        ] {
            let error = checked(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_command_is_for_a_server_or_for_data_and_its_key_comes_one_way() {
        let parsed = |words: &[&str]| Arguments::try_parse_from(["rialto", "task", "list"].iter().chain(words));
        for wrong in [
            &["--server", "https://a", "--data", "d"][..],
            &["--server", "https://a", "--store", "sqlite"],
            &["--key", "k", "--key-file", "f"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "rk_1\n").unwrap();
        let file = file.to_str().unwrap();
        let by_reference = format!("file:{file}");
        for (words, key) in [
            (&["--key", "rk_2"][..], Some("rk_2")),
            (&["--key", &by_reference], Some("rk_1")),
            (&["--key-file", file], Some("rk_1")),
        ] {
            let Command::Task(Task::List(list)) = parsed(words).unwrap().command else { panic!("another command") };
            assert_eq!(list.at.far.secret().unwrap().as_deref(), key, "{words:?}");
            assert!(list.at.far.server.is_none());
        }
    }

    #[test]
    fn the_help_has_these_options_under_a_heading_of_their_own() {
        let all = Arguments::command();
        let list = all.find_subcommand("task").and_then(|task| task.find_subcommand("list")).unwrap();
        let under: Vec<&str> = list
            .get_arguments()
            .filter(|one| one.get_help_heading() == Some(FAR))
            .map(|one| one.get_id().as_str())
            .collect();
        assert_eq!(under, ["server", "key", "key_file", "ca"]);
    }

    #[test]
    fn answers_of_others_are_told_from_those_of_a_server() {
        let far = ServerArgs { key: Some("k".into()), ..ServerArgs::default() };
        let server = RemoteServer::new("http://127.0.0.1:9", &far).unwrap();
        let read = |status: u16, media_type: &str, location: Option<&str>, body: &str| {
            let location = location.map(str::to_owned);
            server.read(&Received { status, media_type: media_type.into(), location, body: body.into() })
        };
        assert_eq!(read(200, "application/json", None, "{\"ready\":true}").unwrap()["ready"], true);
        let problem = "application/problem+json";
        for (status, media_type, location, body, says) in [
            (200, "text/html", None, "<html>", "answered 200 with text/html"),
            (200, "application/json", None, "<html>", "answered 200 with application/json"),
            (502, "", None, "", "answered 502 with no media type"),
            (302, "text/html", Some("https://login"), "", "leads to https://login"),
            (404, "application/json", None, "{}", "console: { enabled: true }"),
            (401, problem, None, "{\"detail\":\"the key is unknown\"}", "does not take this key: the key is unknown"),
            (403, problem, None, "{\"detail\":\"this needs the role admin\"}", "this needs the role admin"),
            (404, problem, None, "{\"detail\":\"there is nothing at /api/admin/v1/commands; see\"}", "earlier release"),
            (413, problem, None, "{\"detail\":\"the request is large\"}", "limits.body_bytes"),
        ] {
            let error = read(status, media_type, location, body).unwrap_err().to_string();
            assert!(error.contains(says), "{status} {media_type}: {error}");
        }
    }
}
