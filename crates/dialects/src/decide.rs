//! Which dialect a request speaks, where one URL serves them all.
//!
//! A stated `A2A-Version` decides. Without one the method's name or the route does: every generation has names of its
//! own, but for three that 0.1 and 0.3 share. There the dialect that opened the task decides, and if that is neither, the
//! answer is one that both can read. Nothing here looks anything up: [`Decided::Opener`] asks the caller to.

use model::{Fault, Kind};

use crate::a2a_v1::version;
use crate::framing::shape::shortened;
use crate::wire::JsonWire;
use crate::{a2a_v0, a2a_v0_1, a2a_v0_3, a2a_v1};

/// The versions a request may state, as faults list them.
pub const SUPPORTED_VERSIONS: &str = "1.0, 0.3";

/// Major and minor of a stated version.
pub type Version = (u32, u32);

/// Reads `A2A-Version` from the header and the query parameter of that name, which may both stand there if they agree.
/// `None` when neither says anything.
///
/// Only Major.Minor counts. 0.2 is answered as 0.3 is; 0.1 has no header to be stated in.
pub fn stated(header: Option<&str>, query: Option<&str>) -> Result<Option<Version>, Fault> {
    match (supported(header)?, supported(query)?) {
        (None, None) => Ok(None),
        (Some(version), None) | (None, Some(version)) => Ok(Some(version)),
        (Some(a), Some(b)) if a == b => Ok(Some(a)),
        (Some(_), Some(_)) => Err(unsupported("the A2A-Version of the header and of the query differ".to_owned())),
    }
}

fn supported(text: Option<&str>) -> Result<Option<Version>, Fault> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match version::parse(text) {
        Some(version @ ((1, 0) | (0, 2 | 3))) => Ok(Some(version)),
        Some(_) => Err(unsupported(format!("A2A-Version {} is not supported here", shortened(text, 32)))),
        None => Err(unsupported(format!("A2A-Version {:?} is not one version number", shortened(text, 32)))),
    }
}

/// The fault for a version that is not served, or not with this method or route.
pub fn unsupported(message: String) -> Fault {
    Fault::new(Kind::VersionNotSupported, message).fact("supportedVersions", SUPPORTED_VERSIONS)
}

/// The dialect of a request, as far as it is known before anything is looked up.
#[derive(Clone, Copy, Debug)]
pub enum Decided {
    Wire(&'static dyn JsonWire),
    /// One of the names two generations share: ask which dialect opened the task, then [`by_opener`].
    Opener,
}

impl Decided {
    /// The wire, given the dialect that opened the task; `None` if it is unknown.
    pub fn resolve(self, opened_by: Option<&str>) -> &'static dyn JsonWire {
        match self {
            Decided::Wire(wire) => wire,
            Decided::Opener => by_opener(opened_by),
        }
    }
}

/// A request that cannot be, with the wire to say so in.
#[derive(Debug)]
pub struct WireFault {
    pub wire: &'static dyn JsonWire,
    pub fault: Fault,
}

/// The dialect to complain in about an envelope that has no method yet.
pub fn by_version(stated: Option<Version>) -> &'static dyn JsonWire {
    match stated {
        Some((0, _)) => &a2a_v0_3::RPC,
        Some(_) | None => &a2a_v1::WIRE,
    }
}

/// The dialect of a JSON-RPC method. A method that exists nowhere goes to the dialect its name looks like, which will not
/// find it.
// The error is looked at once, by the one caller there is; a box would only add an allocation.
#[allow(clippy::result_large_err)]
pub fn decide(method: &str, stated: Option<Version>) -> Result<Decided, WireFault> {
    let newest: &'static dyn JsonWire = &a2a_v1::WIRE;
    let by_name = by_name(method);
    match stated {
        None => Ok(by_name),
        // Names of other generations do not exist in 1.0.
        Some((1, _)) => Ok(Decided::Wire(newest)),
        Some(version) => match by_name {
            Decided::Wire(wire) if wire.name() == a2a_v1::NAME => {
                let (major, minor) = version;
                let method = shortened(method, 64);
                let message = format!("{method} is a method of A2A 1.0, and A2A-Version says {major}.{minor}");
                Err(WireFault { wire: newest, fault: unsupported(message) })
            }
            Decided::Wire(_) | Decided::Opener => Ok(Decided::Wire(&a2a_v0_3::RPC)),
        },
    }
}

/// The dialect a name belongs to, or looks like.
fn by_name(method: &str) -> Decided {
    if a2a_v0::METHODS.contains(&method) {
        Decided::Opener
    } else if a2a_v0_1::METHODS.contains(&method) {
        Decided::Wire(&a2a_v0_1::RPC)
    } else if a2a_v0_3::METHODS.contains(&method) || method.contains('/') {
        Decided::Wire(&a2a_v0_3::RPC)
    } else {
        Decided::Wire(&a2a_v1::WIRE)
    }
}

/// The dialect to answer in when only the task can tell.
pub fn by_opener(opened_by: Option<&str>) -> &'static dyn JsonWire {
    match opened_by {
        Some(a2a_v0_3::NAME | a2a_v0_3::REST_NAME | a2a_v0_3::grpc::GRPC_NAME) => &a2a_v0_3::RPC,
        Some(a2a_v0_1::NAME) => &a2a_v0_1::RPC,
        Some(_) | None => &a2a_v0::RPC,
    }
}

/// The dialect of an HTTP+JSON path below the interface's base. Below `/v1` stands 0.3, unless the caller says that it
/// speaks 1.0: then `v1` is a tenant.
#[allow(clippy::result_large_err)]
pub fn decide_route(path: &str, stated: Option<Version>) -> Result<&'static dyn JsonWire, WireFault> {
    let newest: &'static dyn JsonWire = &a2a_v1::WIRE;
    match stated {
        Some((1, _)) => Ok(newest),
        None | Some(_) if a2a_v0_3::rest::is_ours(path) => Ok(&a2a_v0_3::REST),
        None => Ok(newest),
        Some((major, minor)) => {
            let message = format!("this route is one of A2A 1.0, and A2A-Version says {major}.{minor}");
            Err(WireFault { wire: newest, fault: unsupported(message) })
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
