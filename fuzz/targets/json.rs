//! The scan of JSON bodies, and the bodies of HTTP+JSON.
#![no_main]

use dialects::framing::scan;
use dialects::wire::JsonWire;
use libfuzzer_sys::fuzz_target;
use model::{Json, Limits};

const ROUTES: &[(&str, &str)] = &[
    ("POST", "/message:send"),
    ("POST", "/tasks/t/pushNotificationConfigs"),
    ("POST", "/tasks/t:cancel"),
    ("POST", "/v1/message:send"),
    ("POST", "/v1/tasks/t/pushNotificationConfigs"),
];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let Ok(text) = scan::scan(bytes, limits.json_depth) else { return };
    // Some requests are read without the white space around them, which here is that of ASCII.
    let text = text.trim_ascii();
    let is_json = Json::parse(text).is_some();
    let _ = scan::members(text).count();
    for (verb, path) in ROUTES {
        let wire: &dyn JsonWire = dialects::decide_route(path, None).expect("a route without a version");
        let route = wire.route(verb, path, None).expect("a route that is there");
        let decoded = route.decode(text, &limits);
        assert!(is_json || text.is_empty() || decoded.is_err(), "{path}: {text:?} is no JSON");
    }
});
