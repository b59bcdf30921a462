//! The chaos campaign: under load, replicas are killed, paused for longer than their lease, cut off from PostgreSQL
//! and restarted one by one, their COMMITs lose their answers or come late, and PostgreSQL itself is restarted or
//! silent; then every answer that clients received is checked.
//!
//! `RIALTO_ROUNDS` sets the number of faults (3 by default), `RIALTO_SEED` repeats the choices of a run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use e2e::poll::until;
use e2e::seed::Random;
use e2e::store::LEASE;
use e2e::{Receiver, Reply};

use crate::checks;
use crate::house::House;
use crate::load::{self, Desk, STORIES};
use crate::wire::Line;

const CONFIG: &str = "limits: { attempts: 50 }\nlog: { level: \"info\", requests: false }\n";
const REPLICAS: usize = 3;

/// The kinds of faults.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// A replica is killed and started again.
    Kill,
    /// A replica is stopped for longer than its lease, and continues without knowing.
    Pause,
    /// Traffic between a replica and PostgreSQL is held for longer than its lease, then delivered.
    Hold,
    /// A replica's connections to PostgreSQL break, and new ones too, for longer than its lease.
    Cut,
    /// PostgreSQL is restarted.
    Restart,
    /// PostgreSQL crashes and recovers.
    Crash,
    /// The replicas are terminated and restarted one after the other.
    Roll,
    /// A replica is stopped while another is killed, and continues before it is back.
    Both,
    /// A replica's connections break right after each COMMIT is sent: it does not learn the outcome.
    Doubt,
    /// A replica's connections break at each COMMIT, and PostgreSQL gets those COMMITs after the fault.
    Late,
    /// Traffic between PostgreSQL and all replicas is held, as if PostgreSQL hung.
    Silence,
}

const BLOWS: [Blow; 11] = [
    Blow::Kill,
    Blow::Pause,
    Blow::Hold,
    Blow::Cut,
    Blow::Restart,
    Blow::Crash,
    Blow::Roll,
    Blow::Both,
    Blow::Doubt,
    Blow::Late,
    Blow::Silence,
];

/// Each kind of blow once, in a random order, then again.
struct Deck(Vec<Blow>);

impl Deck {
    fn draw(&mut self, random: &mut Random) -> Blow {
        if self.0.is_empty() {
            self.0 = BLOWS.to_vec();
        }
        let at = usize::try_from(random.between(0, self.0.len() as u64)).unwrap();
        self.0.swap_remove(at)
    }
}

#[test]
fn whatever_becomes_of_replicas_what_clients_were_told_holds() {
    let rounds: u64 =
        std::env::var("RIALTO_ROUNDS").map_or(3, |text| text.parse().expect("RIALTO_ROUNDS is a number of rounds"));
    let mut random = Random::from_env("replicas under chaos");
    let mut house = House::durable(REPLICAS, CONFIG);
    let receiver = Receiver::start();
    // Some webhooks fail at first: they are repeated, perhaps by another replica.
    let mut dice = random.fork();
    receiver.answers(move |_| if dice.chance(10) { Reply::Status(503) } else { Reply::Status(200) });
    let (stop, broken) = (AtomicBool::new(false), AtomicU64::new(0));
    let (echo, scripted) = (house.anywhere("echo"), house.anywhere("scripted"));
    let told = std::thread::scope(|scope| {
        let workers: Vec<_> = STORIES
            .iter()
            .map(|story| {
                let desk = Desk {
                    echo: echo.clone(),
                    scripted: scripted.clone(),
                    receiver: &receiver,
                    random: random.fork(),
                    told: Vec::new(),
                    broken: &broken,
                };
                let stop = &stop;
                scope.spawn(move || load::work(desk, *story, stop))
            })
            .collect();
        let campaign = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut deck = Deck(Vec::new());
            for round in 1..=rounds {
                // Some load between faults, so that each has something to harm.
                for _ in 0..random.between(1, 4) {
                    let task = house.anywhere("echo").with("Idempotency-Key", &e2e::fresh_id());
                    let params = serde_json::json!({ "message": e2e::message("still there?") });
                    until("the replicas answer", Duration::from_secs(60), || {
                        task.try_rpc("SendMessage", params.clone()).ok()?.ok()
                    });
                }
                let blow = deck.draw(&mut random);
                let victim = usize::try_from(random.between(0, REPLICAS as u64)).unwrap();
                eprintln!("round {round}: {blow:?} of {victim}; {} tries so far broke", broken.load(Ordering::Relaxed));
                strike(&mut house, blow, victim, &mut random);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let told: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        if let Err(panic) = campaign {
            std::panic::resume_unwind(panic);
        }
        told.into_iter().flat_map(|told| told.expect("a story ends well")).collect::<Vec<_>>()
    });
    let again = told.iter().map(load::Told::taken_up).sum::<usize>();
    eprintln!("{} stories told, {again} turns taken up; {} tries broke", told.len(), broken.load(Ordering::Relaxed));
    assert!(told.len() >= STORIES.len(), "there was load");
    receiver.answers(|_| Reply::Status(200));
    checks::check_database(&house.database);
    checks::check(&house, &receiver, &told);
    checks::check_order(&receiver, rounds);
    // Reading changes nothing.
    checks::check_database(&house.database);
}

/// Causes the fault, and repairs it.
fn strike(house: &mut House, blow: Blow, victim: usize, random: &mut Random) {
    // The duration matters: longer than the lease, by more or less.
    let longer = LEASE + Duration::from_millis(random.between(300, 2_500));
    let last = || std::thread::sleep(longer);
    match blow {
        Blow::Kill => {
            house.replicas[victim].kill9();
            // Sometimes it is back before the others have noticed.
            if random.chance(50) {
                last();
            }
            house.replicas[victim].restart();
        }
        Blow::Pause => {
            house.pause(victim);
            last();
            house.go_on(victim);
        }
        Blow::Hold => {
            house.wires[victim].set(Line::Held);
            last();
            if random.chance(50) {
                house.wires[victim].set(Line::Cut);
            }
            house.wires[victim].set(Line::Open);
        }
        Blow::Cut => {
            house.wires[victim].set(Line::Cut);
            last();
            house.wires[victim].set(Line::Open);
        }
        Blow::Doubt => {
            house.wires[victim].set(Line::CutAtCommit);
            last();
            house.wires[victim].set(Line::Open);
        }
        Blow::Late => {
            house.wires[victim].set(Line::LateCommit);
            last();
            house.wires[victim].set(Line::Open);
        }
        Blow::Silence => {
            house.wires.iter().for_each(|wire| wire.set(Line::Held));
            last();
            house.wires.iter().for_each(|wire| wire.set(Line::Open));
        }
        Blow::Restart => house.cluster().restart(),
        Blow::Crash => {
            house.cluster().crash();
            house.cluster().start_again();
        }
        Blow::Roll => {
            for replica in &mut house.replicas {
                let (status, _) = replica.terminate();
                assert!(status.success(), "{status}");
                replica.restart();
            }
        }
        Blow::Both => {
            let other = (victim + 1) % REPLICAS;
            house.pause(victim);
            house.replicas[other].kill9();
            last();
            house.go_on(victim);
            house.replicas[other].restart();
        }
    }
}
