//! The gRPC forms for clients: one [`ProtoPeer`] for each generation, all of them in [`PROTO_PEERS`].
//!
//! A peer writes a [`Call`] as the message of a request, and reads the messages of answers into [`crate::seen`]. It never
//! frames: the length before each message, compression and connections are the client's.

use bytes::Bytes;
use model::{Call, Fault, Kind, Message, PushConfig};

use crate::card_read::CardSeen;
use crate::complaint::kind_by_name;
use crate::framing::shape::shortened;
use crate::peer::{PeerFacts, RequestOptions};
use crate::proto_answer::ProtoAnswers;
use crate::proto_json::{self, ProtoShape};
use crate::protobuf::{ProtoWriter, RpcCode, status};
use crate::seen::{ErrorSeen, PageSeen, Seen, TaskSeen, ill_formed};
use crate::wire::Operation;
use crate::{a2a_v0_3, a2a_v1, card_read, proto_wire};

/// Every form over gRPC that a server may take, the newest generation first.
pub static PROTO_PEERS: &[&ProtoPeer] = &[&a2a_v1::grpc::request::PEER, &a2a_v0_3::grpc::request::PEER];

/// One generation over gRPC, as its clients speak it.
#[derive(Debug)]
pub struct ProtoPeer {
    pub(crate) facts: PeerFacts,
    /// The full name of its service.
    pub(crate) service: &'static str,
    pub(crate) methods: &'static [(&'static str, Operation)],
    /// Writes the message of a call that has a method.
    pub(crate) write: fn(&mut ProtoWriter<'_>, &Call, &RequestOptions<'_>),
    pub(crate) answers: ProtoAnswers,
    pub(crate) card: ProtoShape,
    pub(crate) push_config: ProtoShape,
}

/// A request over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtoRequest {
    pub operation: Operation,
    /// `/package.Service/Method`.
    pub path: String,
    /// The message, without a frame.
    pub message: Bytes,
    /// Metadata.
    pub headers: Vec<(&'static str, String)>,
}

impl ProtoPeer {
    pub fn facts(&self) -> &PeerFacts {
        &self.facts
    }

    /// Writes a call as a request.
    pub fn ask(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<ProtoRequest, Fault> {
        let operation = Operation::from(call);
        let method = self.methods.iter().find(|(_, of)| *of == operation).map(|(name, _)| *name);
        let Some(method) = method else { return Err(self.facts.without("lists of tasks")) };
        if let Call::Send(send) | Call::Stream(send) = call {
            check_loaded(&send.message)?;
        }
        let mut w = ProtoWriter::default();
        (self.write)(&mut w, call, asking);
        Ok(ProtoRequest {
            operation,
            path: format!("/{}/{method}", self.service),
            message: w.finish().into(),
            headers: self.facts.headers(asking),
        })
    }

    /// The answer to a send.
    pub fn read_sent(&self, message: &[u8]) -> Result<Seen, Fault> {
        self.answers.seen(message).map_err(ill_formed)?.ok_or_else(|| {
            Fault::new(Kind::InvalidAgentResponse, "expected one of task, message, status_update, artifact_update")
        })
    }

    /// A message of a stream. One of a kind that is not known is passed on as it came.
    pub fn read_event(&self, message: &[u8]) -> Result<Seen, Fault> {
        let seen = self.answers.seen(message).map_err(ill_formed)?;
        Ok(seen.unwrap_or_else(|| proto_json::unknown_event(message)))
    }

    /// The answer to a get or a cancel.
    pub fn read_task(&self, message: &[u8]) -> Result<TaskSeen, Fault> {
        self.answers.bare_task(message).map_err(ill_formed)
    }

    /// A page of a list.
    pub fn page(&self, message: &[u8]) -> Result<PageSeen, Fault> {
        self.answers.page(message).map_err(ill_formed)
    }

    pub fn push_config(&self, message: &[u8]) -> Result<PushConfig, Fault> {
        let json = proto_json::object(self.push_config, message).map_err(ill_formed)?;
        crate::seen::push_config_of(&json)
    }

    /// All push configs of a task, and the token of the next page.
    pub fn push_configs(&self, message: &[u8]) -> Result<(Vec<PushConfig>, Option<String>), Fault> {
        let json = proto_json::page_of(self.push_config, message).map_err(ill_formed)?;
        crate::seen::push_configs_of(&json)
    }

    pub fn card(&self, message: &[u8]) -> Result<CardSeen, Fault> {
        let json = proto_json::object(self.card, message).map_err(ill_formed)?;
        card_read::read_value(&json)
    }
}

/// Large content must have been loaded: a request cannot point into a store.
fn check_loaded(message: &Message) -> Result<(), Fault> {
    match proto_wire::blobs_of_message(message).next() {
        None => Ok(()),
        Some(_) => Err(Fault::internal("a request refers to content that was not loaded")),
    }
}

/// The error of a call that ended with this status. `details` is an encoded `google.rpc.Status`, or nothing.
///
/// The reason says most. Servers of 0.3 have no reasons, but begin their words with the name of the error. Codes come last:
/// the versions of the protocol disagree on them.
pub fn refusal(code: i64, message: &str, details: &[u8], operation: Operation) -> ErrorSeen {
    /// A server's own words are kept up to here.
    const WORDS: usize = 2_048;
    let reason = status::reason_of(details).map(|reason| shortened(&reason, 128));
    let named = message.split_once(": ").filter(|(name, _)| name.ends_with("Error"));
    let named = named.and_then(|(name, words)| Some((kind_by_name(name)?, words)));
    let rpc = RpcCode::of(code);
    let by_name = reason.as_deref().and_then(kind_by_name).or(named.map(|(kind, _)| kind));
    let kind = match by_name.or_else(|| kind_by_code(rpc, message, operation)) {
        // A settled task shares its reason with everything that is not supported.
        Some(Kind::TaskSettled) => Some(Kind::Unsupported),
        kind => kind,
    };
    let message = match named.map_or(message, |(_, words)| words) {
        "" => format!("the call ended with {} and no message", rpc.name()),
        said => shortened(said, WORDS),
    };
    ErrorSeen { code, message, reason, kind }
}

fn kind_by_code(code: RpcCode, message: &str, operation: Operation) -> Option<Kind> {
    match code {
        RpcCode::Ok => Some(Kind::InvalidAgentResponse),
        RpcCode::Cancelled | RpcCode::DeadlineExceeded | RpcCode::Unavailable | RpcCode::Aborted => {
            Some(Kind::Unavailable)
        }
        RpcCode::InvalidArgument | RpcCode::OutOfRange | RpcCode::AlreadyExists => Some(Kind::InvalidParams),
        RpcCode::NotFound => Some(Kind::TaskNotFound),
        RpcCode::PermissionDenied => Some(Kind::Forbidden),
        RpcCode::Unauthenticated => Some(Kind::Unauthenticated),
        // Libraries of gRPC end a call so whose message is too large for them.
        RpcCode::ResourceExhausted if message.contains("larger than max") => Some(Kind::TooLarge),
        RpcCode::ResourceExhausted => Some(Kind::RateLimited),
        RpcCode::FailedPrecondition if operation == Operation::Cancel => Some(Kind::TaskNotCancelable),
        RpcCode::FailedPrecondition if operation == Operation::ExtendedCard => Some(Kind::ExtendedCardNotConfigured),
        RpcCode::FailedPrecondition => Some(Kind::Unsupported),
        // Libraries of gRPC answer so where the server has no such service or method.
        RpcCode::Unimplemented => Some(Kind::MethodNotFound),
        RpcCode::Internal => Some(Kind::Internal),
        RpcCode::Unknown | RpcCode::DataLoss => None,
    }
}
