//! Code shared by the generations before 1.0.
//!
//! They say the same things in four forms, which differ in names and in what they leave out: see [`PreV1Form`]. One set of
//! shapes reads them all, one writer writes them all, and the folders of the dialects ([`crate::a2a_v0_3`],
//! [`crate::a2a_v0_1`], [`crate::a2a_v0`]) hold what is their own: methods, routes, errors.
//!
//! * `shapes` and [`decode`] read what callers send; [`read`] what other servers answer, and [`request`] asks them.
//! * [`encode`] writes tasks, messages and events.
//! * [`marks`] keeps in `metadata` what a form has no member for.
//! * [`names`] spells states and roles.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod push;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod shapes;

/// How a generation before 1.0 spells what all of them say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreV1Form {
    /// 0.2 and 0.3 over JSON-RPC: `kind` tells objects apart, states in kebab-case.
    Kind,
    /// 0.2 and 0.3 over HTTP+JSON: protobuf's JSON; the member's name tells objects apart.
    Proto,
    /// 0.1: `type` on parts, the caller's own ids, `sessionId`, no message ids.
    Type,
    /// Everything 0.1 and 0.3 readers look for at once, for the methods whose names they share.
    Both,
}

impl PreV1Form {
    /// Objects carry `kind`.
    fn has_kind(self) -> bool {
        matches!(self, PreV1Form::Kind | PreV1Form::Both)
    }

    /// Parts carry `type`, artifacts `index`, chunks their flags inside the artifact; only the states of 0.1 exist.
    fn has_type(self) -> bool {
        matches!(self, PreV1Form::Type | PreV1Form::Both)
    }

    fn is_proto(self) -> bool {
        self == PreV1Form::Proto
    }

    /// Messages and artifacts have ids and extensions, and say which context they belong to.
    fn has_ids(self) -> bool {
        self != PreV1Form::Type
    }

    /// A data part holds an object and nothing else. (The first generation takes any JSON.)
    fn wants_objects(self) -> bool {
        self != PreV1Form::Type
    }
}
