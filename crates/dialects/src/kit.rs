//! Building blocks of the A2A codecs, for dialects that products bring along: reading JSON into shapes, ids and routes, and
//! the messages, tasks and wires of the generations.
//!
//! This module is no part of the crate's interface. It changes with the codecs.

/// Readers that [`shape!`](crate::shape) makes name it.
pub use serde;

pub use crate::wire::shown_status;

/// Members of any object as nouns.
pub mod fields {
    pub use crate::framing::fields::{history, optional_id, optional_id_text, push_page_size, required_id};
}

/// Paths, verbs and queries of HTTP+JSON bindings.
pub mod route {
    pub use crate::framing::route::{Parameters, VerbOperation, choose, either, id_of, only, unknown};
}

/// Shapes of JSON objects and their readers.
pub mod shape {
    pub use crate::framing::shape::{Any, BoundedList as List, EnumName as Name, Int, Object, Text, read, shortened};
    pub use crate::shape;
}

/// Messages, tasks and the wire of 1.0.
pub mod v1 {
    pub use crate::a2a_v1::decode::{push_create, send};
    pub use crate::a2a_v1::encode::{artifact, push_config, said, status, stream_event_as};
    pub use crate::a2a_v1::shapes::state_name;
    pub use crate::a2a_v1::wire::WIRE;

    /// Objects of requests.
    pub mod shapes {
        pub use crate::a2a_v1::shapes::{
            Authentication, Configuration, MAX_NAMES, MAX_PARTS, Message, Part, PushConfig, SendMessageRequest,
        };
    }
}

/// Messages and wires of the generations before 1.0.
pub mod pre_v1 {
    pub use crate::compat::PreV1Form;
    pub use crate::compat::decode::PreV1Decoder;
    pub use crate::pre_v1::PreV1Wire;

    /// Objects of requests.
    pub mod shapes {
        pub use crate::compat::shapes::{Message, Send};
    }
}
