//! Systems under `kill -9`: a diamond with a branch that fails, a quorum, an approval and a loop, run repeatedly
//! while the server is killed at random moments. On PostgreSQL there are three replicas, one or two of which are
//! killed.
//!
//! The agents run in the test's own process ([`office`]) and count their requests, so that a [`story`] can check
//! the rules for nodes: a node whose end was logged never runs again, one in flight at a kill runs again by its
//! agent's rule. `RIALTO_ROUNDS` is the number of kills (3 by default), `RIALTO_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod office;
mod story;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cluster::{Cluster, Database};
use e2e::poll::until;
use e2e::seed::Random;
use e2e::{Client, Server, store};

use office::Office;

/// Concurrent runs.
const STORIES: usize = 4;

fn config(office: &Office) -> String {
    let agent = |name: &str, restart: &str| {
        let url = office.url(name);
        format!(
            "  {name}: {{ kind: http, url: {url:?}, restart: {restart}, attempts: 50, retries: 0, concurrency: 100 }}"
        )
    };
    let agents = [agent("retry", "retry"), agent("fail", "fail"), agent("once", "retry")].join("\n");
    format!(
        r"
agents:
{agents}
limits: {{ attempts: 50 }}
log: {{ level: info, requests: false }}
systems:
  whole:
    entry: split
    max_turns: 5
    graph:
      split: {{ agent: retry, edges: [{{ to: good }}, {{ to: bad }}, {{ to: frail }}] }}
      good: {{ agent: once, next: gather }}
      bad: {{ agent: retry, retries: 1, next: gather }}
      frail: {{ agent: fail, next: gather }}
      gather:
        agent: retry
        join: {{ on_failure: continue_partial }}
        edges: [{{ to: left }}, {{ to: middle }}, {{ to: right }}]
      left: {{ agent: retry, next: vote }}
      middle: {{ agent: once, next: vote }}
      right: {{ agent: fail, next: vote }}
      vote: {{ agent: retry, join: {{ mode: quorum, quorum_count: 2 }}, next: draft }}
      draft: {{ agent: once, next: critic }}
      critic:
        agent: retry
        edges: [{{ to: draft, condition: {{ output_contains: revise }} }}, {{ to: release, condition: {{ default: true }} }}]
      release: {{ agent: once, approval: {{ ask: Shall it be released? }} }}
"
    )
}

/// The servers: one on SQLite, or replicas on one database.
struct House {
    servers: Vec<Server>,
    _database: Option<Database>,
}

impl House {
    fn build(config: &str) -> House {
        if !store::is_postgres() {
            return House { servers: vec![Server::options().config(config).start()], _database: None };
        }
        let database = Cluster::shared().database();
        let start = |_| Server::options().config(config).database(&database.url()).start();
        House { servers: (0..3).map(start).collect(), _database: Some(database) }
    }

    fn kill(&mut self, office: &Office, random: &mut Random, kills: &AtomicU64) -> Vec<usize> {
        let count = self.servers.len() as u64;
        let first = random.between(0, count);
        let mut victims = vec![first as usize];
        if count > 1 && random.chance(30) {
            victims.push(((first + 1) % count) as usize);
        }
        for victim in &victims {
            kills.fetch_add(1, Ordering::SeqCst);
            self.servers[*victim].kill9();
        }
        if victims.len() < self.servers.len() && random.chance(50) {
            // The other replicas continue meanwhile.
            let so_far = office.asked();
            until("others have gone on", Duration::from_secs(60), || (office.asked() > so_far + 5).then_some(()));
        }
        for victim in &victims {
            self.servers[*victim].restart();
        }
        victims
    }
}

#[test]
fn a_system_goes_on_after_kill_9_and_repeats_only_what_was_in_flight() {
    let rounds: u64 =
        std::env::var("RIALTO_ROUNDS").map_or(3, |text| text.parse().expect("RIALTO_ROUNDS is a number of rounds"));
    let mut random = Random::from_env("systems under kill -9");
    let office = Office::open(random.fork());
    let mut house = House::build(&config(&office));
    let clients: Vec<Client> = house.servers.iter().map(|server| server.agent("whole")).collect();
    let dice = Mutex::new(random.fork());
    // A caller may reach any replica.
    let anywhere = || clients[dice.lock().unwrap().between(0, clients.len() as u64) as usize].clone();
    let (kills, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let tell = || {
            let mut told = Vec::new();
            // The last one begins before the last kill, or it would have nothing to survive.
            while !stop.load(Ordering::SeqCst) {
                told.push(story::live(&anywhere, &office, &kills));
            }
            told
        };
        let workers: Vec<_> = (0..STORIES).map(|_| scope.spawn(tell)).collect();
        let campaign = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 1..=rounds {
                // Log-uniform, so that some kills follow each other at once and some find runs far advanced.
                let magnitude = random.between(0, 7);
                let moment = office.asked() + random.between(1 << magnitude, 2 << magnitude);
                until("enough has been asked for", Duration::from_secs(60), || {
                    (office.asked() >= moment).then_some(())
                });
                let victims = house.kill(&office, &mut random, &kills);
                eprintln!("round {round}: killed {victims:?} at request {moment}");
            }
        }));
        stop.store(true, Ordering::SeqCst);
        let told: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        if let Err(panic) = campaign {
            std::panic::resume_unwind(panic);
        }
        told.into_iter().flat_map(|told| told.expect("a run ends well")).collect::<Vec<_>>()
    });
    let hit = told.iter().filter(|told| told.kills() > 0).count();
    let repeats: usize = told.iter().map(|told| told.repeats(&office)).sum();
    eprintln!("{} runs, {hit} of them with kills; {} requests, {repeats} turns repeated", told.len(), office.asked());
    assert!(hit >= STORIES, "kills found something to harm");
    for one in &told {
        one.check(&office);
    }
}
