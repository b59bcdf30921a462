//! Where the database is, and connections to it.
//!
//! A connection carries many statements at once (the library pipelines them), so only a transaction needs a connection of
//! its own.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, poll_fn};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Row, Socket, Statement, tls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::{Options, PostgresOpenError, SqliteDurability};
use super::tls::{Trust, connector};

/// The reason of a connection that was neither made nor refused in time.
pub(super) const NO_ANSWER: &str = "no answer in time";
/// Notifications that wait to be read, per connection.
const NOTICES: usize = 1024;
/// Nothing the store asks for takes that long on the server. The writer has no such limit: it would cut short a COMMIT's wait
/// for a synchronous standby, and so make visible what the standby does not have.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A statement: its text, and the types of its parameters, so that the database is not asked for them.
pub(super) struct Sql {
    pub(super) text: &'static str,
    pub(super) types: &'static [Type],
}

/// By value, so that statements of a pipeline may be made before any is waited for.
pub(super) type Params<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

/// A database to connect to.
pub(super) struct ConnectTarget {
    config: Config,
    tls: MakeRustlsConnect,
    /// A transaction pooler stands in between: nothing may outlive a transaction.
    pooled: bool,
    settings: String,
    patience: Duration,
    /// For messages: address, user and database.
    pub(super) at: String,
    pub(super) user: String,
    pub(super) database: String,
}

impl ConnectTarget {
    /// Reads a url and readies what connections to it need.
    pub(super) fn new(url: &str, pooled: bool, options: &Options) -> Result<ConnectTarget, PostgresOpenError> {
        let (rest, ssl) = Ssl::take(url)?;
        // The library's message about a url may quote it.
        let mut config = Config::from_str(&rest).map_err(|error| {
            PostgresOpenError::Url(std::error::Error::source(&error).map_or_else(|| "it cannot be read".into(), reason))
        })?;
        config.ssl_mode(ssl.mode);
        if config.get_application_name().is_none() {
            config.application_name("rialto");
        }
        let patience = options.lease.max(Duration::from_secs(1));
        if config.get_connect_timeout().is_none() {
            // A host that does not answer leaves time for the next one, within the time in which a caller is answered.
            let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
            config.connect_timeout(patience * 4 / 5 / hosts);
        }
        // The system takes whole seconds, at least one.
        let second = Duration::from_secs(1);
        let (idle, interval) = ((patience / 2).max(second), (patience / 5).max(second));
        config.keepalives(true).keepalives_idle(idle).keepalives_interval(interval).keepalives_retries(5);
        // Bytes that the other end does not acknowledge for a lease end the connection, here and on the server.
        config.tcp_user_timeout(patience);
        let settings = settings(options);
        if !pooled {
            let given = config.get_options().map(|given| format!("{given} ")).unwrap_or_default();
            let session = [
                ("statement_timeout", STATEMENT_TIMEOUT.as_millis().to_string()),
                ("tcp_user_timeout", patience.as_millis().to_string()),
                ("tcp_keepalives_idle", idle.as_secs().to_string()),
                ("tcp_keepalives_interval", interval.as_secs().to_string()),
            ];
            let ours = session.iter().chain(&settings).map(|(name, value)| format!("-c {name}={value}"));
            let ours: Vec<String> = ours.collect();
            config.options(format!("{given}{}", ours.join(" ")));
        }
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(n, host)| {
                let ports = config.get_ports();
                let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    Host::Tcp(name) => format!("{name}:{port}"),
                    Host::Unix(path) => path.display().to_string(),
                }
            })
            .collect();
        if hosts.is_empty() {
            return Err(PostgresOpenError::Url("it names no host".into()));
        }
        let user = config.get_user().unwrap_or_default().to_owned();
        Ok(ConnectTarget {
            tls: connector(ssl.trust, ssl.roots.as_deref())?,
            pooled,
            // The transaction's own, where the session is not ours.
            settings: settings.iter().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'")).collect(),
            patience: patience * 2,
            at: hosts.join(","),
            database: config.get_dbname().map_or_else(|| user.clone(), str::to_owned),
            user,
            config,
        })
    }

    #[cfg(test)]
    pub(super) fn user_timeout(&self) -> Option<Duration> {
        self.config.get_tcp_user_timeout().copied()
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Conn, ConnectError> {
        let (client, connection) = self.dial().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL has ended");
            }
        });
        Ok(Conn::new(client, driver, self))
    }

    /// A new connection that hands out its notifications. Payloads that are not taken in time are dropped and counted as an
    /// empty one.
    pub(super) async fn listen(&self) -> Result<(Conn, mpsc::Receiver<String>), ConnectError> {
        let (client, mut connection) = self.dial().await?;
        let (notices, heard) = mpsc::channel(NOTICES);
        let driver = tokio::spawn(async move {
            let mut lost = false;
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notification(notice)) => {
                        if lost && notices.try_send(String::new()).is_ok() {
                            lost = false;
                        }
                        lost |= notices.try_send(notice.payload().to_owned()).is_err();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection to PostgreSQL has ended");
                        return;
                    }
                }
            }
        });
        Ok((Conn::new(client, driver, self), heard))
    }

    async fn dial(&self) -> Result<(Client, Connection<Socket, Stream>), ConnectError> {
        match tokio::time::timeout(self.patience, self.config.connect(self.tls.clone())).await {
            Ok(Ok(both)) => Ok(both),
            Ok(Err(error)) => Err(ConnectError::Sql(error)),
            Err(_) => Err(ConnectError::Slow),
        }
    }

    /// The error of opening the store for a failed connection.
    pub(super) fn explain(&self, fault: &ConnectError) -> PostgresOpenError {
        let (at, user) = (self.at.clone(), self.user.clone());
        let ConnectError::Sql(error) = fault else {
            return PostgresOpenError::Connect { at, reason: NO_ANSWER.into() };
        };
        let Some(db) = error.as_db_error() else {
            let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), reason);
            let text = error.to_string();
            return if text.contains("TLS") {
                PostgresOpenError::Tls { at, reason }
            } else if text.contains("config") || text.contains("authentication") {
                PostgresOpenError::Login { at, user, reason: text }
            } else {
                PostgresOpenError::Connect { at, reason }
            };
        };
        let reason = db.message().to_owned();
        match db.code() {
            &SqlState::INVALID_CATALOG_NAME => PostgresOpenError::NoDatabase { at, database: self.database.clone() },
            &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                PostgresOpenError::Login { at, user, reason }
            }
            &SqlState::INSUFFICIENT_PRIVILEGE => PostgresOpenError::Rights { user, reason },
            &SqlState::READ_ONLY_SQL_TRANSACTION => PostgresOpenError::Standby { at },
            code if super::trouble::is_lost(code) || *code == SqlState::TOO_MANY_CONNECTIONS => {
                PostgresOpenError::Connect { at, reason }
            }
            _ => PostgresOpenError::Sql(reason),
        }
    }
}

type Stream = <MakeRustlsConnect as tls::MakeTlsConnect<Socket>>::Stream;

/// Why something with a connection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{}", reason(.0))]
    Sql(#[from] Error),
    #[error("no answer in time")]
    Slow,
    /// A newer connection of the same writer has raised the fence.
    #[error("another connection of this replica writes by now")]
    Fenced,
}

/// The innermost reason, which is the one that says something.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Settings of a session, or of every transaction behind a pooler.
fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let lease = options.lease.as_millis();
    let mut settings = vec![
        ("lock_timeout", (lease * 4 / 5).to_string()),
        // A replica that stops in the middle of a transaction must not keep its locks, nor for so long that others give up.
        ("idle_in_transaction_session_timeout", (lease / 2).to_string()),
        // Every statement goes along an index, whatever the planner thinks of a table that was empty a moment ago.
        ("plan_cache_mode", "force_generic_plan".into()),
        ("enable_seqscan", "off".into()),
        ("enable_hashjoin", "off".into()),
        ("enable_mergejoin", "off".into()),
        ("jit", "off".into()),
    ];
    match options.durability {
        SqliteDurability::Full => {}
        SqliteDurability::Relaxed => settings.push(("synchronous_commit", "off".into())),
    }
    settings
}

/// An open connection. It ends with the value.
pub(super) struct Conn {
    client: Client,
    driver: JoinHandle<()>,
    /// Behind a pooler there are none.
    prepared: Option<Mutex<HashMap<usize, Statement>>>,
    sealed: bool,
    begin: String,
}

impl Drop for Conn {
    fn drop(&mut self) {
        // Statements still under way have no reader any more.
        self.driver.abort();
    }
}

impl Conn {
    fn new(client: Client, driver: JoinHandle<()>, target: &ConnectTarget) -> Conn {
        // Every condition is checked under a lock of its row, or by a unique index.
        let settings = if target.pooled { &target.settings } else { "" };
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED{settings}");
        Conn { client, driver, prepared: (!target.pooled).then(Mutex::default), sealed: false, begin }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether a transaction pooler stands in between: the session is not ours.
    pub(super) fn is_pooled(&self) -> bool {
        self.prepared.is_none()
    }

    /// Prepares all of these at once, and from then on nothing else. Without, each is prepared when it is first used, and
    /// comes after what was sent in the meantime.
    pub(super) async fn prepare(&mut self, all: &[&'static Sql]) -> Result<(), Error> {
        if self.prepared.is_some() {
            for done in join_all(all.iter().map(|sql| self.statement(sql))).await {
                done?;
            }
        }
        self.sealed = true;
        Ok(())
    }

    async fn statement(&self, sql: &'static Sql) -> Result<Option<Statement>, Error> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        let key = sql.text.as_ptr() as usize;
        let known = prepared.lock().get(&key).cloned();
        if known.is_some() {
            return Ok(known);
        }
        debug_assert!(!self.sealed, "not prepared in time: {}", sql.text);
        let made = self.client.prepare_typed(sql.text, sql.types).await?;
        prepared.lock().insert(key, made.clone());
        Ok(Some(made))
    }

    /// In a box, as all of these: a pipeline of a dozen would not fit on a stack.
    pub(super) fn query<'a, const N: usize>(
        &'a self,
        sql: &'static Sql,
        params: Params<'a, N>,
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move {
            match self.statement(sql).await? {
                Some(statement) => self.client.query(&statement, &params).await,
                None => self.client.query_typed(sql.text, &typed(sql, &params)).await,
            }
        })
    }

    pub(super) fn execute<'a, const N: usize>(
        &'a self,
        sql: &'static Sql,
        params: Params<'a, N>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            match self.statement(sql).await? {
                Some(statement) => self.client.execute(&statement, &params).await,
                None => self.client.execute_typed(sql.text, &typed(sql, &params)).await,
            }
        })
    }

    pub(super) fn begin(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.run(&self.begin)
    }

    /// Statements without parameters, as text.
    pub(super) fn run<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.client.batch_execute(text))
    }
}

fn typed<'a>(sql: &'static Sql, params: &[&'a (dyn ToSql + Sync)]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    params.iter().copied().zip(sql.types.iter().cloned()).collect()
}

/// A query, if there is something to ask for.
pub(super) async fn ask(wanted: bool, query: impl Future<Output = Result<Vec<Row>, Error>>) -> Result<Vec<Row>, Error> {
    if wanted { query.await } else { Ok(Vec::new()) }
}

/// A statement, if there is something to do.
pub(super) async fn run(wanted: bool, statement: impl Future<Output = Result<u64, Error>>) -> Result<(), Error> {
    if wanted { statement.await.map(drop) } else { Ok(()) }
}

/// TLS settings of a url.
#[derive(Debug, PartialEq, Eq)]
struct Ssl {
    mode: SslMode,
    trust: Trust,
    roots: Option<PathBuf>,
}

impl Ssl {
    /// Takes its parameters out of the url; the library does not know all of them.
    fn take(url: &str) -> Result<(String, Ssl), PostgresOpenError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(PostgresOpenError::Url("it does not begin with postgres://".into()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots) = (None, None);
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(unescape(value)),
                Some((name @ ("sslcert" | "sslkey" | "sslcrl"), _)) => {
                    return Err(PostgresOpenError::Url(format!("{name} is not supported; use a password")));
                }
                _ => kept.push(pair),
            }
        }
        let named = roots.is_some();
        // As libpq has it: `system` means the machine's own roots.
        let roots = roots.filter(|file| file != "system").map(PathBuf::from);
        let (mode, trust) = match mode {
            // As in libpq: named roots are verified.
            Some("require") if named => (SslMode::Require, Trust::Authority),
            Some("disable") => (SslMode::Disable, Trust::Anybody),
            Some("allow" | "prefer") => (SslMode::Prefer, Trust::Anybody),
            Some("require") => (SslMode::Require, Trust::Anybody),
            Some("verify-ca") => (SslMode::Require, Trust::Authority),
            Some("verify-full") => (SslMode::Require, Trust::Host),
            Some(other) => return Err(PostgresOpenError::Url(format!("sslmode={other} is unknown"))),
            None if named => (SslMode::Require, Trust::Host),
            None => (SslMode::Prefer, Trust::Anybody),
        };
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        Ok((rest, Ssl { mode, trust, roots }))
    }
}

/// Undoes %-escapes.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match tail {
            [a, b, ..] if *first == b'%' => {
                std::str::from_utf8(&[*a, *b]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssl(url: &str) -> (String, Ssl) {
        Ssl::take(url).unwrap()
    }

    #[test]
    fn a_url_says_whom_to_believe_as_in_libpq() {
        let base = "postgres://u:p%3F@h:1/d";
        for (query, mode, trust, roots) in [
            ("", SslMode::Prefer, Trust::Anybody, None),
            ("?sslmode=disable", SslMode::Disable, Trust::Anybody, None),
            ("?sslmode=prefer", SslMode::Prefer, Trust::Anybody, None),
            ("?sslmode=require", SslMode::Require, Trust::Anybody, None),
            ("?sslmode=require&sslrootcert=/r.pem", SslMode::Require, Trust::Authority, Some("/r.pem")),
            ("?sslmode=verify-ca&sslrootcert=/r.pem", SslMode::Require, Trust::Authority, Some("/r.pem")),
            ("?sslmode=verify-full", SslMode::Require, Trust::Host, None),
            ("?sslrootcert=system", SslMode::Require, Trust::Host, None),
            ("?sslrootcert=%2Fa%20b.pem&sslmode=verify-full", SslMode::Require, Trust::Host, Some("/a b.pem")),
        ] {
            let expected = Ssl { mode, trust, roots: roots.map(PathBuf::from) };
            assert_eq!(ssl(&format!("{base}{query}")), (base.to_owned(), expected), "{query}");
        }
        let (rest, _) = ssl("postgres://a,b/d?connect_timeout=3&sslmode=require&target_session_attrs=read-write");
        assert_eq!(rest, "postgres://a,b/d?connect_timeout=3&target_session_attrs=read-write");
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_its_password() {
        let options = Options::new("");
        for url in [
            "mysql://u:hidden@h/d",
            "postgres://u:hidden@h/d?sslmode=maybe",
            "postgres://u:hidden@h:port/d",
            "postgres://u:hidden@h/d?colour=red",
            "postgres://u:hidden@h/d?sslcert=mine.pem",
        ] {
            let error = ConnectTarget::new(url, false, &options).err().unwrap();
            assert!(matches!(error, PostgresOpenError::Url(_)), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
        }
        assert!(!format!("{:?}", Options::new("postgres://u:hidden@h/d")).contains("hidden"));
    }
}
