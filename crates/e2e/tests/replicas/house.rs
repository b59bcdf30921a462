//! Replicas of the binary on one database, a proxy from each to PostgreSQL, and a balancer in front of all.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use cluster::{Cluster, Database};
use e2e::poll::{PATIENCE, until};
use e2e::server::signal;
use e2e::{Client, Server};
use tempfile::TempDir;

use crate::wire::{Balancer, Wire};

pub(crate) struct House {
    pub(crate) replicas: Vec<Server>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) balancer: Balancer,
    pub(crate) database: Database,
    _keys: TempDir,
    /// Declared last, so that PostgreSQL outlives the replicas.
    own: Option<Cluster>,
}

impl House {
    /// Replicas on a database of the process's shared PostgreSQL, which is never stopped.
    pub(crate) fn of(count: usize, config: &str) -> House {
        Self::build(count, config, None, &|_, options| options)
    }

    /// The same, with options for each replica.
    pub(crate) fn with(count: usize, config: &str, special: &dyn Fn(usize, Options) -> Options) -> House {
        Self::build(count, config, None, special)
    }

    /// Replicas with their own PostgreSQL, with fsync, for a test that stops it.
    pub(crate) fn durable(count: usize, config: &str) -> House {
        let own = Cluster::start(cluster::Options::default().fsync(true));
        Self::build(count, config, Some(own), &|_, options| options)
    }

    /// Replicas with their own PostgreSQL that waits for a standby, and the standby.
    pub(crate) fn synchronous(count: usize, config: &str) -> (House, Cluster) {
        let own = Cluster::start(cluster::Options::default());
        let standby = own.standby();
        let database = own.database();
        database.run("alter system set synchronous_standby_names = '*'");
        database.run("select pg_reload_conf()");
        until("the standby follows", PATIENCE, || {
            (database.query("select sync_state from pg_stat_replication") == [["sync"]]).then_some(())
        });
        (Self::build(count, config, Some(own), &|_, options| options), standby)
    }

    fn build(count: usize, config: &str, own: Option<Cluster>, special: &dyn Fn(usize, Options) -> Options) -> House {
        let cluster = own.as_ref().unwrap_or_else(|| Cluster::shared());
        let database = cluster.database();
        let keys = tempfile::tempdir().unwrap();
        let seal = keys.path().join("seal.key");
        std::fs::write(&seal, [7; 32]).unwrap();
        std::fs::set_permissions(&seal, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = format!(
            "{config}\npush: {{ retry_ms: 50, retry_most_ms: 500, timeout_ms: 2000, breaker_ms: 100, key_file: {} }}\n",
            seal.display()
        );
        let target = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
        let wires: Vec<Wire> = (0..count).map(|_| Wire::to(target)).collect();
        let start = |(number, wire): (usize, &Wire)| {
            special(number, Server::options().config(&config).database(&database.url_at(wire.port()))).start()
        };
        let replicas: Vec<Server> = wires.iter().enumerate().map(start).collect();
        let balancer = Balancer::over(replicas.iter().map(Server::addr).collect());
        House { replicas, wires, balancer, database, _keys: keys, own }
    }

    /// A client of any replica, through the balancer.
    pub(crate) fn anywhere(&self, agent: &str) -> Client {
        Client::new(self.balancer.addr(), &format!("/a2a/{agent}"))
    }

    /// A client of one replica.
    pub(crate) fn at(&self, replica: usize, agent: &str) -> Client {
        self.replicas[replica].agent(agent)
    }

    pub(crate) fn pause(&self, replica: usize) {
        signal(self.replicas[replica].pid(), "STOP");
    }

    pub(crate) fn go_on(&self, replica: usize) {
        signal(self.replicas[replica].pid(), "CONT");
    }

    /// The replicas' own PostgreSQL.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.own.as_ref().expect("the house has a PostgreSQL of its own")
    }
}

pub(crate) type Options = e2e::server::Options;
