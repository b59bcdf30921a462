//! A private PostgreSQL for tests: created in a temporary folder from the machine's own package, on a loopback
//! port, and removed with the process that started it, also when that process is killed.
//!
//! A small shell script (`keeper.sh`) controls it. The script reads from a pipe whose other end only this process
//! holds: when the process ends in any way the script reads the end of its input, stops PostgreSQL and removes the
//! folder. PostgreSQL refuses to run as root, so as root the script runs as an unprivileged user.
//!
//! On a machine without PostgreSQL the test that needs it fails, and says what to install.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Options of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Options {
    fsync: bool,
    settings: Vec<(String, String)>,
    tls: Option<(String, String)>,
}

impl Options {
    /// Whether commits are flushed to disk. Off by default: only a test that stops PostgreSQL can tell the
    /// difference.
    #[must_use]
    pub fn fsync(mut self, on: bool) -> Self {
        self.fsync = on;
        self
    }

    /// A line of `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Serves TLS, beside plain connections, with this certificate and key in PEM.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str) -> Self {
        self.tls = Some((certificate.to_owned(), key.to_owned()));
        self.set("ssl", "on")
    }

    fn lines(&self) -> String {
        let on_off = if self.fsync { "on" } else { "off" };
        let mut lines = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 300\nshared_buffers = '64MB'\n\
             fsync = {on_off}\nfull_page_writes = {on_off}\nlog_line_prefix = '%m [%p] %d '\n"
        );
        for (name, value) in &self.settings {
            lines.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        lines
    }
}

/// A PostgreSQL cluster of this process. It ends with the value, and with the process.
#[derive(Debug)]
pub struct Cluster {
    keeper: Mutex<Keeper>,
    programs: PathBuf,
    password: String,
    port: u16,
    databases: AtomicU32,
}

/// The script, and our ends of its pipes.
#[derive(Debug)]
struct Keeper {
    child: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// Sends a command and waits for its answer, or its error.
    fn ask(&mut self, word: &str) -> Result<String, String> {
        let words = self.words.as_mut().ok_or("the keeper has been sent home")?;
        writeln!(words, "{word}").and_then(|()| words.flush()).map_err(|error| format!("{word}: {error}"))?;
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("{word}: the keeper is gone; it said: {said}"));
            }
            match line.trim_end() {
                "ok" => return Ok(said),
                "failed" => return Err(format!("{word}: {said}")),
                _ => said.push_str(&line),
            }
        }
    }
}

impl Cluster {
    /// The cluster that all tests of this process share, without fsync. Each test takes its own database.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(Options::default()))
    }

    /// Creates a cluster and starts it.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start(options: Options) -> Cluster {
        Cluster::build(&options, None)
    }

    /// Creates a standby, which copies this cluster and follows it. It is stopped and started like any other; while
    /// it is stopped, a primary that waits for it commits nothing.
    ///
    /// # Panics
    /// When PostgreSQL does not copy it or it does not start.
    pub fn standby(&self) -> Cluster {
        Cluster::build(&Options::default(), Some(self))
    }

    fn build(options: &Options, primary: Option<&Cluster>) -> Cluster {
        let programs = programs();
        let password = primary.map_or_else(random, |primary| primary.password.clone());
        let mut command = as_somebody("sh");
        command
            .args(["-c", include_str!("keeper.sh"), "rialto-postgres-keeper"])
            .env("bin", &programs)
            .env("password", &password)
            .env("port", "0")
            .env("settings", options.lines())
            .env_remove("PGDATA")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A signal to the terminal's process group must not reach it.
            .process_group(0);
        if let Some((certificate, key)) = &options.tls {
            command.env("tls_cert", certificate).env("tls_key", key);
        }
        if let Some(primary) = primary {
            command.env("source_port", primary.port.to_string());
        }
        let mut child = command.spawn().expect("sh runs");
        let words = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut keeper = Keeper { child, words, answers };
        if let Err(why) = keeper.ask(if primary.is_some() { "copy" } else { "make" }) {
            panic!("PostgreSQL made no cluster: {why}");
        }
        // Another process may take the port before PostgreSQL binds it; then another port is tried.
        let mut port = 0;
        for attempt in 0.. {
            port = free_port();
            keeper.ask(&format!("port {port}")).expect("the keeper takes a port");
            match keeper.ask("start") {
                Ok(_) => break,
                Err(why) if attempt < 4 && why.contains("could not bind") => continue,
                Err(why) => panic!("PostgreSQL did not start: {why}"),
            }
        }
        Cluster { keeper: Mutex::new(keeper), programs, password, port, databases: AtomicU32::new(0) }
    }

    /// A new, empty database. It is not dropped: the cluster is removed as a whole.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn database(&self) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.named("postgres").run(&format!("create database {name}"));
        self.named(&name)
    }

    /// The port on 127.0.0.1; it stays the same as long as the cluster lives.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// PostgreSQL's log.
    ///
    /// # Panics
    /// When there is no log.
    pub fn log(&self) -> String {
        self.ask("log")
    }

    /// Stops it, closing every connection, and starts it again.
    ///
    /// # Panics
    /// When it does not.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Stops it, closing every connection.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn stop(&self) {
        self.ask("stop fast");
    }

    /// Stops it like a crash: nothing is flushed, and the next start recovers.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn crash(&self) {
        self.ask("stop immediate");
    }

    /// Starts it again after [`Cluster::stop`] or [`Cluster::crash`], on the same port and data.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&self) {
        self.ask("start");
    }

    fn ask(&self, word: &str) -> String {
        let answer = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).ask(word);
        answer.unwrap_or_else(|why| panic!("PostgreSQL did not do as it was told: {why}"))
    }

    fn named(&self, name: &str) -> Database {
        Database {
            name: name.to_owned(),
            port: self.port,
            password: self.password.clone(),
            psql: self.programs.join("psql"),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner);
        keeper.words.take();
        let _ = keeper.child.wait();
    }
}

/// A database of a cluster. Only a name: it is removed with the cluster.
#[derive(Debug, Clone)]
pub struct Database {
    name: String,
    port: u16,
    password: String,
    psql: PathBuf,
}

impl Database {
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same database through another loopback port, such as a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://rialto:{}@127.0.0.1:{port}/{}", self.password, self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    /// The rows of a query, every value as text; null is empty.
    ///
    /// # Panics
    /// When the query fails.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        self.run(sql).lines().map(|row| row.split('\x1f').map(str::to_owned).collect()).collect()
    }

    /// The whole content as text, bytes as text where possible, for example to search for data that must not be
    /// there.
    ///
    /// # Panics
    /// When it cannot be had.
    pub fn dump(&self) -> String {
        let mut command = Command::new(self.psql.with_file_name("pg_dump"));
        command.arg("--data-only").env("PGOPTIONS", "-c bytea_output=escape");
        self.output(&mut command, "pg_dump")
    }

    /// Runs statements and returns the output of `psql`: unaligned, fields separated by U+001F.
    ///
    /// # Panics
    /// When one fails.
    pub fn run(&self, sql: &str) -> String {
        let mut command = Command::new(&self.psql);
        command.args(["-X", "-q", "-A", "-t", "-F", "\x1f", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        self.output(&mut command, sql)
    }

    fn output(&self, command: &mut Command, what: &str) -> String {
        let output = command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "rialto", "-d", &self.name])
            .env("PGPASSWORD", &self.password)
            .env("PGCONNECT_TIMEOUT", "30")
            .stdin(Stdio::null())
            .output()
            .expect("PostgreSQL's programs run");
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text is UTF-8")
    }
}

/// The folder of PostgreSQL's programs: Debian keeps them outside `PATH`, by version.
fn programs() -> PathBuf {
    let whole = |folder: &Path| {
        ["initdb", "pg_basebackup", "pg_ctl", "pg_dump", "postgres", "psql"]
            .iter()
            .all(|name| folder.join(name).exists())
    };
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(versions.into_iter().rev().map(|(_, folder)| folder))
        .find(|folder| whole(folder))
        .expect(
            "these tests need PostgreSQL: run scripts/setup-e2e, or install it (Debian's package is `postgresql`) with \
             initdb, pg_basebackup, pg_ctl, pg_dump, postgres and psql on PATH or in /usr/lib/postgresql/*/bin",
        )
}

/// A command that does not run as root, even if this process does.
fn as_somebody(program: &str) -> Command {
    if id(&["-u"]).as_deref() != Some("0") {
        return Command::new(program);
    }
    let user = ["postgres", "nobody"].into_iter().find(|user| id(&["-u", user]).is_some());
    let user = user.expect("PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`");
    let group = id(&["-g", user]).expect("every user has a group");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", &group, "--clear-groups", "--", program]);
    command
}

fn id(args: &[&str]) -> Option<String> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn random() -> String {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).expect("there is randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A free port, below the range of outgoing connections, so that no client of a test takes it while PostgreSQL is
/// stopped.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 100) as u16 * 20;
    loop {
        let port = 30_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
