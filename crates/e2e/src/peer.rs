//! Third-party servers as agents of Rialto: `clients/peers`, built with the SDKs of A2A 0.3 and 1.0.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::poll::{PATIENCE, until};
use crate::server::{Server, free_address};
use crate::setup;
use crate::tongue::{Speaker, Tongue};

/// The generations with SDKs, by the folders of their environments.
pub const GENERATIONS: [&str; 2] = ["1.0", "0.3"];

/// A server of one generation; it ends with the value. It serves every binding, each with a card below its place: `rpc`,
/// `rest` and `grpc`.
#[derive(Debug)]
pub struct Peer {
    pub generation: &'static str,
    child: Child,
    addr: SocketAddr,
    folder: TempDir,
}

impl Peer {
    pub fn start(generation: &'static str) -> Peer {
        Peer::start_at(generation, free_address())
    }

    /// # Panics
    /// When it does not become ready.
    pub fn start_at(generation: &'static str, addr: SocketAddr) -> Peer {
        let peers = setup::clients().join("peers");
        let python = setup::ensure(&format!("peers/{generation}/.venv/.stamp")).with_file_name("bin/python");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("the log is made");
        let child = Command::new(python)
            .arg(peers.join("peer.py"))
            .arg(addr.port().to_string())
            .arg(folder.path())
            .arg(free_address().port().to_string())
            .env("PYTHONPATH", peers.join(generation))
            // Keeps bytecode out of the sources.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("the log is shared"))
            .stdout(log)
            .spawn()
            .expect("the peer starts");
        let peer = Peer { generation, child, addr, folder };
        until("the peer is ready", PATIENCE, || {
            let card = Request::new("GET", "/rpc/.well-known/agent-card.json");
            let response = Connection::open(addr).ok()?.exchange(&card).ok()?;
            (response.status() == 200).then_some(())
        });
        peer
    }

    /// Whether the peer did this.
    pub fn did(&self, act: &str) -> bool {
        self.times(act) > 0
    }

    pub fn times(&self, act: &str) -> usize {
        let acts = fs::read_to_string(self.folder.path().join("acts")).unwrap_or_default();
        acts.lines().filter(|line| *line == act).count()
    }

    /// Lets the peer finish the work that waits at a gate.
    ///
    /// # Panics
    /// When its folder is gone.
    pub fn open_gate(&self, gate: &str) {
        fs::write(self.folder.path().join(gate), "").expect("the gate is opened");
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The peer's output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The name of its agent at a place.
    pub fn agent(&self, place: &str) -> String {
        format!("{place}-{}", self.generation.replace('.', "-"))
    }

    /// Its agents at these places in a config, with more options.
    pub fn config(&self, places: &[&str], options: &str) -> String {
        let agent =
            |place| format!("  {}: {{ kind: a2a, url: 'http://{}/{place}'{options} }}\n", self.agent(place), self.addr);
        places.iter().map(|place| agent(place)).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- the peer of {} said ---\n{tail}", self.generation);
        }
    }
}

/// Rialto with a peer of every generation behind it.
#[derive(Debug)]
pub struct World {
    pub server: Server,
    pub peers: Vec<Peer>,
    places: &'static [&'static str],
}

impl World {
    /// # Panics
    /// When one of them does not start.
    pub fn start(places: &'static [&'static str]) -> World {
        let peers: Vec<Peer> = std::thread::scope(|scope| {
            let starting = GENERATIONS.map(|generation| scope.spawn(move || Peer::start(generation)));
            starting.into_iter().map(|peer| peer.join().expect("the peer starts")).collect()
        });
        let agents: String = peers.iter().map(|peer| peer.config(places, "")).collect();
        let server = Server::options().config(&format!("agents:\n{agents}")).start();
        World { server, peers, places }
    }

    /// Every generation of callers with every peer and binding, all at once. A failure does not stop the others.
    pub fn every_row(&self, row: impl Fn(&Speaker, &Peer) + Sync) {
        self.rows(&|_, _| true, &row);
    }

    /// The same, for the peers and bindings that `fits` selects.
    ///
    /// # Panics
    /// When a row failed.
    pub fn rows(&self, fits: &dyn Fn(&str, &str) -> bool, row: &(impl Fn(&Speaker, &Peer) + Sync)) {
        let mut failed = Vec::new();
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for peer in &self.peers {
                for place in self.places.iter().filter(|place| fits(peer.generation, place)) {
                    for tongue in Tongue::ALL {
                        let caller = tongue.speaker(&self.server.agent(&peer.agent(place)));
                        running.push((caller.clone(), scope.spawn(move || row(&caller, peer))));
                    }
                }
            }
            for (caller, row) in running {
                if row.join().is_err() {
                    failed.push(format!("{:?} to {}", caller.tongue, caller.client.base()));
                }
            }
        });
        assert!(failed.is_empty(), "{} rows failed: {failed:#?}", failed.len());
    }
}
