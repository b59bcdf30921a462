//! Parses listen addresses: `127.0.0.1:8080`, `8080`, `:8080`, `localhost:8080`. A port alone means loopback: other
//! machines reach the server only where its address is given in full.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserializer;
use serde::de::{Error, Visitor};

const FORMS: &str =
    "write 127.0.0.1:8080, 8080, :8080 or localhost:8080, or 0.0.0.0:8080 for every address of this machine";

/// Parses an address; the error shows the form that was probably meant.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.trim_end_matches('/');
        return Err(format!("an address has no {scheme}:// before it; write {rest}"));
    }
    // An IPv6 address contains colons, so it is tried before a port.
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let written = SocketAddr::new(ip, 8080);
        return Err(format!("the port is missing; write {written}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => ("", text),
        None if text.eq_ignore_ascii_case("localhost") => {
            return Err("the port is missing; write localhost:8080".into());
        }
        None => return Err(format!("this is no address; {FORMS}")),
    };
    let port: u16 = match port.parse() {
        Ok(port) => port,
        Err(_) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("there is no port {port}; choose one from 1 to 65535"));
        }
        Err(_) => return Err(format!("{port:?} is no port; {FORMS}")),
    };
    if host.is_empty() || host.eq_ignore_ascii_case("localhost") {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    if host == "*" {
        return Err(format!("for every address of this machine write 0.0.0.0:{port}"));
    }
    Err(format!("{host:?} is no address of this machine that can be listened on; {FORMS}"))
}

/// Deserializes `listen`, where a port may be a number.
pub(crate) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SocketAddr>, D::Error> {
    struct Either;
    impl Visitor<'_> for Either {
        type Value = Option<SocketAddr>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "an address to listen on; {FORMS}")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            parse(text).map(Some).map_err(E::custom)
        }
        fn visit_u64<E: Error>(self, port: u64) -> Result<Self::Value, E> {
            parse(&port.to_string()).map(Some).map_err(E::custom)
        }
        fn visit_i64<E: Error>(self, port: i64) -> Result<Self::Value, E> {
            parse(&port.to_string()).map(Some).map_err(E::custom)
        }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    d.deserialize_any(Either)
}

/// The schema of `listen`.
pub(crate) struct Address;

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "ListenAddress".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer", "null"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_address_may_be_a_port_alone_or_on_localhost() {
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:1", "127.0.0.1:1"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:65535", "0.0.0.0:65535"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(parse(text), Ok(address), "{text}");
            for yaml in [format!("listen: {text}\n"), format!("listen: '{text}'\n")] {
                // In YAML an address that begins with a bracket is a list.
                if !yaml.contains(" [") {
                    let read = Config::parse(&yaml).unwrap_or_else(|error| panic!("{yaml}: {error:#}"));
                    assert_eq!(read.listen, Some(address), "{yaml}");
                }
            }
        }
        assert_eq!(Config::parse("listen:\n").unwrap().listen, None);
    }

    #[test]
    fn a_mistake_is_told_with_the_form_that_was_meant() {
        for (text, says) in [
            ("99999", "no port 99999; choose one from 1 to 65535"),
            (":99999", "no port 99999"),
            ("localhost", "write localhost:8080"),
            ("127.0.0.1", "write 127.0.0.1:8080"),
            ("::1", "write [::1]:8080"),
            ("[::1]", "write [::1]:8080"),
            ("*:8080", "write 0.0.0.0:8080"),
            ("http://localhost:8080/", "no http:// before it; write localhost:8080"),
            ("example.com:8080", "\"example.com\" is no address of this machine"),
            ("localhost:http", "\"http\" is no port"),
            ("-1", "this is no address"),
            ("here", "write 127.0.0.1:8080, 8080, :8080 or localhost:8080"),
            ("", "write 127.0.0.1:8080"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(says), "{text:?}: {said}");
            let said = format!("{:#}", Config::parse(&format!("listen: '{text}'\n")).unwrap_err());
            assert!(said.contains(says), "{text:?} in a config: {said}");
        }
        let said = format!("{:#}", Config::parse("listen: 99999\n").unwrap_err());
        assert!(said.contains("no port 99999"), "{said}");
        assert!(Config::parse("listen: -1\n").is_err() && Config::parse("listen: [1]\n").is_err());
    }
}
