//! Two small network components: a proxy that can be held, cut or made to lose PostgreSQL's notifications, and a
//! balancer that gives each connection to the next replica that accepts it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a proxy treats its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Open,
    /// Nothing passes, without an error: like a switch that is off.
    Held,
    /// Connections break, and new ones do too.
    Cut,
    /// A connection breaks right after a COMMIT is sent to the server: its sender gets no answer.
    CutAtCommit,
    /// A connection breaks at a COMMIT, which reaches the server when the line is open again.
    LateCommit,
}

struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
    sockets: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
    /// Notifications are lost.
    deaf: AtomicBool,
}

impl Shared {
    /// Waits while the line is held; returns whether it may be used after that.
    fn pass(&self) -> bool {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        while *line == Line::Held && !self.closed.load(Ordering::SeqCst) {
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        *line != Line::Cut
    }

    fn line(&self) -> Line {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the line is open.
    fn wait_until_open(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        while *line != Line::Open && !self.closed.load(Ordering::SeqCst) {
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Treats a COMMIT in these bytes as the line says. Returns whether that ended the connection.
    fn strike(&self, bytes: &[u8], client: &TcpStream, server: &mut TcpStream) -> bool {
        let line = self.line();
        if !matches!(line, Line::CutAtCommit | Line::LateCommit) || !bytes.windows(7).any(|word| word == b"COMMIT\0") {
            return false;
        }
        let _ = client.shutdown(Shutdown::Both);
        if line == Line::LateCommit {
            self.wait_until_open();
        }
        let _ = server.write_all(bytes);
        // The server's answer is dropped; that it came is enough.
        let _ = server.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = server.read(&mut [0; 1]);
        true
    }
}

/// A proxy to one address, which a test can hold or cut.
pub(crate) struct Wire {
    port: u16,
    shared: Arc<Shared>,
}

impl Wire {
    pub(crate) fn to(target: SocketAddr) -> Wire {
        let shared = Arc::new(Shared {
            line: Mutex::new(Line::Open),
            changed: Condvar::new(),
            sockets: Mutex::default(),
            closed: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        let port = listen(move |socket| {
            if accepting.closed.load(Ordering::SeqCst) {
                return false;
            }
            let shared = accepting.clone();
            // Its own thread: a held line must not block the next accept.
            std::thread::spawn(move || {
                if shared.pass()
                    && let Ok(other) = TcpStream::connect_timeout(&target, Duration::from_secs(5))
                {
                    keep(&shared, [&socket, &other]);
                    join_database(socket, other, shared);
                }
            });
            true
        });
        Wire { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on the other replicas' NOTIFY messages are dropped silently.
    pub(crate) fn be_deaf(&self, deaf: bool) {
        self.shared.deaf.store(deaf, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, line: Line) {
        *self.shared.line.lock().unwrap() = line;
        self.shared.changed.notify_all();
        if line == Line::Cut {
            for socket in self.shared.sockets.lock().unwrap().drain(..) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.set(Line::Cut);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Records sockets to break when the line is cut, and drops those that are broken.
fn keep(shared: &Shared, both: [&TcpStream; 2]) {
    let mut sockets = shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
    sockets.retain(|socket| socket.peer_addr().is_ok());
    sockets.extend(both.into_iter().filter_map(|socket| socket.try_clone().ok()));
}

/// Gives each connection to the next replica in turn; skips one that does not accept it.
pub(crate) struct Balancer {
    addr: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Balancer {
    pub(crate) fn over(replicas: Vec<SocketAddr>) -> Balancer {
        let closed = Arc::new(AtomicBool::new(false));
        let (ending, next) = (closed.clone(), Arc::new(AtomicUsize::new(0)));
        let replicas = Arc::new(replicas);
        let port = listen(move |socket| {
            if ending.load(Ordering::SeqCst) {
                return false;
            }
            let (replicas, next) = (replicas.clone(), next.clone());
            std::thread::spawn(move || {
                let turn = next.fetch_add(1, Ordering::SeqCst);
                let order = (0..replicas.len()).map(|step| replicas[(turn + step) % replicas.len()]);
                let mut taken = order.filter_map(|addr| TcpStream::connect_timeout(&addr, Duration::from_secs(1)).ok());
                if let Some(replica) = taken.next() {
                    join(socket, replica, || true);
                }
            });
            true
        });
        Balancer { addr: SocketAddr::from(([127, 0, 0, 1], port)), closed }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
    }
}

/// Listens on a free port until `take` returns false.
fn listen(mut take: impl FnMut(TcpStream) -> bool + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = listener.local_addr().expect("a listener has an address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            if !take(socket) {
                return;
            }
        }
    });
    port
}

/// Copies bytes both ways until one side ends, and then closes the other.
fn join(one: TcpStream, other: TcpStream, pass: impl Fn() -> bool + Clone + Send + 'static) {
    let (Ok(one_too), Ok(other_too)) = (one.try_clone(), other.try_clone()) else { return };
    let _ = (one.set_nodelay(true), other.set_nodelay(true));
    let back = pass.clone();
    std::thread::spawn(move || drop(carry(other_too, one_too, &back, &|_, _, _| false)));
    drop(carry(one, other, &pass, &|_, _, _| false));
}

/// The same for a connection to PostgreSQL, whose notifications can be removed.
fn join_database(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let back = shared.clone();
    std::thread::spawn(move || {
        let mut messages = Messages::default();
        let filter = |bytes: &[u8]| messages.without_notices(bytes, back.deaf.load(Ordering::SeqCst));
        drop(carry_through(server_too, client_too, &|| back.pass(), filter, &|_, _, _| false));
    });
    let strike = |bytes: &[u8], client: &TcpStream, server: &mut TcpStream| shared.strike(bytes, client, server);
    drop(carry(client, server, &|| shared.pass(), &strike));
}

/// PostgreSQL's messages: a tag, and a length that counts itself. Before the first there may be one byte for TLS;
/// these tests do not use it.
#[derive(Default)]
struct Messages {
    pending: Vec<u8>,
    begun: bool,
}

impl Messages {
    const NOTIFICATION: u8 = b'A';

    fn without_notices(&mut self, bytes: &[u8], deaf: bool) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let mut through = Vec::new();
        if !self.begun && self.pending.first() == Some(&b'N') && self.pending.len() == 1 {
            return std::mem::take(&mut self.pending);
        }
        self.begun = true;
        while let Some(length) = self.pending.get(1..5) {
            let whole = 1 + u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            if self.pending.len() < whole {
                break;
            }
            let rest = self.pending.split_off(whole);
            let message = std::mem::replace(&mut self.pending, rest);
            if !(deaf && message[0] == Self::NOTIFICATION) {
                through.extend(message);
            }
        }
        through
    }
}

fn carry(
    from: TcpStream,
    to: TcpStream,
    pass: &impl Fn() -> bool,
    strike: &impl Fn(&[u8], &TcpStream, &mut TcpStream) -> bool,
) -> io::Result<()> {
    carry_through(from, to, pass, <[u8]>::to_vec, strike)
}

fn carry_through(
    mut from: TcpStream,
    mut to: TcpStream,
    pass: &impl Fn() -> bool,
    mut filter: impl FnMut(&[u8]) -> Vec<u8>,
    strike: &impl Fn(&[u8], &TcpStream, &mut TcpStream) -> bool,
) -> io::Result<()> {
    let mut space = vec![0; 64 * 1024];
    let outcome = loop {
        match from.read(&mut space) {
            Ok(0) => break Ok(()),
            Ok(count) if strike(&space[..count], &from, &mut to) => break Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(count) if pass() => {
                if let Err(error) = to.write_all(&filter(&space[..count])) {
                    break Err(error);
                }
            }
            Ok(_) => break Err(io::ErrorKind::ConnectionAborted.into()),
            Err(error) => break Err(error),
        }
    };
    // An end closes both directions: neither HTTP nor PostgreSQL uses a half-open connection here.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    outcome
}

mod tests {
    use std::io::{BufRead, BufReader};

    use e2e::poll::{PATIENCE, until};

    use super::*;

    /// Bytes of tag and length before a message of PostgreSQL.
    const HEAD: usize = 5;

    /// Answers each line with the word and the line, as a message of PostgreSQL: the proxy passes whole messages.
    fn parrot(word: &'static str) -> SocketAddr {
        let port = listen(move |socket| {
            std::thread::spawn(move || {
                let mut out = socket.try_clone().unwrap();
                for line in BufReader::new(socket).lines().map_while(Result::ok) {
                    let text = format!("{word} {line}\n");
                    let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
                    let _ = out.write_all(&[b"x", &length[..], text.as_bytes()].concat());
                }
            });
            true
        });
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn say(socket: &TcpStream, line: &str) -> io::Result<String> {
        let mut out = socket;
        writeln!(out, "{line}")?;
        let mut heard = String::new();
        match BufReader::new(socket).read_line(&mut heard)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(heard[HEAD..].trim_end().to_owned()),
        }
    }

    fn dial(port: u16) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    }

    #[test]
    fn a_wire_can_be_held_and_cut() {
        let wire = Wire::to(parrot("polly"));
        let socket = until("the wire carries", PATIENCE, || {
            let socket = dial(wire.port());
            say(&socket, "one").ok().map(|_| socket)
        });
        wire.set(Line::Held);
        assert!(say(&socket, "two").is_err(), "nothing comes through");
        let late = dial(wire.port());
        assert!(say(&late, "three").is_err(), "for new ones neither");
        wire.set(Line::Open);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = String::new();
        BufReader::new(&socket).read_line(&mut heard).unwrap();
        assert_eq!(&heard[HEAD..], "polly two\n", "what was held comes through");
        wire.set(Line::Cut);
        assert!(say(&socket, "four").is_err());
        assert!(say(&dial(wire.port()), "five").is_err());
        wire.set(Line::Open);
        until("the wire carries again", PATIENCE, || say(&dial(wire.port()), "six").ok());
    }

    #[test]
    fn a_wire_can_lose_the_answer_to_a_commit_or_keep_the_commit() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        let port = listen(move |mut socket| {
            let told = told.clone();
            std::thread::spawn(move || {
                let mut space = [0; 64];
                while let Ok(count @ 1..) = socket.read(&mut space) {
                    told.lock().unwrap().push(space[..count].to_vec());
                    let _ = socket.write_all(b"answer\n");
                }
            });
            true
        });
        let wire = Wire::to(SocketAddr::from(([127, 0, 0, 1], port)));
        let is_heard = |word: &'static [u8]| heard.lock().unwrap().iter().any(|bytes| bytes == word);
        for (line, word) in [(Line::CutAtCommit, b"1COMMIT\0"), (Line::LateCommit, b"2COMMIT\0")] {
            wire.set(line);
            let socket = dial(wire.port());
            (&socket).write_all(b"else").unwrap();
            until("the wire carries the rest", PATIENCE, || is_heard(b"else").then_some(()));
            heard.lock().unwrap().clear();
            (&socket).write_all(word).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(matches!((&socket).read(&mut [0; 8]), Ok(0) | Err(_)), "{line:?}: it is cut");
            if line == Line::LateCommit {
                assert!(!is_heard(word), "it is kept");
                wire.set(Line::Open);
            }
            until("the commit comes through", PATIENCE, || is_heard(word).then_some(()));
        }
    }

    #[test]
    fn a_balancer_takes_turns_and_passes_by_who_is_not_there() {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let balancer = Balancer::over(vec![parrot("a"), nobody, parrot("b")]);
        let answer = || {
            let socket = dial(balancer.addr().port());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            say(&socket, "x").unwrap()
        };
        let heard: std::collections::BTreeSet<String> = (0..6).map(|_| answer()).collect();
        assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["a x", "b x"]);
    }
}
