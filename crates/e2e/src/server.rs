//! The program under test: started, killed and started again on one data folder and one port.
//!
//! A server's output goes to a log beside its data; when a test fails, the end of that log is printed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use cluster::Database;
use tempfile::TempDir;

use crate::client::Client;
use crate::http::{Connection, Request, Response};
use crate::poll::{PATIENCE, until};
use crate::{setup, store};

/// Options of a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    config: Option<String>,
    wrapper: Vec<OsString>,
    place: Place,
    lease: Option<Duration>,
    reads_only: bool,
    data: Option<PathBuf>,
    certificate: Option<PathBuf>,
}

/// The store of a server.
#[derive(Debug, Clone, Default)]
enum Place {
    /// As `RIALTO_TEST_STORE` says; decided at the server's start.
    #[default]
    AsChosen,
    Sqlite,
    /// Its own database.
    Fresh(Database),
    /// A database at this address, which others may use too.
    Given(String),
}

impl Place {
    fn decided(&self) -> Place {
        match self {
            Place::AsChosen => store::fresh().map_or(Place::Sqlite, Place::Fresh),
            Place::Sqlite | Place::Fresh(_) | Place::Given(_) => self.clone(),
        }
    }

    fn url(&self) -> Option<String> {
        match self {
            Place::AsChosen | Place::Sqlite => None,
            Place::Fresh(database) => Some(database.url()),
            Place::Given(url) => Some(url.clone()),
        }
    }
}

impl Options {
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(OsString::from));
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the configuration file's text.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        self.config = Some(yaml.to_owned());
        self
    }

    /// A command that runs the server, such as a tracer. It must keep the server's process id.
    #[must_use]
    pub fn under(mut self, wrapper: &[OsString]) -> Self {
        self.wrapper = wrapper.to_vec();
        self
    }

    /// Uses SQLite whatever store is chosen.
    ///
    /// # Panics
    /// When the scenario is not in the list of those that may, [`store::SQLITE_ONLY`].
    #[must_use]
    pub fn sqlite_only(mut self, scenario: &str) -> Self {
        let known = store::SQLITE_ONLY.iter().any(|(name, _)| *name == scenario);
        assert!(known, "{scenario:?} has no reason in store::SQLITE_ONLY");
        self.place = Place::Sqlite;
        self
    }

    /// Uses the database at this address.
    #[must_use]
    pub fn database(mut self, url: &str) -> Self {
        self.place = Place::Given(url.to_owned());
        self
    }

    /// Waits for a server that answers, even if it refuses new work.
    #[must_use]
    pub fn reads_only(mut self) -> Self {
        self.reads_only = true;
        self
    }

    /// Serves over TLS with this certificate, which is its own authority, and this key.
    #[must_use]
    pub fn tls(mut self, certificate: &Path, key: &Path) -> Self {
        self.args.extend(["--tls-cert".into(), certificate.into(), "--tls-key".into(), key.into()]);
        self.certificate = Some(certificate.to_owned());
        self
    }

    /// Starts with a copy of this data folder.
    #[must_use]
    pub fn data(mut self, folder: &Path) -> Self {
        self.data = Some(folder.to_owned());
        self
    }

    /// Sets another lease than the tests' default.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready.
    pub fn start(mut self) -> Server {
        self.place = self.place.decided();
        let folder = tempfile::Builder::new().prefix("rialto-e2e-").tempdir().expect("a temporary folder");
        if let Some(config) = &self.config {
            fs::write(folder.path().join("rialto.yaml"), config).expect("the config is written");
        }
        if let Some(data) = &self.data {
            copy(data, &folder.path().join("data"));
        }
        // Another process may take the port before the server binds it; then another port is tried.
        for _ in 0..4 {
            let addr = free_address();
            let mut server =
                Server { child: None, addr, folder: None, path: folder.path().to_owned(), options: self.clone() };
            match server.launch() {
                Ok(()) => {
                    server.folder = Some(folder);
                    return server;
                }
                Err(why) if why.contains("in use") => eprintln!("{addr} was taken: {why}"),
                Err(why) => panic!("the server did not start: {why}"),
            }
        }
        panic!("no free port found");
    }
}

/// A running server. It ends with the value.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    addr: SocketAddr,
    folder: Option<TempDir>,
    path: PathBuf,
    options: Options,
}

impl Server {
    /// `rialto serve` on a free loopback port and an empty data folder, with more arguments.
    pub fn start(args: &[&str]) -> Self {
        Options::default().args(args).start()
    }

    pub fn options() -> Options {
        Options::default()
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The running process.
    ///
    /// # Panics
    /// When none runs.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// The peak memory of the process, as the kernel counts it.
    ///
    /// # Panics
    /// When none runs.
    pub fn peak_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The server's database, if it has its own.
    pub fn database(&self) -> Option<&Database> {
        match &self.options.place {
            Place::Fresh(database) => Some(database),
            Place::AsChosen | Place::Sqlite | Place::Given(_) => None,
        }
    }

    /// An operator's command on this server's data, whether it runs or not.
    pub fn operate(&self, words: &[&str]) -> Command {
        let mut command = Command::new(setup::binary());
        command.args(words).arg("--data").arg(self.data());
        // Without the config a command does not find a key that is stored elsewhere.
        if self.options.config.as_ref().is_some_and(|config| config.contains("key_file")) {
            command.arg("--config").arg(self.path.join("rialto.yaml"));
        }
        if let Some(url) = self.options.place.url() {
            let (flags, (name, value)) = store::flags(&url);
            command.args(flags).env(name, value);
        }
        command
    }

    /// A client of one agent, at `/a2a/{agent}`.
    pub fn agent(&self, agent: &str) -> Client {
        self.at(&format!("/a2a/{agent}"))
    }

    /// A client of the agent at `base`.
    pub fn at(&self, base: &str) -> Client {
        Client::new(self.addr, base)
    }

    pub fn get(&self, path: &str) -> Response {
        self.exchange(&Request::new("GET", path))
    }

    /// One request on its own connection.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn exchange(&self, request: &Request) -> Response {
        Connection::open(self.addr).and_then(|mut connection| connection.exchange(request)).expect("the server answers")
    }

    /// Kills the process with SIGKILL.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server is ours to kill");
            child.wait().expect("the server ends");
        }
    }

    /// Sends SIGTERM and waits for the end: the status, and the time it took.
    ///
    /// # Panics
    /// When it is still there after a long time.
    pub fn terminate(&mut self) -> (ExitStatus, Duration) {
        let mut child = self.child.take().expect("the server runs");
        let started = Instant::now();
        signal(child.id(), "TERM");
        let status = until("the server has ended after SIGTERM", PATIENCE, || {
            child.try_wait().expect("the server can be waited for")
        });
        (status, started.elapsed())
    }

    /// Waits until the process has ended by itself, or by a test's signal.
    ///
    /// # Panics
    /// When it is still there after a long time.
    pub fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        until("the server has ended", PATIENCE, || child.try_wait().expect("the server can be waited for"))
    }

    /// Starts the server again on the same data and port.
    ///
    /// # Panics
    /// When it does not become ready.
    pub fn restart(&mut self) {
        self.kill9();
        if let Err(why) = self.launch() {
            panic!("the server did not start again: {why}");
        }
    }

    /// Replaces the server's config file atomically.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_config(&self, yaml: &str) {
        let file = self.path.join("rialto.yaml");
        let beside = self.path.join("rialto.yaml.new");
        fs::write(&beside, yaml).and_then(|()| fs::rename(&beside, file)).expect("the config is written");
    }

    /// Sends SIGHUP, which reloads the config.
    pub fn hang_up(&self) {
        signal(self.pid(), "HUP");
    }

    /// The server's output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The command line of this server, for tests in which it must not start.
    pub fn command(options: &Options, listen: &str, folder: &Path) -> Command {
        let mut words = options.wrapper.clone();
        words.push(setup::binary().into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["serve", "--listen", listen, "--data"])
            .arg(folder.join("data"))
            .args(&options.args)
            .envs(options.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if let Some(url) = options.place.decided().url() {
            let (flags, (name, value)) = store::flags(&url);
            let lease = options.lease.unwrap_or(store::LEASE).as_secs();
            command.args(flags).args(["--lease", &format!("{lease}s")]).env(name, value);
        }
        if options.config.is_some() {
            command.arg("--config").arg(folder.join("rialto.yaml"));
        }
        command
    }

    fn launch(&mut self) -> Result<(), String> {
        let log = self.open_log().map_err(|error| error.to_string())?;
        let before = log.metadata().map_or(0, |meta| meta.len()) as usize;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut child = Self::command(&self.options, &self.addr.to_string(), &self.path)
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{}: {error}", setup::binary().display()))?;
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                let said = self.log().split_off(before);
                return Err(format!("{status}: {said}"));
            }
            if self.is_ready() {
                self.child = Some(child);
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not ready after {PATIENCE:?}: {}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the server reports that it is ready. On a busy machine the database sometimes answers late, and
    /// the server is not ready for a moment.
    ///
    /// # Panics
    /// When it does not say so in time.
    pub fn until_ready(&self) {
        until("the server is ready", PATIENCE, || self.is_ready().then_some(()));
    }

    fn is_ready(&self) -> bool {
        let path = if self.options.reads_only { "/healthz" } else { "/readyz" };
        if let Some(certificate) = &self.options.certificate {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--fail", "--output", "/dev/null", "--cacert"]).arg(certificate);
            return curl.arg(format!("https://{}{path}", self.addr)).status().is_ok_and(|status| status.success());
        }
        Connection::open(self.addr)
            .and_then(|mut connection| connection.exchange(&Request::new("GET", path)))
            .is_ok_and(|response| response.status() == 200)
    }

    fn open_log(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(self.log_path())
    }

    fn log_path(&self) -> PathBuf {
        self.path.join("server.log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(120)..];
            eprintln!("--- the server said ---\n{}\n---", tail.join("\n"));
            if std::env::var_os("RIALTO_KEEP").is_some()
                && let Some(folder) = self.folder.take()
            {
                eprintln!("its data is kept in {}", folder.keep().display());
            }
        }
    }
}

/// Sends a signal by name. Uses the shell's `kill`, which needs no unsafe code.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().expect("sh runs");
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Whether that process runs; a zombie does not count.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// A free address. Its port is below the range of outgoing connections, so that no client of a test takes it while
/// a killed server is down.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 1000) as u16 * 20;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (start + step) % 20_000;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(addr).is_ok() {
            return addr;
        }
    }
}

/// Copies the files of a folder.
///
/// # Panics
/// When it cannot.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is made");
    for entry in fs::read_dir(from).expect("the folder is read") {
        let entry = entry.expect("the folder is read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("the file is copied");
    }
}
