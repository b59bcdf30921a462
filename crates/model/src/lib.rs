//! The domain types of Rialto and their rules.
//!
//! A task's state is an append-only log of [`Event`]s; the [`Task`] is a fold of that log. A caller's request is a
//! [`Call`], an error is a [`Fault`], and everything outside the engine is behind a port ([`ports`]).
//!
//! This crate is pure: no I/O, no clock, no randomness, no wire. Its types are never serialised to a caller; the only
//! serialisation here is the log's own format, in [`stored`].

pub mod access;
pub mod call;
pub mod content;
pub mod depth;
pub mod event;
pub mod fault;
pub mod ids;
pub mod json;
pub mod latency;
pub mod limits;
pub mod memory;
mod on_off;
pub mod ports;
pub mod push;
pub mod reach;
pub mod record;
pub mod stored;
pub mod task;
pub mod text;

pub use access::AccessKey;
pub use call::{
    Again, Call, CallScope, Caller, Cancel, Get, Ids, List, PushCall, PushConfig, Send, Subscribe, Visibility, Wait,
};
pub use content::{Artifact, Blob, BlobKind, Content, Message, Part, Role};
pub use event::{Body, Chunk, Event, Inbound, Opened, StatusChange};
pub use fault::{Fault, Kind};
pub use ids::{ContextId, Epoch, EventId, Seq, TaskId, Time, TurnId, View};
pub use json::Json;
pub use latency::{LatencyCounts, LatencySnapshot};
pub use limits::Limits;
pub use memory::{MemoryBudget, MemoryShare};
pub use on_off::OnOff;
pub use push::{PushChange, PushProgress, PushRow, PushSpec, PushStanding, PushState};
pub use record::{AccountLine, Balance, Entry, Expect, Listed, Posting, Record, RecordChange, RecordPage, RecordQuery};
pub use task::{Core, OpenTurn, Shape, State, Status, Task, TaskBilling, TransitionError};
pub use text::{TextChange, TextPage, TextPlace, TextQuery};
