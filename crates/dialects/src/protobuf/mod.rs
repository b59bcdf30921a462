//! Protobuf's binary encoding, for the gRPC form of each generation.
//!
//! * [`writer`] writes messages field by field into one buffer; [`reader`] reads the fields of a message.
//! * [`value`] turns the JSON of metadata and data into `google.protobuf.Struct` and `Value`, and back.
//! * [`text`] writes a message in protobuf's text form, for people.
//! * [`status`] has the codes of gRPC and `google.rpc.Status` with its details.
//!
//! Messages are written from the model's nouns and read into them, as JSON is: no generated types stand in between. Opaque
//! objects keep the order of their members, nesting has a limit of its own, and an event is encoded once for all readers.
//! The definitions in `proto/` are the reference; tests decode with them what is written here.

pub mod reader;
pub mod status;
pub mod text;
pub mod value;
pub mod writer;

pub use reader::{FieldValue, Fields};
pub use status::{DOMAIN, RpcCode, RpcStatus};
pub use writer::{Contents, LoadedContent, ProtoWriter};

/// The definitions of both packages, and of health and reflection, as a `FileDescriptorSet`, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
