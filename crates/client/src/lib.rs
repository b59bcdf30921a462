//! A client for A2A agents of every generation: 1.0, 0.3, 0.2 and 0.1, over JSON-RPC, HTTP+JSON and gRPC.
//!
//! Given a URL, it finds the agent's card and chooses the newest interface that both sides support. Its types are those of
//! [`model`]: a request is a [`model::Send`], an answer is the server's view of the task ([`dialects::seen`]). Without a
//! card it tries the generations, the newest first.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Client, Options, say};
//! use client::seen::Seen;
//!
//! let client = Client::new(Options::new("http://127.0.0.1:8080"))?;
//! let mut events = client.stream(&say("hello")).await?;
//! let mut heard = String::new();
//! while let Some(event) = events.next().await {
//!     if let Seen::Artifact { artifact, .. } = event?.seen {
//!         heard.extend(artifact.parts.iter().filter_map(|part| part.as_text()));
//!     }
//! }
//! assert_eq!(heard, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! * [`Options`] has the URL, the credentials and the time limits; `discover` finds the interface.
//! * `calls` has one method for each operation; `events` reads streams; `grpc` carries both over gRPC.
//! * [`Error`] separates the server's errors from those of the connection. It contains no secrets.

mod calls;
mod discover;
mod error;
mod events;
mod grpc;
mod http;
mod options;

pub use dialects::card::{Binding, InterfaceBinding};
pub use dialects::card_read::{BindingSeen, CardSeen, InterfaceSeen, SchemeKind};
pub use dialects::peer::Generation;
pub use dialects::seen;
pub use discover::RemoteInterface;
pub use error::{Error, FailureStage};
pub use events::{Events, PeerEvent};
pub use options::{ClientTimeouts, Options, PeerCredentials, shown};

use std::sync::Arc;

use model::{Message, Part, Role, Send};
use uuid::Uuid;

/// A handle on one remote agent; cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    http: reqwest::Client,
    /// For gRPC: without TLS, and with it.
    grpc: [std::sync::OnceLock<grpc::GrpcClient>; 2],
    target: tokio::sync::Mutex<Option<Arc<RemoteInterface>>>,
    /// Envelopes are numbered, so that a log of the wire is readable.
    asked: std::sync::atomic::AtomicU64,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// A send of one text, which waits for its answer.
pub fn say(text: impl Into<String>) -> Send {
    Send::new(Message {
        id: Uuid::now_v7().to_string().into(),
        role: Role::User,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    })
}
