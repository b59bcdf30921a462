//! The agents of the systems: an HTTP server in the test's own process, so that its counts survive every kill.
//!
//! An agent answers by the node it works for, which it reads from the child's context, and records the turns it was
//! asked for and how often.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e2e::seed::Random;
use serde_json::{Value, json};

/// How many more drafts the critic demands.
pub(crate) const REVISIONS: usize = 2;

/// The requests to an agent with one turn id.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The agent: `retry`, `fail` or `once`.
    pub(crate) agent: String,
    /// The run of the system, and the node.
    pub(crate) run: String,
    pub(crate) node: String,
    /// The node's task.
    pub(crate) child: String,
    /// Number of requests.
    pub(crate) runs: u64,
    /// Number of executions: an agent that deduplicates works once, and answers repeats from memory.
    pub(crate) works: u64,
}

#[derive(Default)]
struct Book {
    turns: BTreeMap<String, Asked>,
    /// The children of each context in order of their first request: their index is the visit's number.
    visits: BTreeMap<String, Vec<String>>,
}

pub(crate) struct Office {
    addr: SocketAddr,
    book: Mutex<Book>,
    asked: AtomicU64,
    random: Mutex<Random>,
}

impl Office {
    pub(crate) fn open(random: Random) -> Arc<Office> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("a listener has an address");
        let office = Office { addr, book: Mutex::default(), asked: AtomicU64::new(0), random: Mutex::new(random) };
        let office = Arc::new(office);
        let here = office.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let office = here.clone();
                std::thread::spawn(move || drop(office.serve(&socket)));
            }
        });
        office
    }

    pub(crate) fn url(&self, agent: &str) -> String {
        format!("http://{}/{agent}", self.addr)
    }

    /// Number of requests to all agents.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// The requests of this run, by turn.
    pub(crate) fn of_run(&self, run: &str) -> Vec<Asked> {
        self.book.lock().unwrap().turns.values().filter(|asked| asked.run == run).cloned().collect()
    }

    /// Number of requests to this child's agent.
    pub(crate) fn runs(&self, child: &str) -> u64 {
        let book = self.book.lock().unwrap();
        book.turns.values().filter(|asked| asked.child == child).map(|asked| asked.runs).sum()
    }

    fn serve(&self, socket: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(socket.try_clone()?);
        while let Some((agent, turn)) = read(&mut reader)? {
            let answer = self.work(&agent, &turn).to_string();
            let mut socket = socket;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            write!(socket, "{head}content-length: {}\r\n\r\n{answer}", answer.len())?;
        }
        Ok(())
    }

    fn work(&self, agent: &str, turn: &Value) -> Value {
        let text = |name: &str| turn[name].as_str().expect("a turn says whose it is").to_owned();
        let (id, context, child) = (text("turn"), text("context"), text("task"));
        let (run, node) = context.split_once('/').expect("a child's context is its run and its node");
        let (visit, first) = {
            let mut book = self.book.lock().unwrap();
            let visits = book.visits.entry(context.clone()).or_default();
            if !visits.contains(&child) {
                visits.push(child.clone());
            }
            let visit = visits.iter().position(|known| *known == child).unwrap();
            let (agent, run, node) = (agent.to_owned(), run.to_owned(), node.to_owned());
            let asked = book.turns.entry(id).or_insert(Asked { agent, run, node, child, runs: 0, works: 0 });
            asked.runs += 1;
            let first = asked.runs == 1;
            asked.works += u64::from(first || asked.agent != "once");
            (visit, first)
        };
        self.asked.fetch_add(1, Ordering::SeqCst);
        if first {
            // Work takes some time, so that kills find some in flight.
            let pause = self.random.lock().unwrap().between(0, 25);
            std::thread::sleep(Duration::from_millis(pause));
        }
        match node {
            "bad" => json!({ "failed": "broken" }),
            "critic" if visit < REVISIONS => json!({ "text": "please revise" }),
            "critic" => json!({ "text": "fine" }),
            _ => json!({ "text": node }),
        }
    }
}

/// One request: its agent, and the turn.
fn read(reader: &mut impl BufRead) -> io::Result<Option<(String, Value)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let agent = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((agent, serde_json::from_slice(&body)?)))
}
