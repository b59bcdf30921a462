//! `grpc` in the config. gRPC is served in any case; this is about its addresses.

use std::net::SocketAddr;

use anyhow::bail;
use gateway::settings::GrpcCard;
use schemars::JsonSchema;
use serde::Deserialize;

/// gRPC, which is served at `listen` in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Grpc {
    /// A second address to listen on, with the same services as the first. Default none.
    #[serde(deserialize_with = "crate::listen::read")]
    #[schemars(with = "crate::listen::Address")]
    pub(crate) listen: Option<SocketAddr>,
    /// List the interface on agent cards. Default false: some clients refuse a whole card that names an interface of
    /// another origin or an address without a scheme.
    advertise: bool,
    /// The `host:port` that cards name. Default: that of the request for the card.
    public: Option<String>,
}

impl Grpc {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if let Some(public) = &self.public {
            let parts = public.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains(['/', '@', ' ']));
            if parts.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                bail!("grpc.public: {public:?} is not host:port; write agents.example:443");
            }
        }
        Ok(())
    }

    /// The interface on cards, if they list it.
    pub(crate) fn card(&self) -> Option<GrpcCard> {
        self.advertise.then(|| GrpcCard { public: self.public.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_is_a_host_and_a_port() {
        let check = |public: &str| Grpc { public: Some(public.to_owned()), ..Grpc::default() }.check().is_ok();
        assert!(check("agents.example:443") && check("[::1]:9090"));
        assert!(!check("agents.example") && !check("https://agents.example:443") && !check("a@b:1") && !check(""));
    }
}
