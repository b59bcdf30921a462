//! A webhook receiver: it records requests and answers as a test says.
//!
//! It is HTTP/1.1 on plain sockets, one thread for each connection, because most of its behaviour (hang, break off,
//! close) is impossible with a proper server library.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::poll::{PATIENCE, until};

/// One complete request.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether it was answered with a 2xx.
    pub taken: bool,
}

impl Delivery {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// # Panics
    /// When the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a webhook's body is JSON")
    }

    /// The task and the number of its event.
    ///
    /// # Panics
    /// When there is no such header.
    pub fn event(&self) -> (String, u64) {
        let id = self.header("x-a2a-event-id").expect("a webhook names its event");
        let (task, seq) = id.rsplit_once('.').expect("<task>.<number>");
        (task.to_owned(), seq.parse().expect("a number"))
    }
}

/// A receiver's answer to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    Status(u16),
    /// A status with one more header.
    With(u16, &'static str, String),
    /// Sends nothing until the sender gives up.
    Hang,
    /// Closes the connection without an answer.
    Close,
    /// A valid head, half a body, then closes.
    BreakOff,
}

type Plan = Box<dyn FnMut(&Delivery) -> Reply + Send>;

struct Shared {
    plan: Mutex<Plan>,
    taken: Mutex<Vec<Delivery>>,
    accepted: AtomicUsize,
    closed: AtomicBool,
}

/// A receiver that listens until it is dropped.
pub struct Receiver {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Receiver {
    /// On a free port, answering 200 to everything.
    pub fn start() -> Receiver {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// # Panics
    /// When the address is taken.
    pub fn at(addr: SocketAddr) -> Receiver {
        let listener = TcpListener::bind(addr).expect("the receiver's port is free");
        let addr = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            plan: Mutex::new(Box::new(|_| Reply::Status(200))),
            taken: Mutex::default(),
            accepted: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if accepting.closed.load(Ordering::SeqCst) {
                    return;
                }
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                let (Ok(socket), shared) = (socket, accepting.clone()) else { continue };
                std::thread::spawn(move || drop(serve(&socket, &shared)));
            }
        });
        Receiver { addr, shared }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Sets the answers from now on.
    pub fn answers(&self, plan: impl FnMut(&Delivery) -> Reply + Send + 'static) {
        *self.shared.plan.lock().unwrap() = Box::new(plan);
    }

    /// Every request so far, in the order they came.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.taken.lock().unwrap().clone()
    }

    /// Number of accepted connections.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Waits until `done` accepts all requests so far.
    pub fn until(&self, what: &str, done: impl Fn(&[Delivery]) -> bool) -> Vec<Delivery> {
        until(what, PATIENCE, || {
            let all = self.deliveries();
            done(&all).then_some(all)
        })
    }

    /// The accepted events of each path in order, without repeats.
    ///
    /// # Panics
    /// When an event comes after a later one, other than as a repeat.
    pub fn ordered(&self) -> HashMap<String, Vec<Delivery>> {
        let mut paths: HashMap<String, Vec<Delivery>> = HashMap::new();
        for delivery in self.deliveries().into_iter().filter(|delivery| delivery.taken) {
            let seen = paths.entry(delivery.path.clone()).or_default();
            let event = delivery.event();
            if seen.iter().any(|known| known.event() == event) {
                continue;
            }
            if let Some(last) = seen.iter().rev().find(|known| known.event().0 == event.0) {
                assert!(last.event().1 < event.1, "{event:?} came after {:?}", last.event());
            }
            seen.push(delivery);
        }
        paths
    }
}

impl Receiver {
    /// By path, the event numbers in order of arrival, with repeats.
    pub fn arrivals(&self) -> HashMap<String, Vec<u64>> {
        let mut paths: HashMap<String, Vec<u64>> = HashMap::new();
        for delivery in self.deliveries() {
            paths.entry(delivery.path.clone()).or_default().push(delivery.event().1);
        }
        paths
    }
}

/// How many requests came after a later event's.
pub fn behind(arrivals: &[u64]) -> usize {
    let mut highest = 0;
    let mut count = 0;
    for seq in arrivals {
        count += usize::from(*seq < highest);
        highest = highest.max(*seq);
    }
    count
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // The listener waits for one more connection.
        let _ = TcpStream::connect(self.addr);
    }
}

fn serve(socket: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    while let Some(mut delivery) = read(&mut reader)? {
        if shared.closed.load(Ordering::SeqCst) {
            return socket.shutdown(Shutdown::Both);
        }
        let reply = (shared.plan.lock().unwrap())(&delivery);
        delivery.taken = match &reply {
            Reply::Status(status) | Reply::With(status, _, _) => (200..300).contains(status),
            Reply::BreakOff => true,
            Reply::Hang | Reply::Close => false,
        };
        shared.taken.lock().unwrap().push(delivery);
        let mut socket = socket;
        match reply {
            Reply::Status(status) => write!(socket, "HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n")?,
            Reply::With(status, name, value) => {
                write!(socket, "HTTP/1.1 {status} So\r\n{name}: {value}\r\ncontent-length: 0\r\n\r\n")?;
            }
            // The read ends when the sender closes.
            Reply::Hang => return reader.read_to_end(&mut Vec::new()).map(drop),
            Reply::Close => return socket.shutdown(Shutdown::Both),
            Reply::BreakOff => {
                write!(socket, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")?;
                return socket.shutdown(Shutdown::Both);
            }
        }
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> io::Result<Option<Delivery>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let delivery = Delivery { path, headers, body: Vec::new(), taken: false };
    let length = delivery.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Delivery { body, ..delivery }))
}
