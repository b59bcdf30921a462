//! Test servers: Rialto in this process, a proxy to it whose connections can be cut, and a server with scripted
//! answers.
#![allow(dead_code)] // Each test binary uses some of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use gateway::accept::{self, Accept};
use gateway::settings::{KeySettings, Settings};
use model::Limits;
use model::ports::agent::Agent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Rialto, serving in this process.
pub(crate) struct House {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    accept: Arc<Accept>,
}

impl House {
    pub(crate) async fn scripted() -> House {
        House::serving(vec![agents::builtin("scripted", &agents::BuiltinSettings::default()).unwrap()], &[]).await
    }

    pub(crate) async fn with_key(key: &str) -> House {
        House::serving(vec![agents::builtin("scripted", &agents::BuiltinSettings::default()).unwrap()], &[key]).await
    }

    /// The first of the agents is mounted at the root.
    pub(crate) async fn serving(agents: Vec<Arc<dyn Agent>>, keys: &[&str]) -> House {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let names: Vec<Arc<str>> = agents.iter().map(|agent| agent.profile().name.clone()).collect();
        let limits = Limits { cancel_grace_ms: 2_000, ..Limits::default() };
        let engine = Engine::builder(store).agents(agents).limits(limits).start().await.unwrap();
        let listener = accept::bind(([127, 0, 0, 1], 0).into(), 64).unwrap();
        let address = listener.local_addr().unwrap();
        let key = |secret: &&str| KeySettings {
            name: "k".into(),
            tenant: "acme".into(),
            secret: (*secret).to_owned(),
            scopes: vec![],
            expires_at: None,
        };
        let settings = Settings {
            listen: address,
            auth_required: !keys.is_empty(),
            keys: keys.iter().map(key).collect(),
            cache_bytes: 0,
            heartbeat_ms: 200,
            ..Settings::test(&names.iter().map(|name| &**name).collect::<Vec<_>>())
        };
        let log = gateway::log::Sink::stderr(false, false).unwrap();
        let server = gateway::GatewayVersion::new(engine.clone(), settings, log).unwrap();
        let accept = Arc::new(Accept::new(server));
        tokio::spawn({
            let accept = accept.clone();
            async move { accept.run(listener).await }
        });
        House { url: format!("http://{address}"), address, engine, accept }
    }

    /// Stops accepting connections.
    pub(crate) fn close(&self) {
        self.accept.shutdown.cancel();
    }
}

/// A proxy to a server whose connections can be cut and restored.
pub(crate) struct Wire {
    pub(crate) url: String,
    cut: watch::Sender<(u64, bool)>,
}

impl Wire {
    pub(crate) async fn to(server: SocketAddr) -> Wire {
        Wire::from(TcpListener::bind("127.0.0.1:0").await.unwrap(), server)
    }

    /// A proxy at a given URL.
    pub(crate) async fn at(url: &str, server: SocketAddr) -> Wire {
        let address = url.strip_prefix("http://").unwrap();
        Wire::from(TcpListener::bind(address).await.unwrap(), server)
    }

    fn from(listener: TcpListener, server: SocketAddr) -> Wire {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (cut, state) = watch::channel((0, true));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut state = state.clone();
                tokio::spawn(async move {
                    let (cuts, whole) = *state.borrow();
                    if !whole {
                        return;
                    }
                    let Ok(far) = TcpStream::connect(server).await else { return };
                    let (mut near, mut far) = (near, far);
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = state.wait_for(|(now, _)| *now != cuts) => {}
                    }
                });
            }
        });
        Wire { url, cut }
    }

    /// Breaks every open connection.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|(cuts, _)| *cuts += 1);
    }

    /// Breaks every connection, now and from now on.
    pub(crate) fn sever(&self) {
        self.cut.send_modify(|(cuts, whole)| (*cuts, *whole) = (*cuts + 1, false));
    }

    pub(crate) fn mend(&self) {
        self.cut.send_modify(|(_, whole)| *whole = true);
    }
}

/// A request as a scripted server sees it.
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Asked {
    /// The method of a JSON-RPC request.
    pub(crate) fn method(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["method"].as_str().unwrap_or_default().to_owned()
    }
}

/// The answer of a scripted server.
pub(crate) enum Say {
    Json(u16, String),
    /// A stream of these pieces.
    Events(Vec<String>),
    /// The pieces, and then silence on an open connection.
    EventsThenSilence(Vec<String>),
    Silence,
    /// The connection is closed without an answer.
    HangUp,
}

/// A server with scripted answers. Serves one request per connection.
pub(crate) async fn fake(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let Some(asked) = read(&mut stream).await else { return };
                let say = answer(&asked);
                let head = |status: u16, media: &str| {
                    format!("HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n")
                };
                let (text, stays) = match say {
                    Say::Json(status, body) => (head(status, "application/json") + &body, false),
                    Say::Events(pieces) => (head(200, "text/event-stream") + &pieces.concat(), false),
                    Say::EventsThenSilence(pieces) => (head(200, "text/event-stream") + &pieces.concat(), true),
                    Say::Silence => (String::new(), true),
                    Say::HangUp => return,
                };
                let _ = stream.write_all(text.as_bytes()).await;
                if stays {
                    // Until the client disconnects.
                    let _ = stream.read(&mut [0]).await;
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    url
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let n = stream.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
            return Some(Asked { verb, path, headers, body: body.to_owned() });
        }
    }
}

/// Polls until `look` returns a value; fails the test after a limit.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.unwrap_or_else(|_| panic!("it never came: {what}"))
}
